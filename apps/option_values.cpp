// Readers of the values that only options have: clusters, policies, devices, arrivals.
#include "apps/options.hpp"
#include "core/units.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace dualpath::apps {

namespace {

constexpr std::uint32_t max_nodes = 4096;

core::error fail(std::string_view text, const std::string& reason) {
  return {core::errc::invalid_argument, "'" + std::string{text} + "' " + reason};
}

/// Takes digits and the letter after them off the front of `text`.
std::optional<std::uint32_t> take_count(std::string_view& text, char letter) {
  std::uint32_t value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end == text.data() + text.size() || (*end & ~0x20) != letter)
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return value;
}

} // namespace

core::result<cluster_size> parse_cluster(std::string_view text) {
  auto rest = text;
  auto prefill = take_count(rest, 'P');
  auto decode = prefill ? take_count(rest, 'D') : std::nullopt;
  if (!decode || !rest.empty())
    return fail(text, "is not a cluster; write it as 2P1D, prefill and decode nodes");
  if (*prefill == 0) return fail(text, "has no prefill node; at least one is needed, as in 1P1D");
  if (*decode == 0) return fail(text, "has no decode node; at least one is needed, as in 1P1D");
  if (*prefill > max_nodes || *decode > max_nodes)
    return fail(text, "has more than " + std::to_string(max_nodes) + " nodes of a role");
  return cluster_size{*prefill, *decode};
}

core::result<cluster_size> parse_first_nodes(std::string_view text) {
  auto rest = text;
  auto prefill = take_count(rest, 'P');
  auto decode = prefill ? take_count(rest, 'D') : std::nullopt;
  if (decode && rest.empty() && *prefill == 0 && *decode == 0) return cluster_size{0, 0};
  return parse_cluster(text);
}

std::string to_string(const cluster_size& size) {
  return std::to_string(size.prefill_nodes) + "P" + std::to_string(size.decode_nodes) + "D";
}

core::result<core::policy> parse_policy(std::string_view text) {
  for (auto p : {core::policy::dualpath, core::policy::split, core::policy::basic, core::policy::round_robin,
                 core::policy::recompute, core::policy::oracle})
    if (text == to_string(p)) return p;
  return fail(text, "is not a policy; choose dualpath, split, basic, round_robin, recompute or oracle");
}

core::result<std::vector<core::policy>> parse_policies(std::string_view text) {
  std::vector<core::policy> policies;
  for (;;) {
    auto comma = text.find(',');
    auto one = parse_policy(text.substr(0, comma));
    if (!one) return one.error();
    if (std::find(policies.begin(), policies.end(), *one) != policies.end())
      return fail(to_string(*one), "is listed twice");
    policies.push_back(*one);
    if (comma == std::string_view::npos) return policies;
    text.remove_prefix(comma + 1);
  }
}

core::result<compute_choice> parse_compute(std::string_view text) {
  constexpr std::string_view pattern = "pattern:";
  if (text == "cpu") return compute_choice{};
  if (!text.starts_with(pattern))
    return fail(text, "is not a compute device; choose cpu, or pattern:2TFLOPS for a device of that speed");
  auto flops = core::parse_flops(text.substr(pattern.size()));
  if (!flops) return flops.error();
  if (!(*flops > 0)) return fail(text, "must be faster than 0 FLOP/s");
  return compute_choice{compute_kind::pattern, *flops};
}

core::result<copy_choice> parse_copies(std::string_view text) {
  constexpr std::string_view by_name = "verbs:";
  if (text == "auto") return copy_choice{};
  if (text == "device") return copy_choice{copy_mode::device};
  if (text == "verbs") return copy_choice{copy_mode::verbs};
  if (text.size() <= by_name.size() || !text.starts_with(by_name))
    return fail(text,
                "is not a way to copy; choose auto, device, verbs, or verbs:mlx5_0 for one RDMA device");
  return copy_choice{copy_mode::verbs, std::string{text.substr(by_name.size())}};
}

core::result<core::arrival_process> parse_arrival(std::string_view text) {
  constexpr std::string_view poisson = "poisson:";
  if (text == "closed") return core::arrival_process{};
  if (text == "trace") return core::arrival_process{core::arrival_kind::trace, 0};
  if (!text.starts_with(poisson))
    return fail(text,
                "is not an arrival process; choose closed, trace, or poisson:0.4 for agents per second");
  auto digits = text.substr(poisson.size());
  double rate = 0;
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rate);
  if (failure != std::errc{} || end != digits.data() + digits.size() || !(rate > 0) || !std::isfinite(rate))
    return fail(text, "needs a rate above 0 in agents per second, as in poisson:0.4");
  return core::arrival_process{core::arrival_kind::poisson, rate};
}

} // namespace dualpath::apps
