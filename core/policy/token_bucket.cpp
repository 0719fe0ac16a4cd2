#include "core/policy/token_bucket.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dualpath::core {

namespace {

// Half of the range, so that sums of an instant and a debt cannot overflow.
constexpr double longest_ns = 0x1p61;
constexpr std::int64_t latest_ns = std::int64_t{1} << 62;

} // namespace

token_bucket::token_bucket(double bytes_per_s, std::uint64_t burst_bytes)
    : bytes_per_s_{bytes_per_s > 0 ? bytes_per_s : 0} {
  double burst_ns = time_ns(burst_bytes);
  burst_whole_ns_ = static_cast<std::int64_t>(std::ceil(burst_ns));
  burst_fraction_ns_ = std::ceil(burst_ns) - burst_ns;
  zero_ns_ = -burst_whole_ns_;
  zero_fraction_ns_ = burst_fraction_ns_;
}

double token_bucket::time_ns(std::uint64_t bytes) const {
  return bytes_per_s_ == 0 ? 0 : std::min(static_cast<double>(bytes) / bytes_per_s_ * 1e9, longest_ns);
}

instant token_bucket::ready_at(instant now) const {
  if (bytes_per_s_ == 0) return now;
  return std::max(now, instant{zero_ns_ + (zero_fraction_ns_ > 0 ? 1 : 0)});
}

void token_bucket::take(std::uint64_t bytes, instant now) {
  if (bytes_per_s_ == 0) return;
  auto full_ns = now.count() - burst_whole_ns_;
  if (std::pair{zero_ns_, zero_fraction_ns_} < std::pair{full_ns, burst_fraction_ns_}) {
    zero_ns_ = full_ns;
    zero_fraction_ns_ = burst_fraction_ns_;
  }
  double whole = 0;
  zero_fraction_ns_ = std::modf(zero_fraction_ns_ + time_ns(bytes), &whole);
  zero_ns_ = std::min(zero_ns_ + static_cast<std::int64_t>(whole), latest_ns);
}

} // namespace dualpath::core
