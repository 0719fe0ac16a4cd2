// Errors of the CUDA runtime as values.
#pragma once

#include "core/result.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace dualpath::kernels::cuda {

/// no_space where memory ran out, io else; the text names what was being done.
inline core::error error_of(cudaError_t code, const std::string& doing) {
  auto kind = code == cudaErrorMemoryAllocation ? core::errc::no_space : core::errc::io;
  return {kind, doing + " failed on the CUDA device: " + cudaGetErrorString(code)};
}

inline core::result<void> check(cudaError_t code, const std::string& doing) {
  if (code == cudaSuccess) return {};
  return error_of(code, doing);
}

/// Calls in a row, none after the first that fails.
class call_sequence {
public:
  template <class Call>
  call_sequence& then(const char* doing, const Call& call) {
    if (outcome_) outcome_ = check(call(), doing);
    return *this;
  }
  const core::result<void>& outcome() const { return outcome_; }

private:
  core::result<void> outcome_;
};

} // namespace dualpath::kernels::cuda
