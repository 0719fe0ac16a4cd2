#include "core/policy/arbiter.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace dualpath::core {

namespace {

constexpr std::uint64_t weight_unit_bytes = 64;
constexpr std::uint64_t limit_unit_bytes = 4096;
/// The largest packet of InfiniBand: what one turn of the low table is meant to send.
constexpr std::uint64_t packet_bytes = 4096;
constexpr std::uint8_t unlimited = 255;

bool has_weight(const std::vector<arbiter_entry>& table, std::size_t lane) {
  return std::any_of(table.begin(), table.end(),
                     [&](const arbiter_entry& e) { return e.lane == lane && e.weight > 0; });
}

std::string table_text(const std::vector<arbiter_entry>& table) {
  std::string text;
  for (const auto& e : table) {
    if (!text.empty()) text += ',';
    text += std::to_string(e.lane) + ':' + std::to_string(e.weight);
  }
  return text;
}

bool waits(std::span<const std::uint64_t> head_bytes, lane_index lane) {
  return lane < head_bytes.size() && head_bytes[lane] > 0;
}

} // namespace

result<void> check_tables(const arbiter_tables& tables, std::size_t lanes) {
  constexpr std::size_t most_entries = 64;
  auto bad = [](std::string text) { return error{errc::invalid_argument, std::move(text)}; };
  for (const auto* table : {&tables.high, &tables.low}) {
    if (table->size() > most_entries)
      return bad("An arbiter table has " + std::to_string(table->size())
                 + " entries; InfiniBand takes at most 64.");
    for (const auto& e : *table)
      if (e.lane >= lanes)
        return bad("An arbiter table names lane " + std::to_string(e.lane) + ", but the lanes are 0 to "
                   + std::to_string(lanes - 1) + ".");
  }
  for (std::size_t lane = 0; lane < lanes; ++lane)
    if (!has_weight(tables.high, lane) && !has_weight(tables.low, lane))
      return bad("Lane " + std::to_string(lane)
                 + " has a weight in neither arbiter table and would never send; give it one.");
  return {};
}

result<std::vector<arbiter_entry>> parse_arbiter_table(std::string_view text) {
  std::vector<arbiter_entry> table;
  while (true) {
    auto comma = text.find(',');
    auto item = text.substr(0, comma);
    auto end = item.data() + item.size();
    arbiter_entry entry;
    auto lane = std::from_chars(item.data(), end, entry.lane);
    bool colon = lane.ec == std::errc{} && lane.ptr != end && *lane.ptr == ':';
    auto weight = colon ? std::from_chars(lane.ptr + 1, end, entry.weight) : lane;
    if (!colon || weight.ec != std::errc{} || weight.ptr != end)
      return error{errc::invalid_argument,
                   "'" + std::string{item}
                       + "' is not an entry of an arbiter table; write LANE:WEIGHT, as "
                         "in 2:64, weights from 0 to 255 in units of 64 bytes"};
    table.push_back(entry);
    if (comma == std::string_view::npos) return table;
    text.remove_prefix(comma + 1);
  }
}

std::string to_opensm_options(const arbiter_tables& tables, std::size_t lanes) {
  return "qos_max_vls " + std::to_string(lanes) + "\nqos_high_limit " + std::to_string(tables.high_limit)
         + "\nqos_vlarb_high " + table_text(tables.high) + "\nqos_vlarb_low " + table_text(tables.low) + "\n";
}

arbiter::round_robin::round_robin(std::span<const arbiter_entry> entries) {
  for (const auto& e : entries)
    if (e.weight > 0) entries_.push_back({e.lane, static_cast<std::int64_t>(e.weight * weight_unit_bytes)});
  if (!entries_.empty()) entries_[0].credit_bytes = entries_[0].weight_bytes;
}

bool arbiter::round_robin::waiting(std::span<const std::uint64_t> head_bytes) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const entry& e) { return waits(head_bytes, e.lane); });
}

bool arbiter::round_robin::is_alone(lane_index lane, std::span<const std::uint64_t> head_bytes) const {
  return std::none_of(entries_.begin(), entries_.end(),
                      [&](const entry& e) { return e.lane != lane && waits(head_bytes, e.lane); });
}

std::optional<lane_index> arbiter::round_robin::pick(std::span<const std::uint64_t> head_bytes) {
  if (!waiting(head_bytes)) return std::nullopt;
  for (std::size_t passed = 0;; ++passed) {
    auto& e = entries_[current_];
    if (waits(head_bytes, e.lane) && e.credit_bytes > 0) {
      auto units = (head_bytes[e.lane] + weight_unit_bytes - 1) / weight_unit_bytes;
      e.credit_bytes -= static_cast<std::int64_t>(units * weight_unit_bytes);
      // Debt is owed to lanes that wait; where none does, the network would have been idle.
      if (is_alone(e.lane, head_bytes)) e.credit_bytes = std::max<std::int64_t>(e.credit_bytes, 0);
      return e.lane;
    }
    // A whole round found only debts.
    if (passed == entries_.size()) {
      skip_rounds(head_bytes);
      passed = 0;
    }
    advance();
  }
}

/// On to the next entry. Credit that was not used is lost, as in hardware: a lane cannot save up while it
/// idles.
void arbiter::round_robin::advance() {
  auto& left = entries_[current_];
  left.credit_bytes = std::min<std::int64_t>(left.credit_bytes, 0);
  current_ = (current_ + 1) % entries_.size();
  auto& entered = entries_[current_];
  entered.credit_bytes += entered.weight_bytes;
}

/// All rounds but the last until the first waiting lane is out of debt, at once.
void arbiter::round_robin::skip_rounds(std::span<const std::uint64_t> head_bytes) {
  auto rounds = std::numeric_limits<std::int64_t>::max();
  for (const auto& e : entries_)
    if (waits(head_bytes, e.lane)) rounds = std::min(rounds, -e.credit_bytes / e.weight_bytes);
  for (auto& e : entries_)
    e.credit_bytes = std::min<std::int64_t>(0, e.credit_bytes + rounds * e.weight_bytes);
}

arbiter::arbiter(arbiter_tables tables)
    : high_{tables.high},
      low_{tables.low},
      high_limit_{tables.high_limit},
      high_quota_bytes_{tables.high_limit * limit_unit_bytes} {}

std::optional<lane_index> arbiter::pick(std::span<const std::uint64_t> head_bytes) {
  bool high_waits = high_.waiting(head_bytes);
  bool low_has_a_turn =
      high_limit_ != unlimited && high_sent_bytes_ > 0 && high_sent_bytes_ >= high_quota_bytes_;
  if (!high_waits || low_has_a_turn) {
    if (auto lane = low_.pick(head_bytes)) {
      start_high_quota(head_bytes[*lane], high_waits);
      return lane;
    }
  }
  auto lane = high_.pick(head_bytes);
  // Cut at the quota, so that a low lane that was idle does not get the turns it had no use for.
  if (lane) high_sent_bytes_ = std::min(high_sent_bytes_, high_quota_bytes_) + head_bytes[*lane];
  return lane;
}

void arbiter::start_high_quota(std::uint64_t low_bytes, bool high_waits) {
  // What the last message sent beyond the quota counts for the next one.
  bool exceeded = high_quota_bytes_ > 0 && high_sent_bytes_ > high_quota_bytes_;
  high_sent_bytes_ = exceeded ? high_sent_bytes_ - high_quota_bytes_ : 0;
  // A turn taken while nothing else waited costs the low table nothing.
  auto packets = high_waits ? (low_bytes + packet_bytes - 1) / packet_bytes : 1;
  high_quota_bytes_ = packets * high_limit_ * limit_unit_bytes;
}

} // namespace dualpath::core
