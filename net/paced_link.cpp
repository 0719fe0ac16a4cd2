#include "net/paced_link.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::net {

paced_link::paced_link(fabric& inner, core::clock& clock, core::link_pacer pacer, const lane_numbers& numbers,
                       std::uint64_t quantum_bytes, report ended)
    : inner_{inner},
      clock_{clock},
      numbers_{numbers},
      quantum_bytes_{std::max<std::uint64_t>(quantum_bytes, 1)},
      ended_{std::move(ended)},
      pacer_{std::move(pacer)},
      heads_(std::size_t{*std::max_element(numbers.begin(), numbers.end())} + 1) {}

bool paced_link::submit(const paced_job_ptr& job) {
  {
    std::lock_guard lock{mutex_};
    queues_[static_cast<std::size_t>(job->transfer.lane)].push_back(job);
  }
  pump();
  std::lock_guard lock{mutex_};
  return !job->issued && !job->failure;
}

void paced_link::pump() {
  std::unique_lock lock{mutex_};
  ++pumping_;
  while (auto which = choose()) {
    auto lane = static_cast<std::size_t>(*which);
    auto next = take(lane);
    handing_on_[lane] = true;
    lock.unlock();
    issue(std::move(next));
    lock.lock();
    handing_on_[lane] = false;
  }
  if (--pumping_ == 0) idle_.notify_all();
}

std::uint64_t paced_link::head_bytes(std::size_t lane) const {
  // Another thread is handing on work of the lane; it comes back for more.
  if (queues_[lane].empty() || handing_on_[lane]) return 0;
  auto& job = *queues_[lane].front();
  auto bytes = job.letter ? job.bytes : std::min(job.rest.left_bytes(), quantum_bytes_);
  return std::max<std::uint64_t>(bytes, 1);
}

std::optional<lane> paced_link::choose() {
  if (stopped_) return std::nullopt;
  bool any = false;
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    auto bytes = head_bytes(lane);
    heads_[numbers_[lane]] = bytes;
    any |= bytes > 0;
  }
  if (!any) return std::nullopt;
  auto number = pacer_.next(heads_, clock_.now());
  if (!number) return std::nullopt;
  auto found = std::find(numbers_.begin(), numbers_.end(), *number);
  return static_cast<lane>(found - numbers_.begin());
}

paced_link::part paced_link::take(std::size_t lane) {
  auto& queue = queues_[lane];
  part out{queue.front(), {}, head_bytes(lane)};
  auto& job = *out.job;
  if (!std::exchange(job.begun, true)) waited_[lane] += clock_.now() - job.submitted;
  if (!job.letter) out.pieces = job.rest.next(quantum_bytes_);
  job.issued = job.letter || job.rest.left_bytes() == 0;
  ++job.parts_under_way;
  if (job.issued) queue.pop_front();
  return out;
}

void paced_link::issue(part what) {
  auto& job = *what.job;
  auto on_done = [this, owner = what.job, bytes = what.bytes](core::result<void> outcome) {
    part_done(owner, bytes, std::move(outcome));
  };
  auto& t = job.transfer;
  if (job.what == paced_job::kind::send)
    return inner_.send(t.peer, t.lane, std::move(*job.letter), t.deadline, std::move(on_done));
  transfer moved{t.peer, t.lane, t.local, t.remote, std::move(what.pieces), t.deadline};
  if (job.what == paced_job::kind::put) {
    inner_.put(std::move(moved), std::move(on_done));
  } else {
    inner_.get(std::move(moved), std::move(on_done));
  }
}

void paced_link::part_done(const paced_job_ptr& job, std::uint64_t bytes, core::result<void> outcome) {
  bool over = false;
  bool broke = !outcome && outcome.error().code == core::errc::disconnected;
  {
    std::lock_guard lock{mutex_};
    pacer_.finished(bytes);
    --job->parts_under_way;
    if (!outcome && !job->failure) {
      job->failure = outcome.error();
      if (!job->issued) std::erase(queues_[static_cast<std::size_t>(job->transfer.lane)], job);
    }
    over = job->parts_under_way == 0 && (job->issued || job->failure) && !std::exchange(job->ended, true);
  }
  if (over) ended_(*job, job->failure ? core::result<void>{*job->failure} : core::result<void>{});
  if (broke) {
    // What was submitted before a lane breaks fails with it; handed on now, it would open the lane anew to a
    // peer that may be going.
    auto& t = job->transfer;
    for (auto& each : withdraw(
             [&](const paced_job& other) {
               return other.transfer.peer == t.peer && other.transfer.lane == t.lane;
             },
             [&](const paced_job&) { return outcome.error(); }))
      ended_(*each, *each->failure);
  }
  pump();
}

std::vector<paced_job_ptr> paced_link::withdraw(const picked& which,
                                                const std::function<core::error(const paced_job&)>& why) {
  std::vector<paced_job_ptr> over;
  std::lock_guard lock{mutex_};
  for (auto& queue : queues_) {
    std::erase_if(queue, [&](const paced_job_ptr& job) {
      if (!which(*job)) return false;
      if (!job->failure) job->failure = why(*job);
      if (job->parts_under_way == 0) {
        job->ended = true;
        over.push_back(job);
      }
      return true;
    });
  }
  return over;
}

std::optional<core::instant> paced_link::next_deadline() const {
  std::optional<core::instant> nearest;
  std::lock_guard lock{mutex_};
  for (auto& queue : queues_)
    for (auto& job : queue)
      if (!nearest || job->transfer.deadline < *nearest) nearest = job->transfer.deadline;
  return nearest;
}

void paced_link::stop() {
  std::unique_lock lock{mutex_};
  stopped_ = true;
  idle_.wait(lock, [&] { return pumping_ == 0; });
}

core::duration paced_link::waited(lane of) const {
  std::lock_guard lock{mutex_};
  return waited_[static_cast<std::size_t>(of)];
}

} // namespace dualpath::net
