#include "kernels/cuda/stream_lane.hpp"

#include "kernels/cuda/cuda_error.hpp"

#include <utility>

namespace dualpath::kernels::cuda {

stream_lane::stream_lane(std::shared_ptr<stream> on)
    : stream_{std::move(on)}, queueing_{[this] { queue_all(); }}, completing_{[this] { complete_all(); }} {}

stream_lane::~stream_lane() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  submitted_.notify_one();
  queueing_.join();
  completing_.join();
}

void stream_lane::submit(stream_operation operation) {
  {
    std::lock_guard lock{mutex_};
    waiting_.push_back(std::move(operation));
  }
  submitted_.notify_one();
}

void stream_lane::queue_all() {
  cudaSetDevice(stream_->device());
  std::unique_lock lock{mutex_};
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    queued item{std::move(waiting_.front()), {}, {}, nullptr};
    waiting_.pop_front();
    auto closing = stopping_;
    lock.unlock();
    if (closing)
      item.outcome = core::error{core::errc::closed, "the compute device is shutting down"};
    else
      give(item);
    lock.lock();
    running_.push_back(std::move(item));
    given_.notify_one();
  }
  all_given_ = true;
  given_.notify_one();
}

// Work that was queued before a failure may still run: the event is recorded in any case.
void stream_lane::give(queued& item) {
  item.outcome = item.operation.queue(item.held);
  call_sequence calls;
  // A thread that waits for the event sleeps.
  calls
      .then("making an event",
            [&] {
              return cudaEventCreateWithFlags(&item.done, cudaEventBlockingSync | cudaEventDisableTiming);
            })
      .then("recording an event", [&] { return cudaEventRecord(item.done, stream_->get()); });
  if (item.outcome) item.outcome = calls.outcome();
}

void stream_lane::complete_all() {
  cudaSetDevice(stream_->device());
  std::unique_lock lock{mutex_};
  while (true) {
    given_.wait(lock, [this] { return all_given_ || !running_.empty(); });
    if (running_.empty()) return;
    auto item = std::move(running_.front());
    running_.pop_front();
    lock.unlock();
    complete(std::move(item));
    lock.lock();
  }
}

void stream_lane::complete(queued item) {
  if (item.done) {
    auto waited = check(cudaEventSynchronize(item.done), "an operation");
    if (item.outcome) item.outcome = std::move(waited);
    cudaEventDestroy(item.done);
  }
  item.held.clear();
  item.operation.complete(std::move(item.outcome));
}

} // namespace dualpath::kernels::cuda
