#include "storage/ledger_view.hpp"

#include <unordered_set>
#include <utility>

namespace dualpath::storage {
namespace {

/// As much of a name as a directory needs.
block_name name_of(const ledger_entry& entry) {
  return {
      .key = entry.key, .parent = entry.parent.value_or(core::block_key{}), .depth = entry.parent ? 1U : 0U};
}

} // namespace

void ledger_view::unreserve(const core::block_key& key) {
  if (reserved_.erase(key) > 0) directory_.unpin({&key, 1});
}

void ledger_view::take_away(const core::block_key& key,
                            const std::function<void(const core::block_key&)>& lost) {
  unreserve(key);
  if (directory_.erase(key) && lost) lost(key);
}

void ledger_view::apply(const ledger_entry& entry) {
  leaving_.erase(entry.key);
  if (entry.what == ledger_change::stored) unreserve(entry.key);
  directory_.insert(name_of(entry));
  if (entry.what == ledger_change::reserved && reserved_.insert(entry.key).second)
    directory_.pin({&entry.key, 1});
}

void ledger_view::apply(const block_ledger::news& news, const own_work& own,
                        const std::function<void(const core::block_key&)>& lost) {
  if (news.restarted) restart(news, own, lost);
  for (auto& entry : news.entries) {
    switch (entry.what) {
    case ledger_change::reserved:
      if (!own.contains(entry.key)) apply(entry);
      break;
    case ledger_change::stored:
      if (!own.removing.contains(entry.key)) apply(entry);
      break;
    case ledger_change::used:
      directory_.touch({&entry.key, 1});
      break;
    case ledger_change::leaving:
      take_away(entry.key, lost);
      if (!own.removing.contains(entry.key)) leaving_.insert(entry.key);
      break;
    case ledger_change::gone:
      take_away(entry.key, lost);
      leaving_.erase(entry.key);
      break;
    }
  }
}

void ledger_view::restart(const block_ledger::news& news, const own_work& own,
                          const std::function<void(const core::block_key&)>& lost) {
  (void)take_over_unfinished(); // all that goes on is told again
  std::unordered_set<core::block_key> named;
  for (auto& entry : news.entries) named.insert(entry.key);
  for (auto& known : directory_.by_age())
    if (!named.contains(known.key) && !own.contains(known.key)) take_away(known.key, lost);
}

std::set<core::block_key> ledger_view::take_over_unfinished() {
  for (auto& key : reserved_) directory_.unpin({&key, 1});
  reserved_.clear();
  return std::exchange(leaving_, {});
}

std::vector<ledger_entry> ledger_view::everything(const own_work& own) const {
  std::vector<ledger_entry> all;
  for (auto& [key, name] : own.writing) all.push_back(entry_of(ledger_change::reserved, name));
  for (auto& name : directory_.by_age())
    all.push_back(
        entry_of(reserved_.contains(name.key) ? ledger_change::reserved : ledger_change::stored, name));
  for (auto& key : leaving_) all.push_back({ledger_change::leaving, key, {}});
  for (auto& key : own.removing) all.push_back({ledger_change::leaving, key, {}});
  return all;
}

} // namespace dualpath::storage
