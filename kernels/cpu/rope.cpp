#include "kernels/cpu/rope.hpp"

#include <cmath>

namespace dualpath::kernels {
namespace {

struct sine_cosine {
  double sine, cosine;
};

/// For 0 <= x < 2^20. Reduction to a quarter turn and polynomials as in fdlibm.
sine_cosine turn(double x) {
  constexpr double two_over_pi = 0.63661977236758134308;
  // The first 33 bits of pi / 2, so that quarter * pi_half_high is exact, and the rest.
  constexpr double pi_half_high = 1.57079632673412561417e+00;
  constexpr double pi_half_low = 6.07710050650619224932e-11;
  auto quarter = std::floor(x * two_over_pi + 0.5);
  auto r = (x - quarter * pi_half_high) - quarter * pi_half_low;
  auto z = r * r;
  auto s = 1.58969099521155010221e-10;
  for (double c : {-2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
                   8.33333333332248946124e-03, -1.66666666666666324348e-01})
    s = s * z + c;
  auto sine = r + r * z * s;
  auto c = -1.13596475577881948265e-11;
  for (double k : {2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                   -1.38888888888741095749e-03, 4.16666666666666019037e-02})
    c = c * z + k;
  auto cosine = 1.0 - 0.5 * z + z * z * c;
  switch (static_cast<std::int64_t>(quarter) & 3) {
  case 0:
    return {sine, cosine};
  case 1:
    return {cosine, -sine};
  case 2:
    return {-sine, -cosine};
  default:
    return {-cosine, sine};
  }
}

} // namespace

rope::rope(std::uint32_t head_dim, double theta) {
  // Rounded to float at the same places as the reference implementation: at high positions it shows.
  for (std::uint32_t i = 0; i < head_dim; i += 2) {
    auto exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    frequencies_.push_back(1.0F / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
}

void rope::angles(std::uint32_t position, std::span<float> out) const {
  for (std::uint32_t i = 0; i < half(); ++i) {
    auto [sine, cosine] = turn(static_cast<double>(static_cast<float>(position) * frequencies_[i]));
    out[i] = static_cast<float>(cosine);
    out[half() + i] = static_cast<float>(sine);
  }
}

void rope::rotate(float* head, std::span<const float> angles) {
  auto half = angles.size() / 2;
  const auto* cosines = angles.data();
  const auto* sines = cosines + half;
  for (std::size_t i = 0; i < half; ++i) {
    auto x = head[i];
    auto y = head[half + i];
    head[i] = x * cosines[i] - y * sines[i];
    head[half + i] = y * cosines[i] + x * sines[i];
  }
}

} // namespace dualpath::kernels
