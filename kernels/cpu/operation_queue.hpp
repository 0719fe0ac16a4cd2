// A thread that runs operations one after another, in the order pushed. When it ends, the operation in
// progress is finished and the rest are told that they will not run, so that every completion is called once.
// It may end inside one of its own operations.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace dualpath::kernels {

class operation_queue {
public:
  /// Called once: with true to run, with false when the queue ended before its turn.
  using operation = std::function<void(bool run)>;

  operation_queue();
  ~operation_queue();
  operation_queue(const operation_queue&) = delete;
  operation_queue& operator=(const operation_queue&) = delete;

  /// From any thread, also from inside an operation.
  void push(operation next);

private:
  /// Outlives the queue where an operation ends it.
  struct state {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<operation> waiting;
    bool stopping = false;
  };

  static void drive(const std::shared_ptr<state>& of);

  std::shared_ptr<state> state_;
  std::thread driver_;
};

} // namespace dualpath::kernels
