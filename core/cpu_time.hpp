// What a benchmark costs: CPU time of the whole process, all of its threads, user and kernel.
#pragma once

#include <ctime>

namespace dualpath::core {

inline double process_cpu_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

} // namespace dualpath::core
