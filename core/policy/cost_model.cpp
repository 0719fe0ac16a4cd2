#include "core/policy/cost_model.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace dualpath::core {

namespace {

using vector3 = std::array<double, 3>;
using matrix3 = std::array<vector3, 3>;

vector3 row_of(const cost_sample& s) {
  return {1, static_cast<double>(s.bsz), attention_pairs(s.cached, s.bsz)};
}

/// The normal equations over columns scaled to length 1, so that a singular system shows as a small pivot.
struct normal_equations {
  matrix3 products{};
  vector3 targets{};
  vector3 scale{};
};

normal_equations normal_equations_of(std::span<const cost_sample> samples) {
  normal_equations eq;
  for (const auto& s : samples)
    for (std::size_t i = 0; i < 3; ++i) eq.scale[i] += row_of(s)[i] * row_of(s)[i];
  for (auto& length : eq.scale) length = std::sqrt(length);
  for (const auto& s : samples) {
    auto row = row_of(s);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) eq.products[i][j] += row[i] / eq.scale[i] * row[j] / eq.scale[j];
      eq.targets[i] += row[i] / eq.scale[i] * s.seconds;
    }
  }
  return eq;
}

/// Least squares over the columns in `used` (bits), the others 0; nothing where they depend on one another.
/// Gauss–Jordan elimination; the products are positive semi-definite, so pivots on the diagonal are safe.
std::optional<vector3> solve(const normal_equations& eq, unsigned used) {
  constexpr double smallest_pivot = 1e-10;
  auto a = eq.products;
  auto b = eq.targets;
  auto is_used = [&](std::size_t i) { return (used >> i & 1) != 0; };
  for (std::size_t k = 0; k < 3; ++k) {
    if (!is_used(k)) continue;
    if (a[k][k] < smallest_pivot) return std::nullopt;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == k || !is_used(i)) continue;
      double factor = a[i][k] / a[k][k];
      for (std::size_t j = 0; j < 3; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  vector3 solution{};
  for (std::size_t k = 0; k < 3; ++k)
    if (is_used(k)) solution[k] = b[k] / a[k][k] / eq.scale[k];
  return solution;
}

double squared_error(std::span<const cost_sample> samples, const vector3& x) {
  double sum = 0;
  for (const auto& s : samples) {
    auto row = row_of(s);
    double difference = row[0] * x[0] + row[1] * x[1] + row[2] * x[2] - s.seconds;
    sum += difference * difference;
  }
  return sum;
}

error bad_samples(std::string text) { return {errc::invalid_argument, std::move(text)}; }

} // namespace

result<attention_cost_model> fit_cost_model(std::span<const cost_sample> samples) {
  for (const auto& s : samples)
    if (s.bsz == 0 || !std::isfinite(s.seconds) || s.seconds < 0)
      return bad_samples("Cost sample (cached " + std::to_string(s.cached) + ", new " + std::to_string(s.bsz)
                         + ", " + std::to_string(s.seconds)
                         + " s) is not a measurement; new must be at least 1, time at least 0.");
  constexpr unsigned all_columns = 7;
  if (samples.size() < 3 || !solve(normal_equations_of(samples), all_columns))
    return bad_samples(
        "The " + std::to_string(samples.size())
        + " cost samples do not determine a cost model; measure at least two lengths, each with and "
          "without cached tokens.");
  // With three unknowns every choice of columns can be tried; the best without a negative coefficient is the
  // optimum.
  auto eq = normal_equations_of(samples);
  vector3 best{};
  double best_error = std::numeric_limits<double>::infinity();
  for (unsigned used = 0; used <= all_columns; ++used) {
    auto x = solve(eq, used);
    if (!x || (*x)[0] < 0 || (*x)[1] < 0 || (*x)[2] < 0) continue;
    double x_error = squared_error(samples, *x);
    if (x_error < best_error) {
      best = *x;
      best_error = x_error;
    }
  }
  return attention_cost_model{best[0], best[1], best[2]};
}

} // namespace dualpath::core
