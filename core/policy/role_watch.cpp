#include "core/policy/role_watch.hpp"

namespace dualpath::core {

role_watch::verdict role_watch::observe(bool missing, std::uint64_t requests, instant now) {
  if (!missing || requests == 0) {
    awaited_since_.reset();
    return verdict::served;
  }
  if (!awaited_since_) awaited_since_ = now;
  return now - *awaited_since_ >= patience_ ? verdict::given_up : verdict::awaited;
}

} // namespace dualpath::core
