#include "apps/command.hpp"

#include <iostream>

namespace dualpath::apps {

int report_error(const core::error& failure) {
  std::cerr << "dualpath: " << failure.text << std::endl;
  return failure.code == core::errc::invalid_argument ? exit_usage : exit_failed;
}

} // namespace dualpath::apps
