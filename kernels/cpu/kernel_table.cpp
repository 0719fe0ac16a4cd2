#include "kernels/cpu/kernel_table.hpp"

namespace dualpath::kernels {

std::vector<const kernel_table*> available_kernels() {
  std::vector<const kernel_table*> tables;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
      && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    tables.push_back(&avx512_kernels);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&avx2_kernels);
#endif
  tables.push_back(&portable_kernels);
  return tables;
}

const kernel_table& best_kernels() {
  static const kernel_table& best = *available_kernels().front();
  return best;
}

} // namespace dualpath::kernels
