// The passive half of a decode engine: landings of requests in prefill, and the way from a landing to HBM.
#include "actors/decode_engine.hpp"

#include "actors/deliver.hpp"

#include <algorithm>

namespace dualpath::actors {

using proto::outcome;

void decode_engine_state::open_landing(const proto::open_landing& ask, const caf::strong_actor_ptr& from) {
  // Sent before it was lost, over a connection of its own: nobody would ever close this landing.
  if (lost_engines.contains(caf::actor_cast<caf::actor_addr>(from))) return;
  landing_key key{ask.request, ask.epoch};
  auto prefill = caf::actor_cast<proto::prefill_actor>(from);
  auto [place, is_new] = landings.try_emplace(key);
  place->second.opener = prefill;
  if (!is_new) {
    tell_landing(key, prefill); // asked again
    return;
  }
  auto blocks = static_cast<std::uint32_t>(settings->layout.blocks_for(ask.context_tokens));
  self->request(pool, caf::infinite, proto::grant_slots{ask.request, blocks})
      .then([this, ask, prefill](proto::granted_slots& granted) { landing_granted(ask, prefill, granted); });
}

void decode_engine_state::prefill_engine_down(const proto::engine_down& event) {
  auto known = prefill_engines.extract(event.engine);
  if (!event.lost) return; // its supervisor fences it before it comes back
  if (!known.empty()) lost_engines.insert(known.mapped());
  ++cuts_open;
  self->request(compute_nic, caf::infinite, proto::cut_engine{event.engine})
      .then([this](const proto::devices_idle&) {
        if (--cuts_open > 0) return;
        for (auto& order : std::exchange(abandons_waiting, {})) abandon(order);
      });
}

void decode_engine_state::landing_granted(const proto::open_landing& ask, proto::prefill_actor prefill,
                                          proto::granted_slots& granted) {
  landing_key key{ask.request, ask.epoch};
  auto& area = landings.at(key);
  area.granted = true;
  area.slots = granted.slots;
  if (area.closed) {
    release_landing(key);
    return;
  }
  if (!granted.status.ok) {
    landings.erase(key);
    deliver(self, *settings, prefill, proto::landing{ask.request, ask.epoch, {}, granted.status});
    return;
  }
  tell_landing(key, prefill);
  if (!ask.hits.empty()) read_hits(ask, prefill);
}

/// All that the prefill engine waits for and that is known by now.
void decode_engine_state::tell_landing(const landing_key& key, const proto::prefill_actor& prefill) {
  auto& area = landings.at(key);
  if (!area.granted || area.closed) return;
  proto::landing news{key.first, key.second, area.slots, {}};
  if (area.overdue) news.status = outcome::failure(core::errc::timed_out, "the store did not answer in time");
  deliver(self, *settings, prefill, std::move(news));
  if (area.good_blocks)
    deliver(self, *settings, prefill, proto::hits_loaded{key.first, key.second, *area.good_blocks});
}

void decode_engine_state::read_overdue(const proto::read_overdue& notice) {
  landing_key key{notice.request, notice.epoch};
  auto found = landings.find(key);
  if (found == landings.end() || found->second.closed) return;
  found->second.overdue = true;
  if (found->second.opener) tell_landing(key, found->second.opener);
}

void decode_engine_state::read_hits(const proto::open_landing& ask, proto::prefill_actor prefill) {
  landing_key key{ask.request, ask.epoch};
  auto& area = landings.at(key);
  area.busy = true;
  std::vector<std::uint32_t> slots(area.slots.begin(),
                                   area.slots.begin() + static_cast<std::ptrdiff_t>(ask.hits.size()));
  self->request(storage_nic, caf::infinite,
                proto::read_blocks{ask.request, ask.epoch, devices->engine, ask.hits, std::move(slots)})
      .then([this, key, prefill](const proto::blocks_read& read) {
        auto& area = landings.at(key);
        area.busy = false;
        if (area.closed) {
          release_landing(key);
        } else if (!area.overdue) {
          area.good_blocks = read.good_blocks;
          deliver(self, *settings, prefill, proto::hits_loaded{key.first, key.second, read.good_blocks});
        }
      });
}

void decode_engine_state::close_landing(const landing_key& key) {
  auto found = landings.find(key);
  if (found == landings.end()) return;
  found->second.closed = true;
  if (found->second.granted && !found->second.busy) release_landing(key);
}

void decode_engine_state::release_landing(const landing_key& key) {
  auto node = landings.extract(key);
  if (!node.mapped().slots.empty()) self->send(pool, proto::release_slots{std::move(node.mapped().slots)});
}

void decode_engine_state::abandon(const proto::abandon& order) {
  // Handed over meanwhile: its epoch is one higher than the scheduler knows.
  auto job = jobs.find(order.request);
  if (job != jobs.end()) {
    job->second.finished = true;
    active.erase(order.request);
    free_if_over(order.request);
  }
  std::erase_if(waiting_for_hbm, [&](auto& work) { return work.request.id == order.request; });
  // Ordered in prefill, or after the hand-over while its landing still waits for HBM. What still touches a
  // landing then is our own, and nobody waits for that.
  close_landing({order.request, order.epoch});
  close_landing({order.request, core::prefill_epoch(order.epoch)});
  deliver(self, *settings, scheduler, proto::abandoned{order.request, order.epoch});
}

void decode_engine_state::accept(proto::decode_work work) {
  auto& request = work.request;
  auto found = landings.find({request.id, core::prefill_epoch(request.epoch)});
  if (found == landings.end() || found->second.closed) {
    auto why = outcome::failure(core::errc::disconnected, "the landing is gone");
    deliver(self, *settings, scheduler, proto::request_failed{request.id, request.epoch, why});
    return;
  }
  // The prefill engine has sent it already; again, since that message may be lost with its sender, or be
  // overtaken by ours on the way to another process.
  deliver(self, *settings, caf::actor_cast<proto::client_actor>(request.client),
          proto::tokens{request.id, request.delivered_tokens, {work.first_token}});
  waiting_for_hbm.push_back(std::move(work));
  admit_waiting();
}

void decode_engine_state::admit_waiting() {
  while (!waiting_for_hbm.empty()) {
    auto& next = waiting_for_hbm.front().request;
    // An earlier attempt of the same request may still be leaving.
    if (jobs.contains(next.id)) return;
    auto needed = static_cast<std::uint32_t>(settings->layout.blocks_for(next.total_tokens()));
    auto blocks = hbm.allocate(needed);
    if (!blocks) {
      drop_write_outs_of_finished();
      blocks = hbm.allocate(needed);
    }
    if (!blocks) return;
    auto work = std::move(waiting_for_hbm.front());
    waiting_for_hbm.pop_front();
    admit(std::move(work), std::move(*blocks));
  }
}

void decode_engine_state::admit(proto::decode_work work, std::vector<std::uint32_t> blocks) {
  landing_key key{work.request.id, core::prefill_epoch(work.request.epoch)};
  decode_job job;
  job.sequence = std::make_shared<kernels::sequence>(work.request.tokens_before, work.request.context);
  job.sequence->append(work.first_token);
  job.keys.assign(work.request.keys.begin(), work.request.keys.end());
  job.generated = work.request.delivered_tokens + 1;
  job.hbm_blocks = std::move(blocks);
  count_use();
  job.request = std::move(work.request);
  job.pins = 1;
  auto& area = landings.at(key);
  area.busy = true;
  proto::local_copy copy;
  for (std::size_t b = 0; b < area.slots.size(); ++b)
    copy.pieces.push_back(
        {hbm_block(job.hbm_blocks[b]), pool_slot(area.slots[b]), settings->layout.full_block_bytes()});
  jobs.insert_or_assign(key.first, std::move(job));
  self->request(compute_nic, caf::infinite, std::move(copy)).then([this, key](const outcome& status) {
    copied_in(key, status);
  });
}

void decode_engine_state::copied_in(const landing_key& key, const outcome& status) {
  auto& job = jobs.at(key.first);
  auto& area = landings.at(key);
  --job.pins;
  area.busy = false;
  if (!status.ok && !job.finished) {
    deliver(self, *settings, scheduler, proto::request_failed{key.first, job.request.epoch, status});
    job.finished = true;
  }
  if (!job.finished && settings->stores_blocks()) persist_prompt(job, area);
  release_landing(key);
  if (job.finished) {
    free_if_over(key.first);
    return;
  }
  active.insert(key.first);
  if (job.generated >= job.request.generate_tokens) finish(job);
  step();
}

void decode_engine_state::persist_prompt(decode_job& job, landing_area& area) {
  std::vector<std::uint32_t> kept;
  auto full = static_cast<std::uint32_t>(settings->layout.full_blocks_in(job.request.context_tokens()));
  // A store slower than what is computed must cost hits, not service: landings keep half of the pool.
  auto most = static_cast<std::uint32_t>(devices->pool.bytes.size() / settings->slot_bytes) / 2;
  for (auto block = job.request.hits.blocks(); block < full && slots_being_written < most; ++block) {
    auto slot = area.slots[block];
    kept.push_back(slot);
    ++slots_being_written;
    self->request(
            storage_nic, caf::infinite,
            proto::write_block{devices->engine, slot, key_of(job, block), parent_key(job, block), block})
        .then([this, slot](const outcome&) {
          --slots_being_written;
          self->send(pool, proto::release_slots{{slot}});
        });
  }
  std::sort(kept.begin(), kept.end());
  std::erase_if(area.slots, [&](auto slot) { return std::binary_search(kept.begin(), kept.end(), slot); });
}

} // namespace dualpath::actors
