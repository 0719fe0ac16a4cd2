// Virtual-lane arbitration of InfiniBand as a plain object, to pace traffic classes on fabrics that have no
// virtual lanes (spec §6): collectives get nearly all of the network, KV-cache the rest and whatever is idle.
// Two tables of weighted round robin; the high one is served until it sent `high_limit` · 4096 bytes, then
// the low one gets a turn.
// Differs from hardware where messages are longer than packets: what a lane sent beyond its weight, the high
// table beyond its limit and the low table beyond one packet of 4096 bytes is made up for later, so that
// shares do not depend on the size of messages. Not thread-safe.
#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::core {

using lane_index = std::uint8_t;

struct arbiter_entry {
  lane_index lane = 0;
  std::uint8_t weight = 0; ///< in units of 64 bytes; 0: not served by this table
};

/// The defaults are those of spec §6; lane 2 carries KV.
struct arbiter_tables {
  std::vector<arbiter_entry> high{{0, 192}, {1, 192}, {2, 0}, {3, 192}};
  std::vector<arbiter_entry> low{{0, 192}, {1, 192}, {2, 64}, {3, 192}};
  std::uint8_t high_limit =
      240; ///< in units of 4096 bytes; 0: one message; 255: the low table waits until high is empty
};

/// Fails with invalid_argument where a lane below `lanes` is in no table with a weight, an entry names
/// another lane, or a table is longer than the 64 entries of InfiniBand.
result<void> check_tables(const arbiter_tables& tables, std::size_t lanes);
/// A table as in "0:192,1:192,2:64". Errors: invalid_argument, naming the entry.
result<std::vector<arbiter_entry>> parse_arbiter_table(std::string_view text);
/// The same tables as lines of opensm.conf, e.g. "qos_vlarb_low 0:192,1:192,2:64,3:192".
std::string to_opensm_options(const arbiter_tables& tables, std::size_t lanes);

class arbiter {
public:
  explicit arbiter(arbiter_tables tables = {});

  /// `head_bytes[lane]`: size of the first message waiting in the lane, 0 where none waits. Returns the lane
  /// to send from and charges its first message; nothing where no lane of the tables waits.
  std::optional<lane_index> pick(std::span<const std::uint64_t> head_bytes);

private:
  /// One table; the credit of an entry may be negative.
  class round_robin {
  public:
    explicit round_robin(std::span<const arbiter_entry> entries);
    bool waiting(std::span<const std::uint64_t> head_bytes) const;
    std::optional<lane_index> pick(std::span<const std::uint64_t> head_bytes);

  private:
    struct entry {
      lane_index lane;
      std::int64_t weight_bytes;
      std::int64_t credit_bytes = 0;
    };
    bool is_alone(lane_index lane, std::span<const std::uint64_t> head_bytes) const;
    void advance();
    void skip_rounds(std::span<const std::uint64_t> head_bytes);

    std::vector<entry> entries_;
    std::size_t current_ = 0;
  };

  void start_high_quota(std::uint64_t low_bytes, bool high_waits);

  round_robin high_;
  round_robin low_;
  std::uint8_t high_limit_;
  std::uint64_t high_sent_bytes_ = 0;  ///< since the last turn of the low table
  std::uint64_t high_quota_bytes_ = 0; ///< what the high table may send before the next one
};

} // namespace dualpath::core
