// What a lane is handed: jobs and actions, from their posting to the report.
#include "net/piece_cursor.hpp"
#include "net/ucx_lane.hpp"

#include <unistd.h>

#include <utility>

namespace dualpath::net {
namespace {

core::error invalid(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

} // namespace

thread_local ucx_lane* ucx_lane::running_ = nullptr;

core::error ucx_lane::closed_error() { return {core::errc::closed, "the fabric is closing"}; }

void ucx_lane::post(std::unique_ptr<ucx_job> job) { enqueue(std::move(job)); }
void ucx_lane::post(action act) { enqueue(std::move(act)); }

void ucx_lane::enqueue(command c) {
  // Completions that start the next transfer: without a lock, see lane_regions.hpp.
  if (running_ == this && !posted_.load(std::memory_order_acquire)) return own_.push_back(std::move(c));
  {
    std::lock_guard lock{mutex_};
    commands_.push_back(std::move(c));
    posted_.store(true, std::memory_order_release);
  }
  // The thread announces its sleep before it looks at the commands for the last time, so one of both sees the
  // other.
  if (sleeping_.load() && sleeping_.exchange(false)) {
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = ::write(wake_fd_, &one, sizeof one);
  }
}

bool ucx_lane::drain() { return take_commands(); }

bool ucx_lane::take_commands() {
  bool any = !own_.empty();
  if (any) carry_out(own_);
  if (!posted_.load(std::memory_order_acquire)) return any;
  {
    std::lock_guard lock{mutex_};
    std::swap(taken_, commands_);
    posted_.store(false, std::memory_order_relaxed);
  }
  if (!own_.empty()) carry_out(own_);
  carry_out(taken_);
  return true;
}

/// Those that were there when it began.
void ucx_lane::carry_out(std::vector<command>& commands) {
  std::swap(carried_out_, commands);
  for (auto& next : carried_out_) {
    if (auto job = std::get_if<std::unique_ptr<ucx_job>>(&next)) {
      add_job(std::move(*job));
    } else {
      std::get<action>(next)(*this);
    }
  }
  carried_out_.clear();
}

void ucx_lane::add_job(std::unique_ptr<ucx_job> job) {
  if (!job->failure) {
    if (auto prepared = prepare(*job); !prepared) job->failure = prepared.error();
  }
  if (job->failure) return host_.report(lane_, *job, *job->failure);
  auto peer = job->peer;
  auto& place = slot_of(*peer);
  if (place.handshake.empty()) {
    if (auto asked = ask(peer->shared_from_this()); !asked) return host_.report(lane_, *job, asked.error());
  }
  if (job->what != ucx_job::kind::send) {
    job->counted = true;
    ++transfers_;
  }
  set_deadline(job->deadline);
  place.current()->add(std::move(job));
}

core::result<void> ucx_lane::prepare(ucx_job& job) {
  if (stopping_) return closed_error();
  bool moves = job.what != ucx_job::kind::send;
  if (moves && gates_closed_ != 0)
    return core::error{core::errc::closed, "the fabric is quiescing: no new transfers until it has"};
  if (!job.peer->up)
    return core::error{core::errc::disconnected, job.peer->name() + " is not connected: connect to it again"};
  if (!moves) return {};
  auto region = regions_.find(job.local_id);
  if (region == nullptr) {
    auto known = host_.find_memory(job.local_id);
    if (!known) return invalid("no memory region " + std::to_string(job.local_id.value) + " in this fabric");
    region = &regions_.keep(job.local_id, std::move(known));
  }
  job.local = region_use{*region};
  if (auto checked = check_pieces(job.cursor.pieces(), job.local->bytes().size(), job.remote->size); !checked)
    return checked;
  auto handle = job.local->handle(lane_);
  if (!handle) return handle.error();
  job.local_handle = *handle;
  job.cursor.start(options_.limits.max_operation_bytes);
  return {};
}

void ucx_lane::close_gate(std::function<void()> on_idle) {
  ++gates_closed_;
  if (transfers_ == 0) return on_idle();
  when_idle_.push_back(std::move(on_idle));
}

void ucx_lane::report(ucx_job& job, core::result<void> outcome) {
  if (job.internal) {
    untidy_ = true; // a courier or a bye has done its work
    if (job.message_id == static_cast<unsigned>(letter_kind::bye)) job.endpoint->said_bye = true;
  } else {
    host_.report(lane_, job, std::move(outcome));
    if (job.counted && --transfers_ == 0 && !when_idle_.empty()) {
      for (auto& call : std::exchange(when_idle_, {})) call();
    }
  }
}

} // namespace dualpath::net
