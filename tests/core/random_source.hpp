// Randomness of the property tests: drawn anew in every run, repeated with DUALPATH_SEED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace dualpath::tests {

inline std::uint64_t seed_of_run() {
  if (const char* given = std::getenv("DUALPATH_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

class random_source {
public:
  explicit random_source(std::uint64_t seed) : engine_{seed} {}

  /// A whole number in [lowest, highest].
  std::uint64_t between(std::uint64_t lowest, std::uint64_t highest) {
    return std::uniform_int_distribution<std::uint64_t>{lowest, highest}(engine_);
  }
  double real(double lowest, double highest) {
    return std::uniform_real_distribution<double>{lowest, highest}(engine_);
  }
  bool chance(double probability) { return real(0, 1) < probability; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, values.size() - 1))];
  }

private:
  std::mt19937_64 engine_;
};

} // namespace dualpath::tests

/// At the start of a randomised test: a source named `random`, and the seed in the report of a failure.
#define DUALPATH_RANDOM(random)                                                                              \
  const auto random##_seed = ::dualpath::tests::seed_of_run();                                               \
  INFO("repeat with DUALPATH_SEED=" << random##_seed);                                                       \
  ::dualpath::tests::random_source random { random##_seed }
