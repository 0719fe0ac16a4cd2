// The counters of a store whose operations end on one thread while any other asks for them.
#pragma once

#include "core/result.hpp"
#include "storage/block_store.hpp"

#include <atomic>
#include <cstdint>

namespace dualpath::storage {

class atomic_counters {
public:
  void count_read(const core::result<void>& outcome, std::uint64_t bytes) {
    if (outcome)
      add(reads_), add(read_bytes_, bytes);
    else
      count_failure(outcome.error().code);
  }
  void count_write(const core::result<void>& outcome, std::uint64_t bytes) {
    if (outcome)
      add(writes_), add(written_bytes_, bytes);
    else
      count_failure(outcome.error().code);
  }
  void count_failure(core::errc code) {
    switch (code) {
    case core::errc::not_found:
      return add(missing_);
    case core::errc::corrupt:
      return add(corrupt_);
    case core::errc::io:
      return add(io_errors_);
    case core::errc::no_space:
      return add(no_space_);
    default:
      return;
    }
  }
  store_counters snapshot() const {
    return {.reads = reads_,
            .read_bytes = read_bytes_,
            .writes = writes_,
            .written_bytes = written_bytes_,
            .missing = missing_,
            .corrupt = corrupt_,
            .io_errors = io_errors_,
            .no_space = no_space_};
  }

private:
  using counter = std::atomic<std::uint64_t>;
  static void add(counter& to, std::uint64_t amount = 1) { to.fetch_add(amount, std::memory_order_relaxed); }

  counter reads_ = 0, read_bytes_ = 0, writes_ = 0, written_bytes_ = 0;
  counter missing_ = 0, corrupt_ = 0, io_errors_ = 0, no_space_ = 0;
};

} // namespace dualpath::storage
