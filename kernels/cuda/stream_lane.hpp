// Operations of one stream, in order, without blocking whoever asks for them. One thread queues the work of
// an operation on the stream; another sleeps until the device has done it, and completes the operation. So
// the device has its next work while the last is being completed.
#pragma once

#include "core/result.hpp"
#include "kernels/cuda/memory.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dualpath::kernels::cuda {

/// Host memory that copies on the stream still use.
using held_memory = std::vector<std::shared_ptr<std::byte>>;

struct stream_operation {
  /// Queues the work, on the queueing thread.
  std::function<core::result<void>(held_memory&)> queue;
  /// Called once, on the completing thread: when the device is done, or with what went wrong.
  std::function<void(core::result<void>)> complete;
};

class stream_lane {
public:
  explicit stream_lane(std::shared_ptr<stream> on);
  /// Waits for what the device has been given; what is still waiting completes as closed.
  ~stream_lane();
  stream_lane(const stream_lane&) = delete;
  stream_lane& operator=(const stream_lane&) = delete;

  void submit(stream_operation operation);

private:
  struct queued {
    stream_operation operation;
    core::result<void> outcome;
    held_memory held;
    cudaEvent_t done = nullptr;
  };

  void queue_all();
  void complete_all();
  void give(queued& item);
  void complete(queued item);

  std::shared_ptr<stream> stream_;
  std::mutex mutex_;
  std::condition_variable submitted_, given_;
  std::deque<stream_operation> waiting_;
  std::deque<queued> running_;
  bool stopping_ = false;
  bool all_given_ = false;
  std::thread queueing_, completing_;
};

} // namespace dualpath::kernels::cuda
