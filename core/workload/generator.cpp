#include "core/workload/generator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace dualpath::core {

namespace {

/// The standard library's distributions differ between implementations; this one does not.
class random_source {
public:
  explicit random_source(std::uint64_t seed) : engine_{seed} {}
  /// In (0, 1).
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  /// Mean 1: a gamma variable of shape 2, so that rounds vary but none is vanishingly small.
  double jitter() { return -0.5 * (std::log(uniform()) + std::log(uniform())); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(uniform() * static_cast<double>(n)); }

  /// One sample from the middle half of each of n equal slices of (0, 1), in random order: no trajectory is
  /// so extreme that it moves a mean by itself.
  std::vector<double> strata(std::size_t n) {
    std::vector<double> u(n);
    for (std::size_t i = 0; i < n; ++i)
      u[i] = (static_cast<double>(i) + 0.25 + uniform() / 2) / static_cast<double>(n);
    for (std::size_t i = n; i > 1; --i) std::swap(u[i - 1], u[below(i)]);
    return u;
  }

private:
  std::mt19937_64 engine_;
};

/// Inverse of the standard normal distribution by bisection: called once a trajectory, so precision is cheap.
double normal_quantile(double u) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    auto middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < u ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Splits `total` tokens by weight, at least one each; sums to max(total, parts).
std::vector<std::uint32_t> split(std::uint32_t total, const std::vector<double>& weights) {
  auto n = weights.size();
  auto spare = total > n ? total - n : 0.0;
  auto sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::uint32_t> parts(n);
  double reached = 0;
  std::uint32_t given = 0;
  for (std::size_t i = 0; i < n; ++i) {
    reached += weights[i];
    auto upto = static_cast<std::uint32_t>(std::lround(static_cast<double>(spare) * reached / sum));
    parts[i] = 1 + upto - given;
    given = upto;
  }
  return parts;
}

/// The share of all appended tokens that the first round brings, so that the mean prompt is `context` tokens:
/// the mean prompt is linear in that share. `rest` are the weights of the other rounds.
double first_share(double context, double appended, double mean_generated, const std::vector<double>& rest) {
  auto turns = static_cast<double>(rest.size() + 1);
  auto sum = std::accumulate(rest.begin(), rest.end(), 0.0);
  double later = 0, reached = 0;
  for (auto w : rest) {
    reached += w;
    later += reached / sum;
  }
  later /= turns; // mean over rounds of the part of the rest already appended
  auto prompt_of_appends = context - mean_generated * (turns - 1) / 2;
  auto share = (prompt_of_appends / appended - later) / (1 - later);
  return std::clamp(share, 1 / turns, 0.9);
}

struct draw {
  std::uint32_t turns, total;
  double context; ///< mean prompt wanted
};

trajectory make_trajectory(const draw& d, double generate_share, random_source& random) {
  std::vector<double> generate_weights(d.turns), append_weights(d.turns);
  for (auto& w : generate_weights) w = random.jitter();
  std::vector<double> rest(d.turns - 1);
  for (auto& w : rest) w = random.jitter();

  auto generated = static_cast<std::uint32_t>(std::lround(d.total * generate_share));
  auto appended = d.total - generated;
  if (rest.empty()) {
    append_weights[0] = 1;
  } else {
    auto share = first_share(d.context, appended, static_cast<double>(generated) / d.turns, rest);
    auto sum = std::accumulate(rest.begin(), rest.end(), 0.0);
    append_weights[0] = share;
    for (std::size_t i = 0; i < rest.size(); ++i) append_weights[i + 1] = rest[i] / sum * (1 - share);
  }

  auto appends = split(appended, append_weights), generates = split(generated, generate_weights);
  trajectory t;
  t.rounds.resize(d.turns);
  for (std::uint32_t i = 0; i < d.turns; ++i) {
    t.rounds[i].append_tokens = appends[i];
    t.rounds[i].generate_tokens = generates[i];
  }
  return t;
}

std::string session_name(std::string_view profile, std::uint32_t index) {
  auto digits = std::to_string(index);
  return std::string{profile} + "-" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits;
}

} // namespace

result<workload_profile> find_profile(std::string_view name) {
  for (const auto& profile : workload_profiles)
    if (name == profile.name) return profile;
  return error{errc::invalid_argument,
               "there is no synthetic trace '" + std::string{name} + "'; choose 32K, 48K or 64K"};
}

trace generate_trace(const workload_profile& profile, std::uint32_t trajectories, std::uint64_t seed) {
  random_source random{seed};
  // With final length L independent of turns T, append + generate = E[L/T] = total · E[1/T], and for a
  // log-normal T E[T]·E[1/T] = exp(σ²): the published means fix σ.
  auto per_round = profile.append + profile.generate;
  auto variance = std::log(profile.turns * per_round / profile.total);
  auto mu = std::log(profile.turns) - variance / 2, sigma = std::sqrt(variance);
  auto shortest = 2 * profile.total - profile.max_tokens;
  constexpr double context_spread = 0.15;

  auto u_turns = random.strata(trajectories), u_total = random.strata(trajectories),
       u_context = random.strata(trajectories);
  trace t;
  t.name = std::string{"synthetic:"} + profile.name;
  t.trajectories.reserve(trajectories);
  for (std::uint32_t i = 0; i < trajectories; ++i) {
    draw d;
    auto turns = std::lround(std::exp(mu + sigma * normal_quantile(u_turns[i])));
    d.turns = static_cast<std::uint32_t>(std::max(turns, 1L));
    d.total = static_cast<std::uint32_t>(shortest + (profile.max_tokens - shortest) * u_total[i]);
    d.context = profile.context / profile.total * d.total * (1 + context_spread * (2 * u_context[i] - 1));
    auto one = make_trajectory(d, profile.generate / per_round, random);
    one.session = session_name(profile.name, i);
    t.trajectories.push_back(std::move(one));
  }
  return t;
}

} // namespace dualpath::core
