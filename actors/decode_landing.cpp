// The passive half of a decode engine: landings of requests in prefill, and the way from a landing to HBM.
#include "actors/decode_engine.hpp"

#include "actors/deliver.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

using proto::outcome;

/// Held up on its way for longer than its attempt took.
void decode_engine_state::drop_old(core::request_id request, core::epoch of) {
  core::log_event(core::log_level::debug, "old_epoch_dropped",
                  {{"engine", devices->engine}, {"request", request}, {"epoch", of}});
}

void decode_engine_state::open_landing(const proto::open_landing& ask, const caf::strong_actor_ptr& from) {
  // Sent before it was lost, over a connection of its own: nobody would ever close this landing.
  if (lost_engines.contains(caf::actor_cast<caf::actor_addr>(from))) return;
  if (!door.admits(ask.request, ask.epoch)) return drop_old(ask.request, ask.epoch);
  door.reached(ask.request, ask.epoch);
  landing_key key{ask.request, ask.epoch};
  auto prefill = caf::actor_cast<proto::prefill_actor>(from);
  if (adopt_landing(ask, prefill)) return;
  auto [place, is_new] = landings.try_emplace(key);
  place->second.opener = prefill;
  if (!is_new) {
    tell_landing(key, prefill); // asked again
    return;
  }
  place->second.hits = ask.hits;
  auto blocks = static_cast<std::uint32_t>(settings->layout.blocks_for(ask.context_tokens));
  claimed_slots += blocks;
  if (claimed_slots > write_slots_begin) close_kept();
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
  slots_flowed = settings->clock->now();
  if (!granted.status.ok) claimed_slots -= settings->layout.blocks_for(ask.context_tokens);
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
  if (!area.hits.empty()) load_hits(key);
}

/// All that the prefill engine waits for and that is known by now.
void decode_engine_state::tell_landing(const landing_key& key, const proto::prefill_actor& prefill) {
  auto& area = landings.at(key);
  if (!area.granted || area.closed) return;
  proto::landing news{key.first, key.second, area.slots, {}};
  if (area.overdue) news.status = outcome::failure(core::errc::timed_out, "the store did not answer in time");
  deliver(self, *settings, prefill, std::move(news));
  if (area.good_blocks)
    deliver(self, *settings, prefill,
            proto::hits_loaded{key.first, key.second, *area.good_blocks, area.unreadable});
}

/// The landing whose read was asked for in that attempt: perhaps an earlier one than it serves now.
std::optional<landing_key> decode_engine_state::reader(core::request_id request, core::epoch read_as) const {
  for (auto place = landings.lower_bound({request, core::epoch{0}});
       place != landings.end() && place->first.first == request; ++place)
    if (place->second.busy && place->second.read_as == read_as) return place->first;
  return std::nullopt;
}

void decode_engine_state::read_overdue(const proto::read_overdue& notice) {
  auto key = reader(notice.request, notice.epoch);
  if (!key) return;
  auto& area = landings.at(*key);
  if (area.closed) return;
  area.overdue = true;
  if (area.kept) {
    close_landing(*key);
  } else if (area.opener) {
    tell_landing(*key, area.opener);
  }
}

/// Reads what of the hits is not there yet, and tells once all of it is.
void decode_engine_state::load_hits(const landing_key& key) {
  auto& area = landings.at(key);
  auto [request, epoch] = key;
  if (area.loaded_blocks < area.hits.size()) {
    area.busy = true;
    area.read_as = epoch;
    area.reading_until = static_cast<std::uint32_t>(area.hits.size());
    core::log_event(core::log_level::debug, "landing_reads",
                    {{"engine", devices->engine},
                     {"request", request},
                     {"epoch", epoch},
                     {"first", area.loaded_blocks},
                     {"end", area.reading_until}});
    proto::read_blocks ask{request, epoch, devices->engine, {}, {}};
    ask.keys = area.hits.from(area.loaded_blocks);
    ask.slots.assign(area.slots.begin() + area.loaded_blocks, area.slots.begin() + area.reading_until);
    self->request(storage_nic, caf::infinite, std::move(ask))
        .then([this, request = request, epoch = epoch](const proto::blocks_read& read) {
          hits_read(request, epoch, read);
        });
    return;
  }
  area.good_blocks = area.loaded_blocks;
  // With a part that could not be read, this attempt may come to nothing.
  if (!area.unreadable)
    counters->adopted_tokens +=
        std::uint64_t{std::min(area.adopted_blocks, area.loaded_blocks)} * settings->layout.block_tokens;
  deliver(self, *settings, area.opener,
          proto::hits_loaded{request, epoch, area.loaded_blocks, area.unreadable});
}

void decode_engine_state::hits_read(core::request_id request, core::epoch read_as,
                                    const proto::blocks_read& read) {
  auto key = reader(request, read_as);
  if (!key) return;
  auto& area = landings.at(*key);
  area.busy = false;
  area.loaded_blocks += read.good_blocks;
  area.unreadable = read.unreadable;
  // A bad block ends the hit.
  if (area.loaded_blocks < area.reading_until) area.hits = area.hits.first(area.loaded_blocks);
  if (area.closed) {
    release_landing(*key);
  } else if (area.kept) {
    if (area.hits.empty()) close_landing(*key);
  } else if (!area.overdue) {
    load_hits(*key);
  }
}

void decode_engine_state::close_landing(const landing_key& key) {
  auto found = landings.find(key);
  if (found == landings.end()) return;
  found->second.closed = true;
  if (found->second.granted && !found->second.busy) release_landing(key);
}

void decode_engine_state::release_landing(const landing_key& key) {
  auto node = landings.extract(key);
  give_back(std::move(node.mapped().slots));
}

void decode_engine_state::give_back(std::vector<std::uint32_t> slots) {
  if (slots.empty()) return;
  claimed_slots -= slots.size();
  self->send(pool, proto::release_slots{std::move(slots)});
}

/// The scheduler gives the landing of a lost prefill engine away on our answer.
void decode_engine_state::abandon_when_cut(const proto::abandon& order) {
  if (cuts_open > 0) {
    abandons_waiting.push_back(order);
  } else {
    abandon(order);
  }
}

void decode_engine_state::abandon(const proto::abandon& order) {
  // Handed over meanwhile: its epoch is one higher than the scheduler knows.
  auto newest = core::decode_epoch(order.epoch);
  door.ended(order.request, order.epoch);
  auto job = jobs.find(order.request);
  auto in_decode = job != jobs.end() && job->second.request.epoch <= newest;
  if (in_decode) {
    job->second.finished = true;
    active.erase(order.request);
    free_if_over(order.request);
  }
  auto waited = std::erase_if(waiting_for_hbm, [&](auto& work) {
    return work.request.id == order.request && work.request.epoch <= newest;
  });
  // Ordered in prefill, or after the hand-over while its landing still waits for HBM. What still touches a
  // landing then is our own, and nobody waits for that.
  landing_key key{order.request, order.epoch};
  core::block_range kept;
  if (order.keep_hits && !in_decode && waited == 0) kept.count = keep_landing(key);
  if (kept.count == 0) close_landing(key);
  close_landing({order.request, core::prefill_epoch(order.epoch)});
  deliver(self, *settings, scheduler, proto::abandoned{order.request, order.epoch, devices->engine, kept});
}

void decode_engine_state::accept(proto::decode_work work) {
  auto& request = work.request;
  if (!door.admits(request.id, request.epoch)) return drop_old(request.id, request.epoch);
  door.reached(request.id, request.epoch);
  auto found = landings.find({request.id, core::prefill_epoch(request.epoch)});
  if (found == landings.end() || found->second.closed || found->second.kept) {
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
          give_back({slot});
        });
  }
  std::sort(kept.begin(), kept.end());
  std::erase_if(area.slots, [&](auto slot) { return std::binary_search(kept.begin(), kept.end(), slot); });
}

} // namespace dualpath::actors
