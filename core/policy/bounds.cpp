#include "core/policy/bounds.hpp"

#include "core/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace dualpath::core {

namespace {

/// Loads and limits that differ by rounding alone count as equal: the published ranges include their ends.
constexpr double tolerance = 1e-9;

bool at_most(double value, double limit) {
  return value <= limit + tolerance * std::max(1.0, std::abs(limit));
}

/// A crossing of the table in the header: of the bytes read on the prefill side, `per_prefill` each, of those
/// on the decode side `per_decode` each, pass a resource of which the cluster has `limit` in units of B.
struct crossing {
  std::string_view name;
  double per_prefill, per_decode, limit;
  double units; ///< NICs or nodes that share the load
};

std::array<crossing, 6> crossings(const cluster_shape& s) {
  double prefill_nodes = s.prefill_nodes, decode_nodes = s.decode_nodes, gpus = s.gpus_per_node;
  double memory = s.memory_bytes_per_s / s.nic_bytes_per_s;
  double prefill_nics = prefill_nodes * gpus, decode_nics = decode_nodes * gpus;
  return {{{"PE CNIC reads", 2, 0, prefill_nics, prefill_nics},
           {"PE CNIC writes", 1, 1, prefill_nics, prefill_nics},
           {"DE CNIC reads", 1, 2, decode_nics, decode_nics},
           {"DE CNIC writes", 2, 1, decode_nics, decode_nics},
           {"DE DRAM", 2, 3, decode_nodes * memory, decode_nodes},
           {"PE DRAM", 2, 0, prefill_nodes * memory, prefill_nodes}}};
}

struct point {
  double prefill, decode; ///< in units of B
};

struct half_plane {
  double per_prefill, per_decode, limit;
};

std::optional<point> meeting_point(const half_plane& a, const half_plane& b) {
  double determinant = a.per_prefill * b.per_decode - a.per_decode * b.per_prefill;
  if (determinant == 0) return std::nullopt;
  return point{(a.limit * b.per_decode - b.limit * a.per_decode) / determinant,
               (a.per_prefill * b.limit - b.per_prefill * a.limit) / determinant};
}

/// The optimum of a linear programme lies where two of its limits meet; with ten of them all meetings can be
/// tried.
point best_point(std::span<const half_plane> limits) {
  point best{0, 0};
  for (std::size_t i = 0; i < limits.size(); ++i)
    for (std::size_t j = i + 1; j < limits.size(); ++j) {
      auto candidate = meeting_point(limits[i], limits[j]);
      if (!candidate) continue;
      bool allowed = std::all_of(limits.begin(), limits.end(), [&](const half_plane& l) {
        return at_most(l.per_prefill * candidate->prefill + l.per_decode * candidate->decode, l.limit);
      });
      if (!allowed) continue;
      double gain = candidate->prefill + candidate->decode - best.prefill - best.decode;
      double equal = tolerance * std::max(1.0, best.prefill + best.decode);
      if (gain > equal || (gain > -equal && candidate->prefill > best.prefill)) best = *candidate;
    }
  return best;
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f%%", share * 100);
  return text.data();
}

} // namespace

result<void> check_shape(const cluster_shape& s) {
  auto bad = [](std::string what) {
    return error{errc::invalid_argument, what + " of a cluster must be greater than 0."};
  };
  auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  if (s.prefill_nodes == 0) return bad("The number of prefill nodes");
  if (s.decode_nodes == 0) return bad("The number of decode nodes");
  if (s.gpus_per_node == 0) return bad("The number of GPUs per node");
  if (!positive(s.storage_ratio)) return bad("The storage ratio " + number(s.storage_ratio));
  if (!positive(s.nic_bytes_per_s)) return bad("The NIC bandwidth " + number(s.nic_bytes_per_s));
  if (!positive(s.memory_bytes_per_s)) return bad("The memory bandwidth " + number(s.memory_bytes_per_s));
  return {};
}

bool bound::exceeded() const { return !at_most(utilisation(), 1); }

std::vector<bound> bottleneck_bounds(const cluster_shape& s) {
  std::vector<bound> bounds;
  double prefill = s.prefill_nodes * s.storage_ratio, decode = s.decode_nodes * s.storage_ratio;
  for (const auto& c : crossings(s))
    bounds.push_back({c.name, (c.per_prefill * prefill + c.per_decode * decode) / c.units * s.nic_bytes_per_s,
                      c.limit / c.units * s.nic_bytes_per_s});
  return bounds;
}

bool ratio_range::contains(double ratio) const { return at_most(lowest, ratio) && at_most(ratio, highest); }

ratio_range allowed_ratios(const cluster_shape& shape) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  double g = shape.gpus_per_node, s = shape.storage_ratio;
  double memory = shape.memory_bytes_per_s / (shape.nic_bytes_per_s * s);
  // These two do not depend on P/D: where they are exceeded, no ratio is allowed.
  if (!at_most(2 * s, g)) return {infinite, 0, "PE CNIC reads", "PE CNIC reads"};
  if (!at_most(2, memory)) return {infinite, 0, "PE DRAM", "PE DRAM"};
  ratio_range range{s / (g - s), infinite, "PE CNIC writes", ""};
  for (auto [highest, name] : {std::pair<double, std::string_view>{(g - 2 * s) / s, "DE CNIC reads"},
                               {(g - s) / (2 * s), "DE CNIC writes"},
                               {(memory - 3) / 2, "DE DRAM"}})
    if (highest < range.highest) {
      range.highest = highest;
      range.above = name;
    }
  return range;
}

double read_plan::decode_share() const {
  return total_bytes_per_s() > 0 ? decode_bytes_per_s / total_bytes_per_s() : 0;
}

read_plan best_read_plan(const cluster_shape& s, read_sides sides) {
  double decode_storage = sides == read_sides::both ? s.decode_nodes * s.storage_ratio : 0;
  std::vector<half_plane> limits{
      {-1, 0, 0}, {0, -1, 0}, {1, 0, s.prefill_nodes * s.storage_ratio}, {0, 1, decode_storage}};
  for (const auto& c : crossings(s)) limits.push_back({c.per_prefill, c.per_decode, c.limit});
  auto best = best_point(limits);
  return {best.prefill * s.nic_bytes_per_s, best.decode * s.nic_bytes_per_s};
}

double max_decode_read_share(const cluster_shape& s) {
  auto plan = best_read_plan(s);
  bool all_that_decode_nodes_read =
      at_most(s.decode_nodes * s.storage_ratio, plan.decode_bytes_per_s / s.nic_bytes_per_s);
  return all_that_decode_nodes_read ? 1 : plan.decode_share();
}

double min_decode_read_share(const cluster_shape& s) {
  auto plan = best_read_plan(s);
  bool all_that_prefill_nodes_read =
      at_most(s.prefill_nodes * s.storage_ratio, plan.prefill_bytes_per_s / s.nic_bytes_per_s);
  return all_that_prefill_nodes_read ? 0 : plan.decode_share();
}

std::string explain_bounds(const cluster_shape& s) {
  double ratio = static_cast<double>(s.prefill_nodes) / s.decode_nodes;
  auto range = allowed_ratios(s);
  auto text =
      std::to_string(s.prefill_nodes) + "P" + std::to_string(s.decode_nodes) + "D: P/D " + number(ratio);
  if (range.lowest > range.highest)
    return text + " exceeds a bound, as every ratio does, because storage is too fast for "
           + std::string{range.below} + "; reads are limited to "
           + format_rate(best_read_plan(s).total_bytes_per_s()) + ".";
  auto limits = number(range.lowest) + " to " + number(range.highest);
  if (range.contains(ratio))
    return text + " is inside " + limits + ", no CNIC or DRAM limits the storage reads.";
  text += " is outside " + limits + "; with all storage NICs full";
  for (const auto& b : bottleneck_bounds(s))
    if (b.exceeded())
      text += ", " + std::string{b.name} + " would carry " + format_rate(b.load_bytes_per_s) + " of "
              + format_rate(b.limit_bytes_per_s);
  double highest = max_decode_read_share(s), lowest = min_decode_read_share(s);
  if (highest < 1) text += "; at most " + percent(highest) + " of the reads may take the decode side";
  if (lowest > 0) text += "; at least " + percent(lowest) + " of the reads must take the decode side";
  return text + ".";
}

} // namespace dualpath::core
