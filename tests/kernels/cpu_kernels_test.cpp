#include "cpu_fixture.hpp"

#include "kernels/cpu/rope.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

using namespace dualpath;
using namespace dualpath::kernels;
using namespace dualpath::kernels::test;

namespace {

std::vector<float> random_floats(std::size_t count, std::uint64_t seed, float scale = 1) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back((static_cast<float>(sequence::mix(seed * 7919 + i) >> 40) * 0x1p-23F - 1.0F) * scale);
  return values;
}

} // namespace

TEST_CASE("a product equals the sum in double, for every number of rows and inputs past a step") {
  const auto* kernels = GENERATE(from_range(available_kernels()));
  auto inputs = GENERATE(1U, 17U, 256U, 600U);
  auto outputs = GENERATE(1U, 32U, 45U);
  CAPTURE(kernels->name, inputs, outputs);
  auto weights = random_floats(std::size_t{inputs} * outputs, 1);
  packed_matrix packed{outputs, inputs, true};
  for (std::uint32_t j = 0; j < outputs; ++j) {
    packed.set_column(j, std::span{weights}.subspan(std::size_t{j} * inputs, inputs));
    packed.bias.data()[j] = static_cast<float>(j);
  }
  for (std::uint32_t rows : {1U, 2U, 5U, 6U, 11U, 12U, 13U, 29U}) {
    auto a = random_floats(std::size_t{rows} * inputs, 2);
    std::vector<float> c(rows * 64, 1000.0F);
    kernels->gemm({a.data(), inputs, rows, inputs, packed.panel(0), packed.panels(), c.data(), 64,
                   gemm_args::start::bias, packed.bias.data()});
    for (std::uint32_t i = 0; i < rows; ++i)
      for (std::uint32_t j = 0; j < outputs; ++j) {
        double sum = j;
        for (std::uint32_t k = 0; k < inputs; ++k)
          sum += static_cast<double>(a[i * inputs + k]) * static_cast<double>(weights[j * inputs + k]);
        REQUIRE(std::abs(static_cast<double>(c[i * 64 + j]) - sum) < 1e-4);
      }
  }
}

TEST_CASE(
    "the exponential is within two units in the last place, one at zero, zero far below, and keeps NaN") {
  const auto* kernels = GENERATE(from_range(available_kernels()));
  CAPTURE(kernels->name);
  std::vector<float> x(16 * 4000);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = -87.0F + static_cast<float>(i) * (175.0F / static_cast<float>(x.size()));
  std::vector<float> y(x.size());
  kernels->exponential(x.data(), x.size(), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto exact = std::exp(static_cast<double>(x[i]));
    REQUIRE(std::abs(static_cast<double>(y[i]) - exact) <= exact * 2.4e-7);
  }
  std::vector<float> ends(16, 0.0F);
  ends[1] = -0.0F;
  ends[2] = -88.0F;
  ends[3] = -INFINITY;
  ends[4] = NAN;
  ends[5] = 1000.0F;
  kernels->exponential(ends.data(), 16, ends.data());
  CHECK(ends[0] == 1.0F);
  CHECK(ends[1] == 1.0F);
  CHECK(ends[2] == 0.0F);
  CHECK(ends[3] == 0.0F);
  CHECK(std::isnan(ends[4]));
  CHECK(std::isfinite(ends[5]));
}

TEST_CASE("a normalised row and a gated row equal their definition in double") {
  const auto* kernels = GENERATE(from_range(available_kernels()));
  CAPTURE(kernels->name);
  auto x = random_floats(48, 3, 4);
  auto weight = random_floats(48, 4);
  std::fill(x.begin() + 40, x.end(), 0.0F);
  double squares = 0;
  for (auto value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  std::vector<float> out(48);
  kernels->rms_norm(x.data(), weight.data(), 1e-5F, 40, 48, out.data());
  for (std::size_t i = 0; i < 40; ++i)
    CHECK(static_cast<double>(out[i])
          == Approx(static_cast<double>(x[i]) / std::sqrt(squares / 40 + 1e-5)
                    * static_cast<double>(weight[i])));
  auto gate_up = random_floats(128, 5, 30);
  std::vector<float> gated(64);
  kernels->silu_multiply(gate_up.data(), 2, gated.data());
  for (std::size_t i = 0; i < 64; ++i) {
    auto gate = static_cast<double>(gate_up[i / 32 * 64 + i % 32]);
    auto up = static_cast<double>(gate_up[i / 32 * 64 + 32 + i % 32]);
    CHECK(static_cast<double>(gated[i]) == Approx(gate / (1 + std::exp(-gate)) * up).margin(1e-9));
  }
}

TEST_CASE("rotary angles are those of the C library at low and high positions") {
  rope of{64, 10000};
  std::vector<float> angles(64);
  for (std::uint32_t position : {0U, 1U, 2U, 77U, 1023U, 32767U, 131071U, 1U << 20}) {
    of.angles(position, angles);
    for (std::uint32_t i = 0; i < 32; ++i) {
      auto exponent = static_cast<float>(2 * i) / 64.0F;
      auto frequency = 1.0F / static_cast<float>(std::pow(10000.0, static_cast<double>(exponent)));
      auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      CHECK(std::abs(static_cast<double>(angles[i]) - std::cos(angle)) < 6e-8);
      CHECK(std::abs(static_cast<double>(angles[32 + i]) - std::sin(angle)) < 6e-8);
    }
  }
}

TEST_CASE("a pool runs every index of every loop once, for several callers at a time") {
  thread_pool pool{3};
  std::vector<std::thread> callers;
  std::vector<std::vector<std::atomic<int>>> counts(3);
  for (auto& count : counts) {
    count = std::vector<std::atomic<int>>(500);
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        thread_pool::busy_scope busy{pool};
        pool.parallel_for(500, [&](std::uint32_t i) { ++count[i]; });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  for (auto& count : counts)
    for (auto& times : count) REQUIRE(times == 200);
}

TEST_CASE("a pool of one thread runs its loops on the caller") {
  thread_pool pool{1};
  auto caller = std::this_thread::get_id();
  pool.parallel_for(10, [&](std::uint32_t) { REQUIRE(std::this_thread::get_id() == caller); });
}
