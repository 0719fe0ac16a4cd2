#include "net/copy_bench.hpp"

#include "net/verbs_copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <vector>

namespace dualpath::net {
namespace {

using stopwatch = std::chrono::steady_clock;

double seconds_since(stopwatch::time_point start) {
  return std::chrono::duration<double>(stopwatch::now() - start).count();
}

/// Source and target; the pieces lie in the target in reverse.
struct bench_memory {
  explicit bench_memory(const copy_bench_options& options)
      : from(options.piece_bytes * options.pieces), to(from.size()) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 131 + (i >> 12));
    for (std::uint32_t i = 0; i < options.pieces; ++i)
      pieces.push_back({i * options.piece_bytes, 0, (options.pieces - 1 - i) * options.piece_bytes, 0,
                        options.piece_bytes, 1});
  }
  void copy_all() {
    for (auto& piece : pieces)
      std::memcpy(to.data() + piece.remote_offset, from.data() + piece.local_offset, piece.bytes);
  }
  bool landed() const {
    for (auto& piece : pieces)
      if (std::memcmp(to.data() + piece.remote_offset, from.data() + piece.local_offset, piece.bytes) != 0)
        return false;
    return true;
  }
  std::vector<std::byte> from, to;
  std::vector<core::strided_piece> pieces;
};

core::result<void> bench_verbs(verbs_copy& copies, bench_memory& memory, std::uint32_t rounds,
                               copy_bench_result& into) {
  auto from = copies.attach(memory.from), to = copies.attach(memory.to);
  if (!from) return from.error();
  if (!to) return to.error();
  double submit_s = 0;
  auto start = stopwatch::now();
  for (std::uint32_t i = 0; i < rounds; ++i) {
    std::promise<core::result<void>> ended;
    auto pieces = memory.pieces;
    auto submit = stopwatch::now();
    copies.copy(*from, *to, std::move(pieces),
                [&](core::result<void> done) { ended.set_value(std::move(done)); });
    submit_s += seconds_since(submit);
    if (auto done = ended.get_future().get(); !done) return done.error();
  }
  into.gb_per_s = static_cast<double>(memory.from.size()) * rounds / seconds_since(start) / 1e9;
  into.submit_us = submit_s / rounds * 1e6;
  into.doorbells = static_cast<double>(copies.counters().doorbells) / rounds;
  if (!memory.landed())
    return core::error{core::errc::io, "copies through " + copies.device() + " left wrong bytes"};
  return {};
}

} // namespace

core::result<copy_bench_result> bench_copies(const copy_bench_options& options) {
  if (options.pieces == 0 || options.piece_bytes == 0 || options.rounds == 0)
    return core::error{core::errc::invalid_argument,
                       "a copy needs at least one piece of one byte and one round"};
  copy_bench_result result;
  bench_memory memory{options};
  memory.copy_all();
  auto start = stopwatch::now();
  for (std::uint32_t i = 0; i < options.rounds; ++i) memory.copy_all();
  result.memcpy_us = seconds_since(start) / options.rounds * 1e6;
  std::fill(memory.to.begin(), memory.to.end(), std::byte{});

  auto copies = open_verbs_copy({.device = options.device});
  if (copies) {
    result.choice = "verbs on " + (*copies)->device();
    if (auto measured = bench_verbs(**copies, memory, options.rounds, result); !measured)
      return measured.error();
    return result;
  }
  if (copies.error().code == core::errc::invalid_argument) return copies.error();
  result.choice = "memcpy";
  result.reason = copies.error().text;
  result.submit_us = result.memcpy_us;
  result.gb_per_s = static_cast<double>(memory.from.size()) / result.memcpy_us / 1e3;
  return result;
}

} // namespace dualpath::net
