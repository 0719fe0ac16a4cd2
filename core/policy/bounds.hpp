// When pooling all storage NICs creates a new bottleneck elsewhere (spec §5). Nodes fail and roles change
// while a cluster runs, so the bounds are recomputed from the shape of the moment and tell how to split the
// storage reads between prefill and decode nodes. Pure; rates in bytes per second.
//
// Derivation. P prefill and D decode nodes of g GPUs, a CNIC of bandwidth B each way per GPU, storage s·B and
// memory M per node. Let p and c be the bytes per second read on the prefill and on the decode side. A hit
// byte makes these crossings, where a NIC reads from or writes to the memory beside it and a copy between
// host and GPU loops back:
//
//             PE CNIC       PE CNIC       PE DRAM  DE CNIC       DE CNIC        DE DRAM
//             reads         writes                 reads         writes
//   PE path   h2d, to DE 2  h2d 1         in,out 2 h2d 1         from PE, h2d 2 in,out 2
//   DE path   0             from DE 1     0        to PE, h2d 2  h2d 1          in,out,out 3
//
// All storage NICs full, p = PsB and c = DsB, gives the pair traffic T_p, T_c and the inequalities of spec
// §5. Scaling the two sides separately gives a linear programme: maximise p + c subject to p ≤ PsB, c ≤ DsB,
//   2p ≤ PgB, p + c ≤ PgB, p + 2c ≤ DgB, 2p + c ≤ DgB, 2p ≤ PM, 2p + 3c ≤ DM.
// Every left side grows with p and with c, so whatever is below an allowed point is allowed: if the best
// point holds the decode side back, its share is the largest allowed; if it holds the prefill side back, its
// share is the smallest. New KV (the appended tokens) is left out, as in the paper: at hit rates of 95 % and
// more it is within the error.
#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::core {

struct cluster_shape {
  std::uint32_t prefill_nodes = 1;
  std::uint32_t decode_nodes = 1;
  std::uint32_t gpus_per_node = 8;
  double storage_ratio = 1;          ///< s: storage bandwidth of a node in units of one CNIC
  double nic_bytes_per_s = 50e9;     ///< B, of one CNIC, each way
  double memory_bytes_per_s = 500e9; ///< M, of a node
};

/// Fails with invalid_argument where a count or rate is not positive.
result<void> check_shape(const cluster_shape& shape);

struct bound {
  std::string_view name;   ///< "PE CNIC reads", ...
  double load_bytes_per_s; ///< of one NIC or one node's memory with all storage NICs full
  double limit_bytes_per_s;
  double utilisation() const { return load_bytes_per_s / limit_bytes_per_s; }
  bool exceeded() const;
};

/// The six bounds in the order of spec §5. The shape must pass check_shape, here and below.
std::vector<bound> bottleneck_bounds(const cluster_shape& shape);

/// The P/D that exceed no bound; empty (lowest > highest) where no ratio does.
struct ratio_range {
  double lowest = 0, highest = 0;
  std::string_view below; ///< saturates first under the lowest
  std::string_view above; ///< saturates first over the highest
  bool contains(double ratio) const;
};
ratio_range allowed_ratios(const cluster_shape& shape);

/// The split of storage reads with the largest total; of equals the one that reads most on the prefill side,
/// whose hit blocks cross no network before they are computed on.
struct read_plan {
  double prefill_bytes_per_s = 0; ///< p, all prefill nodes together
  double decode_bytes_per_s = 0;  ///< c
  double total_bytes_per_s() const { return prefill_bytes_per_s + decode_bytes_per_s; }
  double decode_share() const;
};
enum class read_sides : std::uint8_t { both, prefill };
read_plan best_read_plan(const cluster_shape& shape, read_sides sides = read_sides::both);

/// Largest and smallest share of reads on the decode side at which storage NICs may run as fast as they can
/// without taking a CNIC or DRAM over its bound. 1 and 0 inside the range of spec §5; e.g. 7/8 at most on
/// 1P8D, 2/9 at least on 8P1D.
double max_decode_read_share(const cluster_shape& shape);
double min_decode_read_share(const cluster_shape& shape);

/// One paragraph: the ratio, the allowed range, what is exceeded and what the scheduler does about it.
std::string explain_bounds(const cluster_shape& shape);

} // namespace dualpath::core
