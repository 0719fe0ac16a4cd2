#include "core/policy/bounds.hpp"
#include "random_source.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

using namespace dualpath::core;

namespace {

cluster_shape shape_of(std::uint32_t prefill_nodes, std::uint32_t decode_nodes) {
  return {prefill_nodes, decode_nodes, 8, 1, 50e9, 500e9};
}

cluster_shape random_shape(dualpath::tests::random_source& random) {
  return {static_cast<std::uint32_t>(random.between(1, 12)),
          static_cast<std::uint32_t>(random.between(1, 12)),
          static_cast<std::uint32_t>(random.between(2, 8)),
          random.real(0.3, 2),
          50e9,
          random.real(100e9, 800e9)};
}

bool none_exceeded(const cluster_shape& shape) {
  auto bounds = bottleneck_bounds(shape);
  return std::none_of(bounds.begin(), bounds.end(), [](const bound& b) { return b.exceeded(); });
}

/// Traffic of the table in spec §5 with p and c bytes per second read on the two sides, pair by pair.
bool carries(const cluster_shape& s, double p, double c) {
  double g = s.gpus_per_node, prefill_nics = s.prefill_nodes * g, decode_nics = s.decode_nodes * g;
  double pairs = prefill_nics * decode_nics, t_p = p / pairs, t_c = c / pairs;
  double b = s.nic_bytes_per_s * (1 + 1e-6), m = s.memory_bytes_per_s * (1 + 1e-6);
  double pe_reads = 2 * t_p * decode_nics, pe_writes = (t_p + t_c) * decode_nics;
  double de_reads = (t_p + 2 * t_c) * prefill_nics, de_writes = (2 * t_p + t_c) * prefill_nics;
  double de_dram = (2 * p + 3 * c) / s.decode_nodes, pe_dram = 2 * p / s.prefill_nodes;
  return pe_reads <= b && pe_writes <= b && de_reads <= b && de_writes <= b && de_dram <= m && pe_dram <= m;
}

} // namespace

TEST_CASE("eight GPUs, s = 1 and 500 GB/s of memory allow P/D from 1/7 to 7/2") {
  auto range = allowed_ratios(shape_of(1, 1));
  CHECK(range.lowest == Approx(1.0 / 7));
  CHECK(range.highest == Approx(7.0 / 2));
  CHECK(range.below == "PE CNIC writes");
  CHECK(range.above != "PE CNIC writes");
  CHECK(none_exceeded(shape_of(1, 7)));
  CHECK_FALSE(none_exceeded(shape_of(1, 8)));
  CHECK(none_exceeded(shape_of(7, 2)));
  CHECK_FALSE(none_exceeded(shape_of(4, 1)));
}

TEST_CASE("the loads are those of the published inequalities") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    auto shape = random_shape(random);
    double g = shape.gpus_per_node, s = shape.storage_ratio, b = shape.nic_bytes_per_s;
    double p = shape.prefill_nodes, d = shape.decode_nodes, t_p = b * s / (d * g * g),
           t_c = b * s / (p * g * g);
    auto bounds = bottleneck_bounds(shape);
    REQUIRE(bounds.size() == 6);
    CHECK(bounds[0].load_bytes_per_s == Approx(2 * b * s / g));
    CHECK(bounds[1].load_bytes_per_s == Approx(b * s / g * (1 + d / p)));
    CHECK(bounds[2].load_bytes_per_s == Approx(b * s / g * (p / d + 2)));
    CHECK(bounds[3].load_bytes_per_s == Approx((2 * t_p + t_c) * p * g));
    CHECK(bounds[4].load_bytes_per_s == Approx((3 + 2 * p / d) * b * s));
    CHECK(bounds[5].load_bytes_per_s == Approx(2 * b * s));
    for (const auto& x : bounds)
      CHECK(x.limit_bytes_per_s == Approx(x.name.ends_with("DRAM") ? shape.memory_bytes_per_s : b));
    CHECK(none_exceeded(shape) == allowed_ratios(shape).contains(p / d));
  }
}

TEST_CASE("what saturates first outside the range is the bound named for that side") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 300; ++round) {
    auto shape = random_shape(random);
    auto range = allowed_ratios(shape);
    if (range.lowest > range.highest) continue;
    double ratio = static_cast<double>(shape.prefill_nodes) / shape.decode_nodes;
    if (range.contains(ratio)) continue;
    auto name = ratio < range.lowest ? range.below : range.above;
    auto bounds = bottleneck_bounds(shape);
    CHECK(std::any_of(bounds.begin(), bounds.end(),
                      [&](const bound& b) { return b.name == name && b.exceeded(); }));
  }
}

TEST_CASE("one prefill node with eight decode nodes reads at most 7/8 on the decode side") {
  CHECK(max_decode_read_share(shape_of(1, 8)) == Approx(7.0 / 8));
  CHECK(min_decode_read_share(shape_of(1, 8)) == 0);
  CHECK(best_read_plan(shape_of(1, 8)).total_bytes_per_s() == Approx(8 * 50e9));
}

TEST_CASE("eight prefill nodes with one decode node read at least 2/9 on the decode side") {
  CHECK(max_decode_read_share(shape_of(8, 1)) == 1);
  CHECK(min_decode_read_share(shape_of(8, 1)) == Approx(2.0 / 9));
  CHECK(best_read_plan(shape_of(8, 1)).total_bytes_per_s() == Approx(4.5 * 50e9));
}

TEST_CASE("inside the range every storage NIC reads all it can and no share is limited") {
  for (auto shape : {shape_of(1, 1), shape_of(2, 4), shape_of(1, 7), shape_of(7, 2), shape_of(48, 96)}) {
    CHECK(max_decode_read_share(shape) == 1);
    CHECK(min_decode_read_share(shape) == 0);
    auto nodes = shape.prefill_nodes + shape.decode_nodes;
    CHECK(best_read_plan(shape).total_bytes_per_s() == Approx(nodes * 50e9));
  }
}

TEST_CASE("the best read plan is carried, and no plan that is carried reads more") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 200; ++round) {
    auto shape = random_shape(random);
    INFO(explain_bounds(shape));
    double storage = shape.storage_ratio * shape.nic_bytes_per_s;
    double most_prefill = shape.prefill_nodes * storage, most_decode = shape.decode_nodes * storage;
    auto plan = best_read_plan(shape);
    REQUIRE(plan.prefill_bytes_per_s <= most_prefill * (1 + 1e-9));
    REQUIRE(plan.decode_bytes_per_s <= most_decode * (1 + 1e-9));
    REQUIRE(carries(shape, plan.prefill_bytes_per_s, plan.decode_bytes_per_s));
    for (int i = 0; i <= 40; ++i)
      for (int j = 0; j <= 40; ++j) {
        double p = most_prefill * i / 40, c = most_decode * j / 40;
        if (carries(shape, p, c)) REQUIRE(p + c <= plan.total_bytes_per_s() * (1 + 1e-5));
      }
  }
}

TEST_CASE("within its limits any share of decode-side reads lets storage NICs run as fast as they can") {
  DUALPATH_RANDOM(random);
  for (int round = 0; round < 500; ++round) {
    auto shape = random_shape(random);
    INFO(explain_bounds(shape));
    double storage = shape.storage_ratio * shape.nic_bytes_per_s;
    double prefill_storage = shape.prefill_nodes * storage, decode_storage = shape.decode_nodes * storage;
    double lowest = min_decode_read_share(shape), highest = max_decode_read_share(shape);
    REQUIRE(lowest <= highest + 1e-9);
    // Where both sides are held back, the plan is the only point, and the NICs must not run as fast as they
    // can.
    auto plan = best_read_plan(shape);
    if (plan.prefill_bytes_per_s < prefill_storage * (1 - 1e-9)
        && plan.decode_bytes_per_s < decode_storage * (1 - 1e-9)) {
      REQUIRE(lowest == Approx(plan.decode_share()));
      REQUIRE(highest == Approx(plan.decode_share()));
      continue;
    }
    double share = random.real(lowest, highest);
    double total = share == 0   ? prefill_storage
                   : share == 1 ? decode_storage
                                : std::min(prefill_storage / (1 - share), decode_storage / share);
    REQUIRE(carries(shape, (1 - share) * total, share * total));
    // Just outside, something is over its bound.
    if (lowest == 0 && highest < 1 && highest > 0) {
      double beyond = highest + 0.02 * (1 - highest);
      REQUIRE_FALSE(carries(shape, prefill_storage, prefill_storage * beyond / (1 - beyond)));
    }
    if (highest == 1 && lowest > 0 && lowest < 1) {
      double beyond = lowest * 0.98;
      REQUIRE_FALSE(carries(shape, decode_storage * (1 - beyond) / beyond, decode_storage));
    }
  }
}

TEST_CASE("a shape that changed out of the range is explained with what saturates and what is done") {
  auto text = explain_bounds(shape_of(1, 8));
  CHECK(text.find("1P8D") != std::string::npos);
  CHECK(text.find("PE CNIC writes would carry 56.2 GB/s of 50.0 GB/s") != std::string::npos);
  CHECK(text.find("at most 87.5%") != std::string::npos);
  CHECK(explain_bounds(shape_of(8, 1)).find("at least 22.2%") != std::string::npos);
  CHECK(explain_bounds(shape_of(2, 4)).find("is inside") != std::string::npos);
}

TEST_CASE("where storage outruns the compute NICs no ratio is allowed, and reads are held back") {
  auto shape = shape_of(2, 2);
  shape.gpus_per_node = 1;
  auto range = allowed_ratios(shape);
  CHECK(range.lowest > range.highest);
  CHECK_FALSE(range.contains(1));
  auto plan = best_read_plan(shape);
  CHECK(plan.total_bytes_per_s() > 0);
  CHECK(plan.total_bytes_per_s() < 4 * 50e9);
  CHECK(carries(shape, plan.prefill_bytes_per_s, plan.decode_bytes_per_s));
}

TEST_CASE("a cluster without nodes or bandwidth is refused") {
  CHECK(check_shape(shape_of(1, 1)));
  CHECK_FALSE(check_shape(shape_of(0, 1)));
  CHECK_FALSE(check_shape(shape_of(1, 0)));
  auto shape = shape_of(1, 1);
  shape.storage_ratio = 0;
  CHECK(check_shape(shape).error().code == errc::invalid_argument);
}
