// A compute device without weights, for running a whole cluster on machines that could not hold the model. KV
// rows are a function of (model, every token up to the position, layer): computed rows are written, cached
// rows are checked byte for byte when the device first sees them, so a KV-cache that was lost, mixed up or
// damaged anywhere between two engines is found and named. Computing takes as long as the FLOPs of the shape
// take at a given rate; the real work of writing and checking counts into that time. Copies run beside it.
//
// Threading as in compute.hpp; completions run on the thread of the clock. Operations that are under way when
// the device ends complete as closed.
#pragma once

#include "core/clock.hpp"
#include "kernels/compute.hpp"
#include "kernels/pattern/paced_queue.hpp"
#include "kernels/pattern/pattern_shape.hpp"

#include <cstdint>
#include <memory>

namespace dualpath::kernels {

struct pattern_options {
  core::clock& clock; ///< must outlive the device
  pattern_shape shape;
  std::uint32_t block_tokens = 64;
  double flops_per_s =
      0; ///< 0: computing takes no longer than the real work, and predicted_seconds() is unknown
  work_thread thread = work_thread::own;
};

std::unique_ptr<compute_device> make_pattern_device(pattern_options options);

} // namespace dualpath::kernels
