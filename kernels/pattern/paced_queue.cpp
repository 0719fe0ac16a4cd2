#include "kernels/pattern/paced_queue.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::kernels {

paced_queue::paced_queue(core::clock& clock, work_thread thread) : clock_{clock} {
  if (thread == work_thread::own) thread_ = std::thread{[this] { run(); }};
}

paced_queue::~paced_queue() {
  {
    std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable())
    thread_.join();
  else
    close_all();
  deliveries_->wait_idle();
}

void paced_queue::submit(paced_operation operation) {
  queued item{std::move(operation), clock_.now()};
  if (!thread_.joinable()) return execute(std::move(item));
  {
    std::lock_guard lock{mutex_};
    queue_.push_back(std::move(item));
  }
  wake_.notify_one();
}

void paced_queue::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (queue_.empty()) {
      wake_.wait(lock);
      continue;
    }
    auto item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    execute(std::move(item));
    lock.lock();
  }
  lock.unlock();
  close_all();
}

void paced_queue::execute(queued item) {
  auto& operation = item.operation;
  operation.work();
  auto finish = clock_.now();
  if (operation.takes_turn) {
    finish = std::max(finish, std::max(item.issued, busy_until_) + operation.modelled);
    busy_until_ = finish;
  }
  std::uint64_t id;
  {
    std::lock_guard lock{deliveries_->mutex};
    id = deliveries_->next++;
    deliveries_->waiting.emplace(id, std::move(operation.finish));
  }
  clock_.call_at(finish, [shared = deliveries_, id] { shared->deliver(id); });
}

void paced_queue::deliveries::deliver(std::uint64_t id) {
  std::unique_lock lock{mutex};
  auto found = waiting.extract(id);
  if (!found) return;
  running = std::this_thread::get_id();
  lock.unlock();
  found.mapped()(std::nullopt);
  found = {};
  lock.lock();
  running = {};
  idle.notify_all();
}

// A queue that ends inside a completion must not wait for that completion.
void paced_queue::deliveries::wait_idle() {
  std::unique_lock lock{mutex};
  idle.wait(lock, [&] { return running == std::thread::id{} || running == std::this_thread::get_id(); });
}

void paced_queue::close_all() {
  const core::error closed{core::errc::closed,
                           "the compute device was closed before the operation completed"};
  std::map<std::uint64_t, finish_function> waiting;
  {
    std::lock_guard lock{deliveries_->mutex};
    waiting.swap(deliveries_->waiting);
  }
  for (auto& [id, finish] : waiting) finish(closed);
  for (auto& item : queue_) item.operation.finish(closed);
  queue_.clear();
}

} // namespace dualpath::kernels
