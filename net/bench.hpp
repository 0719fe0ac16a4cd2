// How fast is the fabric, and how much of what UCX can do does it give? Two fabrics of this process against a
// minimal loop over raw UCX on the same transports: size by size, one way and both ways at once. Machines are
// noisy, so the two take turns in short runs and a row tells medians.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dualpath::net {

inline constexpr std::uint64_t bench_piece_bytes_max = 16ULL << 20;

struct bench_options {
  std::string transports;      ///< as UCX_TLS; empty: UCX chooses
  core::duration busy_poll{0}; ///< as ucx_fabric_options::busy_poll
  std::vector<std::uint64_t> piece_bytes{4ULL << 10, 64ULL << 10, 1ULL << 20,
                                         8ULL << 20}; ///< at most bench_piece_bytes_max
  std::uint64_t bytes_per_run = 512ULL << 20;         ///< each way
  std::uint32_t runs = 9;                             ///< of each row, fabric and raw in turn
  std::uint32_t in_flight = 8;                        ///< transfers, each way
  std::uint32_t transfers_max = 20000;                ///< of small ones, a run and way
};

/// One run, or the median of several.
struct bench_figures {
  double gb_per_s = 0; ///< both ways together
  double us_per_transfer = 0;
  double cpu_s_per_gb = 0; ///< of the whole process: both ends
};

struct bench_row {
  bool put = true;
  bool both_ways = false; ///< the peer does the same to us meanwhile
  std::uint64_t piece_bytes = 0;
  std::uint32_t pieces = 1; ///< a transfer: `pieces` rows of `piece_bytes`, two pieces apart
  bench_figures fabric{}, raw{};
  double ratio = 0; ///< of the rates; the median of the ratios of neighbouring runs

  std::uint64_t transfer_bytes() const { return piece_bytes * pieces; }
  std::uint64_t stride_bytes() const { return 2 * piece_bytes; }
  /// Where transfer `number` of that side begins, in its own region and its peer's alike. Each way has a half
  /// of the regions to itself: how often one core finds in the other's cache what that has just written would
  /// be chance.
  std::uint64_t offset(std::size_t side, std::uint64_t number, std::uint64_t region_bytes) const {
    auto half = region_bytes / 2, taken = stride_bytes() * pieces;
    return side * half + number % std::max<std::uint64_t>(1, half / taken) * taken;
  }
};

/// One run. Where both ways are measured, each goes on until the other has moved its share as well: one end
/// is faster than the other, and alone it would be faster still.
struct bench_run {
  /// Raw UCX over TCP may serve one end alone for as long as that goes on.
  static constexpr std::uint64_t most_shares = 2;

  double seconds = 0;
  std::uint64_t transfers = 0; ///< both ways together
};

/// Takes a second a row and more, over TCP ten. Errors: those of the fabric.
core::result<std::vector<bench_row>> measure_fabric(const bench_options& options);

} // namespace dualpath::net
