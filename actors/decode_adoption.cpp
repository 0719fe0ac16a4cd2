// Landings whose hit blocks outlive an attempt: kept when its prefill engine died, or when one side could not
// read its part, and adopted by the next attempt under its epoch. Kept landings are a cache: they go as soon
// as somebody waits for slots, so that nobody ever waits for them.
#include "actors/decode_engine.hpp"

#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

landing_area& decode_engine_state::move_landing(const landing_key& from, const landing_key& to) {
  auto node = landings.extract(from);
  node.key() = to;
  return landings.insert(std::move(node)).position->second;
}

std::optional<landing_key> decode_engine_state::kept_landing(core::request_id request) const {
  for (auto place = landings.lower_bound({request, core::epoch{0}});
       place != landings.end() && place->first.first == request; ++place)
    if (place->second.kept && !place->second.closed) return place->first;
  return std::nullopt;
}

/// How many hit blocks are kept: read, or being read. Nothing of the attempt may be on its way to the landing
/// any more but our own reads.
std::uint32_t decode_engine_state::keep_landing(const landing_key& key) {
  auto found = landings.find(key);
  if (found == landings.end()) {
    // The next attempt has ended before it came here, or this is asked again.
    auto earlier = kept_landing(key.first);
    if (!earlier || earlier->second > key.second) return 0;
    return static_cast<std::uint32_t>(move_landing(*earlier, key).hits.size());
  }
  auto& area = found->second;
  auto useful = area.granted && !area.closed && !area.overdue && !area.hits.empty();
  if (!useful || claimed_slots > write_slots_begin) return 0;
  area.kept = true;
  area.opener = nullptr;
  area.good_blocks.reset();
  core::log_event(core::log_level::info, "hits_kept",
                  {{"engine", devices->engine},
                   {"request", key.first},
                   {"epoch", key.second},
                   {"first", 0},
                   {"blocks", area.hits.size()}});
  return static_cast<std::uint32_t>(area.hits.size());
}

/// Whether the landing asked for is the one that was kept for this request. One that does not fit is given
/// up.
bool decode_engine_state::adopt_landing(const proto::open_landing& ask, const proto::prefill_actor& prefill) {
  auto old = kept_landing(ask.request);
  if (!old || old->second >= ask.epoch) return false;
  auto& kept = landings.at(*old);
  auto fits = kept.slots.size() == settings->layout.blocks_for(ask.context_tokens)
              && kept.hits.size() <= ask.hits.size()
              && std::equal(kept.hits.begin(), kept.hits.end(), ask.hits.begin());
  if (!fits) {
    close_landing(*old);
    return false;
  }
  landing_key key{ask.request, ask.epoch};
  auto& area = move_landing(*old, key);
  area.kept = false;
  area.opener = prefill;
  area.adopted_blocks = static_cast<std::uint32_t>(area.hits.size());
  area.hits = ask.hits;
  area.unreadable = false; // what the last attempt could not read, this one tries again
  tell_landing(key, prefill);
  if (!area.busy) load_hits(key);
  return true;
}

/// Somebody waits for slots.
void decode_engine_state::close_kept() {
  std::vector<landing_key> kept;
  for (auto& [key, area] : landings)
    if (area.kept && !area.closed) kept.push_back(key);
  for (auto& key : kept) close_landing(key);
}

} // namespace dualpath::actors
