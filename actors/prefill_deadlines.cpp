// What a prefill engine does when it does not hear of something in time, and what it tells the scheduler that
// it holds.
#include "actors/deliver.hpp"
#include "actors/prefill_engine.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

void prefill_engine_state::started_computing() {
  ++batch->in_flight;
  if (batch->computing++ == 0) batch->computing_since = settings->clock->now();
}

void prefill_engine_state::watch() {
  auto now = settings->clock->now();
  for (auto& [id, job] : jobs) {
    if (job.abandoned || job.waits_for == prefill_job::wait::nothing || now < job.asked + settings->deadline)
      continue;
    core::log_event(core::log_level::debug, "landing_asked_again",
                    {{"engine", devices->engine},
                     {"request", id},
                     {"epoch", job.request.epoch},
                     {"decode", job.request.decode}});
    ask_for_landing(job);
  }
  auto patience = settings->store_patience_deadlines * settings->deadline;
  if (claimed_slots <= pool_slots()) {
    slots_flowed = now;
  } else if (now > slots_flowed + patience) {
    self->send(storage_nic, proto::slots_overdue{devices->engine});
  }
  if (!batch || batch->computing == 0 || now < batch->computing_since + settings->compute_deadline) return;
  self->quit(caf::make_error(caf::sec::runtime_error,
                             "a computation in prefill did not end within "
                                 + std::to_string(core::to_seconds(settings->compute_deadline)) + " s"));
}

void prefill_engine_state::hits_loaded(const proto::hits_loaded& hits) {
  auto* job = find_job(hits.request, hits.epoch);
  // Told again, or before the landing itself: the latter is asked for again.
  if (!job || job->waits_for != prefill_job::wait::hits) return;
  job->waits_for = prefill_job::wait::nothing;
  if (hits.unreadable && other_side_may_read(*job, core::engine_role::decode)) {
    read_failed(*job, core::engine_role::decode, hits.good_blocks);
  } else {
    part_read(*job, core::engine_role::decode, hits.good_blocks, hits.unreadable);
  }
}

void prefill_engine_state::answer_stock(const proto::take_stock& ask) {
  door.forget_below(ask.oldest);
  proto::stock answer{devices->engine, incarnation, ask.round, {}, {}, kept.size()};
  auto add = [&answer](const proto::request& request) {
    answer.requests.push_back(request.id);
    answer.epochs.push_back(request.epoch);
  };
  for (auto& [id, job] : jobs) add(job.request);
  for (auto& [id, request] : next_attempts) add(request);
  for (auto& [id, attempt] : kept) {
    answer.requests.push_back(id);
    answer.epochs.push_back(attempt.epoch);
  }
  self->send(scheduler, std::move(answer));
}

} // namespace dualpath::actors
