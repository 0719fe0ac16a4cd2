// Which slots of a pool are free. A request gets all its slots at once or none, consecutive where possible,
// because a run of consecutive Full Blocks moves as one strided piece. Pure bookkeeping; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace dualpath::core {

class slot_allocator {
public:
  explicit slot_allocator(std::uint32_t slots = 0);

  /// `count` slots in rising order; none where fewer are free. The first run that is long enough is used,
  /// else the longest runs, so that a grant falls into as few pieces as possible.
  std::optional<std::vector<std::uint32_t>> allocate(std::uint32_t count);
  /// The slots must be allocated.
  void release(std::span<const std::uint32_t> slots);

  std::uint32_t free_slots() const { return free_; }
  std::uint32_t capacity() const { return capacity_; }

private:
  void take(std::uint32_t start, std::uint32_t count, std::vector<std::uint32_t>& out);
  void give(std::uint32_t start);

  std::map<std::uint32_t, std::uint32_t> runs_; ///< start of a free run → its length; never adjacent
  std::uint32_t free_ = 0, capacity_ = 0;
};

} // namespace dualpath::core
