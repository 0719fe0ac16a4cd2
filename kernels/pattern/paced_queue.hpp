// Work that takes as long as a model says: each operation does its real work, and completes when both the
// work is done and its modelled time is over. Modelled times follow one another, as on one GPU; the real work
// of later operations goes on meanwhile.
//
// Completions come from the clock, once each. Those the clock has not delivered when the queue ends, and
// operations not yet begun, complete as closed before the destructor returns; the destructor also waits for
// one that is running, unless it runs inside it. Threading: submit() from one thread at a time.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace dualpath::kernels {

enum class work_thread : std::uint8_t {
  own,    ///< real work on a thread of the queue
  caller, ///< real work inside submit(): for clocks that are not thread-safe, and for repeatable simulation
};

struct paced_operation {
  std::function<void()> work;
  /// Nothing: the work was done. An error: the queue ended first, and the work may never have run.
  std::function<void(std::optional<core::error>)> finish;
  core::duration modelled{0};
  /// Takes its turn on the modelled GPU; otherwise it runs beside it, like a copy engine.
  bool takes_turn = true;
};

class paced_queue {
public:
  paced_queue(core::clock& clock, work_thread thread);
  ~paced_queue();
  paced_queue(const paced_queue&) = delete;
  paced_queue& operator=(const paced_queue&) = delete;

  void submit(paced_operation operation);

private:
  using finish_function = std::function<void(std::optional<core::error>)>;
  struct queued {
    paced_operation operation;
    core::instant issued;
  };
  /// Completions handed to the clock; outlives the queue for as long as the clock holds actions.
  struct deliveries {
    std::mutex mutex;
    std::condition_variable idle;
    std::map<std::uint64_t, finish_function> waiting;
    std::uint64_t next = 0;
    std::thread::id running{};

    void deliver(std::uint64_t id);
    void wait_idle();
  };

  void run();
  void execute(queued item);
  void close_all();

  core::clock& clock_;
  std::shared_ptr<deliveries> deliveries_ = std::make_shared<deliveries>();
  core::instant busy_until_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<queued> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace dualpath::kernels
