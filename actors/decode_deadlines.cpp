// What a decode engine does when its device does not answer in time, and what it tells the scheduler that it
// holds.
#include "actors/decode_engine.hpp"

namespace dualpath::actors {

void decode_engine_state::watch() {
  auto now = settings->clock->now();
  auto patience = settings->store_patience_deadlines * settings->deadline;
  if (claimed_slots <= write_slots_begin) {
    slots_flowed = now;
  } else if (now > slots_flowed + patience) {
    self->send(storage_nic, proto::slots_overdue{devices->engine});
  }
  if (!stepping || now < stepping_since + settings->compute_deadline) return;
  self->quit(caf::make_error(caf::sec::runtime_error,
                             "a decode step did not end within "
                                 + std::to_string(core::to_seconds(settings->compute_deadline)) + " s"));
}

void decode_engine_state::answer_stock(const proto::take_stock& ask) {
  door.forget_below(ask.oldest);
  proto::stock answer{devices->engine, incarnation, ask.round, {}, {}};
  auto add = [&answer](core::request_id request, core::epoch epoch) {
    answer.requests.push_back(request);
    answer.epochs.push_back(epoch);
  };
  for (auto& [key, area] : landings)
    if (!area.closed) add(key.first, key.second);
  for (auto& work : waiting_for_hbm) add(work.request.id, work.request.epoch);
  for (auto& [id, job] : jobs)
    if (!job.finished) add(id, job.request.epoch);
  self->send(scheduler, std::move(answer));
}

void decode_engine_state::count_use() {
  hbm_in_use.set(hbm.capacity() - hbm.free_slots());
  slots_in_use.set(write_slots.capacity() - write_slots.free_slots());
}

} // namespace dualpath::actors
