// The ends of a request in a prefill engine other than success, and the actor's handlers.
#include "actors/prefill_engine.hpp"

#include "actors/children.hpp"
#include "actors/deliver.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

/// `landed_blocks`: hit blocks that the decode side has or is reading, and need not be read again.
void prefill_engine_state::fail(prefill_job& job, const proto::outcome& why, core::failed_reads failed_reads,
                                std::uint32_t landed_blocks) {
  auto id = job.request.id;
  core::log_event(core::log_level::warn, "prefill_failed",
                  {{"node", devices->node},
                   {"engine", devices->engine},
                   {"request", id},
                   {"epoch", job.request.epoch},
                   {"why", why.text}});
  proto::request_failed notice{id, job.request.epoch, why, failed_reads};
  // One of the two can be kept.
  if (failed_reads.decode && usable_blocks(job.parts).count >= landed_blocks) notice.kept = keep_hits(job);
  notice.landing_kept = notice.kept.count == 0 && landed_blocks > 0;
  auto decode = decode_engines.find(job.request.decode);
  if (decode != decode_engines.end() && !notice.landing_kept)
    deliver(self, *settings, decode->second, proto::close_landing{id, job.request.epoch});
  deliver(self, *settings, scheduler, std::move(notice));
  forget(id);
}

void prefill_engine_state::abandon(const proto::abandon& order) {
  door.ended(order.request, order.epoch);
  auto next = next_attempts.find(order.request);
  if (next != next_attempts.end() && next->second.epoch == order.epoch) next_attempts.erase(next);
  auto found = jobs.find(order.request);
  if (found == jobs.end() || found->second.request.epoch != order.epoch) {
    deliver(self, *settings, scheduler,
            proto::abandoned{order.request, order.epoch, devices->engine, still_kept(order)});
    return;
  }
  auto& job = found->second;
  job.abandoned = true;
  job.keep_hits = order.keep_hits;
  std::erase(ready, order.request);
  if (!job.in_batch) forget(order.request);
}

void prefill_engine_state::forget(core::request_id request) {
  auto node = jobs.extract(request);
  auto& job = node.mapped();
  core::block_range kept_here;
  if (job.abandoned && job.keep_hits) kept_here = keep_hits(job);
  give_back(job.parts);
  if (job.abandoned)
    deliver(self, *settings, scheduler,
            proto::abandoned{request, job.request.epoch, devices->engine, kept_here});
  auto next = next_attempts.extract(request);
  if (!next.empty()) begin(std::move(next.mapped()));
}

proto::prefill_actor::behavior_type
prefill_engine(prefill_engine_state::self_pointer self, settings_ptr settings, devices_ptr devices,
               proto::scheduler_actor scheduler, proto::storage_nic_actor storage_nic,
               proto::compute_nic_actor compute_nic, proto::buffer_pool_actor pool,
               core::incarnation incarnation, std::shared_ptr<core::node_counters> counters) {
  auto& state = self->state;
  state.self = self;
  name_crashes(self);
  state.settings = std::move(settings);
  state.devices = std::move(devices);
  state.scheduler = std::move(scheduler);
  state.storage_nic = std::move(storage_nic);
  state.compute_nic = std::move(compute_nic);
  state.pool = std::move(pool);
  state.incarnation = incarnation;
  state.counters = std::move(counters);
  state.slots_flowed = state.settings->clock->now();
  self->delayed_send(self, state.settings->deadline / 4, proto::tick{});
  return {
      [self](proto::prefill_work& work) { self->state.accept(std::move(work.request)); },
      [self](const proto::landing& landing) { self->state.landed(landing); },
      [self](const proto::hits_loaded& hits) { self->state.hits_loaded(hits); },
      [self](const proto::abandon& order) { self->state.abandon(order); },
      [self](const proto::engine_up& peer) {
        if (peer.role == core::engine_role::decode)
          self->state.decode_engines[peer.engine] = caf::actor_cast<proto::decode_actor>(peer.actor);
        self->send(self->state.compute_nic, peer);
      },
      [self](const proto::engine_down& peer) {
        // Its memory stays until our transfers have ended, so the link is kept; only new requests are
        // refused.
        self->state.decode_engines.erase(peer.engine);
        if (peer.lost)
          self->request(self->state.compute_nic, caf::infinite, proto::cut_engine{peer.engine})
              .then([](const proto::devices_idle&) {});
      },
      [self](const proto::layer_computed& event) { self->state.layer_computed(event); },
      [self](const proto::batch_sampled& event) { self->state.sampled(event); },
      [self](const proto::read_overdue& notice) { self->state.read_overdue(notice); },
      [self](const proto::take_stock& ask) { self->state.answer_stock(ask); },
      [self](const proto::tick& timer) {
        self->state.watch();
        self->delayed_send(self, self->state.settings->deadline / 4, timer);
      },
  };
}

} // namespace dualpath::actors
