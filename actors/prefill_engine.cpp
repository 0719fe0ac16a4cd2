#include "actors/prefill_engine.hpp"

#include "actors/deliver.hpp"
#include "actors/device_events.hpp"
#include "core/log.hpp"

#include <algorithm>

namespace dualpath::actors {

using proto::outcome;

void prefill_engine_state::accept(proto::request request) {
  if (!door.admits(request.id, request.epoch)) {
    core::log_event(core::log_level::debug, "old_epoch_dropped",
                    {{"engine", devices->engine}, {"request", request.id}, {"epoch", request.epoch}});
    return;
  }
  door.ended(request.id, request.epoch); // it comes once
  begin(std::move(request));
}

void prefill_engine_state::begin(proto::request request) {
  auto known = decode_engines.find(request.decode);
  if (known == decode_engines.end()) {
    auto why = outcome::failure(core::errc::disconnected, "its decode engine is gone");
    deliver(self, *settings, scheduler, proto::request_failed{request.id, request.epoch, why});
    return;
  }
  auto earlier = jobs.find(request.id);
  if (earlier != jobs.end()) {
    earlier->second.abandoned = true;
    if (earlier->second.in_batch) {
      next_attempts.insert_or_assign(request.id, std::move(request));
      return;
    }
    std::erase(ready, request.id);
    forget(request.id);
  }
  prefill_job job;
  job.sequence = std::make_shared<kernels::sequence>(request.context);
  job.request = std::move(request);
  auto id = job.request.id;
  auto& accepted = jobs.insert_or_assign(id, std::move(job)).first->second;
  adopt_kept(accepted);
  ask_for_landing(accepted);
}

void prefill_engine_state::ask_for_landing(prefill_job& job) {
  auto& request = job.request;
  job.asked = settings->clock->now();
  auto known = decode_engines.find(request.decode);
  if (known == decode_engines.end()) return; // the scheduler knows as well
  deliver(self, *settings, known->second,
          proto::open_landing{request.id, request.epoch, request.context_tokens(),
                              request.keys.first(request.hits.decode_blocks)});
}

prefill_job* prefill_engine_state::find_job(core::request_id request, core::epoch epoch) {
  auto found = jobs.find(request);
  if (found == jobs.end() || found->second.request.epoch != epoch || found->second.abandoned) return nullptr;
  return &found->second;
}

void prefill_engine_state::landed(const proto::landing& landing) {
  auto* job = find_job(landing.request, landing.epoch);
  if (!job || job->waits_for == prefill_job::wait::nothing) return;
  if (!landing.status.ok) {
    fail(*job, landing.status, {.decode = landing.status.code == core::errc::timed_out});
    return;
  }
  if (job->waits_for != prefill_job::wait::landing) return; // told again
  job->landing_slots = landing.slots;
  if (job->request.hits.decode_blocks == 0) {
    job->good_decode_blocks = 0;
    job->waits_for = prefill_job::wait::nothing;
  } else {
    job->waits_for = prefill_job::wait::hits;
  }
  if (job->request.hits.prefill_blocks == 0) {
    job->good_prefill_blocks = 0;
    become_ready_if_read(*job);
  } else {
    read_hits_here(*job);
  }
}

void prefill_engine_state::part_read(prefill_job& job, core::engine_role side, std::uint32_t good_blocks,
                                     bool unreadable) {
  auto decode = side == core::engine_role::decode;
  (decode ? job.good_decode_blocks : job.good_prefill_blocks) = good_blocks;
  (decode ? job.unreadable.decode : job.unreadable.prefill) = unreadable;
  deliver(self, *settings, scheduler,
          proto::part_read{job.request.id, job.request.epoch, side, good_blocks, unreadable});
  become_ready_if_read(job);
}

void prefill_engine_state::become_ready_if_read(prefill_job& job) {
  if (!job.good_decode_blocks || !job.good_prefill_blocks) return;
  auto& request = job.request;
  auto good = request.hits.verified(*job.good_decode_blocks, *job.good_prefill_blocks);
  count_unreadable(job, good);
  request.lost_blocks += request.hits.blocks() - good.blocks();
  request.hits = good;
  job.landed_hit_tokens = good.decode_blocks * settings->layout.block_tokens;
  job.hit_tokens = good.blocks() * settings->layout.block_tokens;
  job.cached_tokens = job.hit_tokens;
  deliver(self, *settings, scheduler, proto::hits_read{request.id, request.epoch, good.blocks()});
  ready.push_back(request.id);
  start_batch();
}

std::uint64_t prefill_engine_state::staging_slot_blocks() const {
  return devices->staging.bytes.size() / settings->staging_slots / settings->layout.layer_block_bytes();
}

std::uint64_t prefill_engine_state::staging_offset(std::uint32_t layer, const batch_part& part) const {
  auto slot = layer % batch->pipeline.slots();
  return (slot * staging_slot_blocks() + part.staging_block) * settings->layout.layer_block_bytes();
}

void prefill_engine_state::start_batch() {
  if (batch || ready.empty()) return;
  std::vector<core::prefill_candidate> candidates;
  for (auto id : ready) candidates.push_back({jobs.at(id).cached_tokens, jobs.at(id).remaining_tokens()});
  auto limits = settings->quota;
  limits.max_batch_tokens = staging_slot_blocks() * settings->layout.block_tokens;
  auto counts = core::fill_quota(candidates, settings->cost_model, limits);
  prefill_batch next{next_batch++, settings->layout.layers, settings->staging_slots};
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (!add_to_batch(next, jobs.at(ready[i]), counts[i])) break;
  if (next.parts.empty()) {
    auto& job = jobs.at(ready.front());
    ready.pop_front();
    fail(job, outcome::failure(core::errc::invalid_argument,
                               "a context of " + std::to_string(job.request.context_tokens())
                                   + " tokens does not fit the staging memory; give it more (--staging)"));
    start_batch();
    return;
  }
  ready.erase(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(next.parts.size()));
  std::vector<kernels::batch_entry> entries;
  for (auto& part : next.parts) {
    auto& job = jobs.at(part.request);
    kernels::batch_entry entry;
    entry.tokens = job.sequence.get();
    entry.first_position = part.first_token;
    entry.token_count = part.token_count;
    entry.wants_token = part.last_chunk;
    entry.sampling = {job.request.temperature, job.request.sampling_seed};
    entries.push_back(entry);
    next.memory->sequences.push_back(job.sequence);
  }
  next.memory->pass = devices->compute->begin(std::move(entries));
  next.sampling_done =
      std::none_of(next.parts.begin(), next.parts.end(), [](auto& p) { return p.last_chunk; });
  batch.emplace(std::move(next));
  perform(batch->pipeline.start());
}

bool prefill_engine_state::add_to_batch(prefill_batch& next, prefill_job& job, std::uint64_t token_count) {
  batch_part part;
  part.request = job.request.id;
  part.first_token = job.cached_tokens;
  part.token_count = static_cast<std::uint32_t>(token_count);
  part.blocks = settings->layout.blocks_for(part.first_token + token_count);
  part.staging_block = next.staging_blocks;
  part.last_chunk = token_count == job.remaining_tokens();
  // The quota counts tokens, staging holds whole blocks: rounding may leave the last candidate no room.
  if (token_count == 0 || next.staging_blocks + part.blocks > staging_slot_blocks()) return false;
  next.staging_blocks += part.blocks;
  next.parts.push_back(part);
  job.in_batch = true;
  return true;
}

void prefill_engine_state::perform(std::vector<core::layer_pipeline::action> actions) {
  using action = core::layer_pipeline::action;
  auto append = [&](const std::vector<action>& more) {
    actions.insert(actions.end(), more.begin(), more.end());
  };
  for (std::size_t i = 0; i < actions.size() && !batch->failed; ++i) {
    auto next = actions[i];
    if (next.what == action::load) {
      if (!load(next.layer)) append(batch->pipeline.loaded(next.layer));
    } else if (next.what == action::compute) {
      compute(next.layer);
    } else if (!store(next.layer)) {
      append(batch->pipeline.stored(next.layer));
    }
  }
  finish_batch_if_over();
}

bool prefill_engine_state::load(std::uint32_t layer) {
  auto& pending = batch->loads_pending[layer];
  pending = 0;
  for (auto& part : batch->parts) {
    auto& job = jobs.at(part.request);
    auto offset = staging_offset(layer, part);
    if (job.landed_hit_tokens < job.hit_tokens) {
      ++pending;
      copy_hits(layer, job, offset);
    }
    // From the landing: hits that were read there, and what earlier chunks have put there.
    auto landed = [&](std::uint32_t from, std::uint32_t to) {
      return core::layer_pieces(settings->layout, settings->slot_bytes, job.landing_slots, layer, offset,
                                from, to);
    };
    auto pieces = landed(0, job.landed_hit_tokens);
    auto computed = landed(job.hit_tokens, part.first_token);
    pieces.insert(pieces.end(), computed.begin(), computed.end());
    if (pieces.empty()) continue;
    ++pending;
    transfer(layer, part.request, false, std::move(pieces));
  }
  return pending > 0;
}

bool prefill_engine_state::store(std::uint32_t layer) {
  auto& pending = batch->stores_pending[layer];
  pending = static_cast<std::uint32_t>(batch->parts.size());
  for (auto& part : batch->parts) {
    auto& job = jobs.at(part.request);
    // The first chunk brings along the hit blocks that the landing lacks.
    auto from = part.first_token == job.hit_tokens ? job.landed_hit_tokens : part.first_token;
    transfer(layer, part.request, true,
             core::layer_pieces(settings->layout, settings->slot_bytes, job.landing_slots, layer,
                                staging_offset(layer, part), from, part.first_token + part.token_count));
  }
  return pending > 0;
}

void prefill_engine_state::copy_hits(std::uint32_t layer, const prefill_job& job,
                                     std::uint64_t staging_offset) {
  // Our slots begin with the first hit block that we read; those before it are whole blocks as well.
  auto skipped = job.request.hits.decode_blocks * settings->layout.layer_block_bytes();
  auto pieces = core::layer_pieces(settings->layout, settings->slot_bytes, job.buffer_slots, layer,
                                   staging_offset + skipped, 0, job.hit_tokens - job.landed_hit_tokens);
  proto::local_copy copy;
  for (auto& piece : pieces) {
    for (std::uint32_t i = 0; i < piece.count; ++i) {
      copy.pieces.push_back({devices->staging.bytes.data() + piece.local_offset + i * piece.local_stride,
                             devices->pool.bytes.data() + piece.remote_offset + i * piece.remote_stride,
                             piece.bytes});
    }
  }
  ++batch->in_flight;
  self->request(compute_nic, caf::infinite, std::move(copy))
      .then([this, id = batch->id, layer, request = job.request.id](const outcome& status) {
        moved(id, layer, request, true, status);
      });
}

void prefill_engine_state::transfer(std::uint32_t layer, core::request_id request, bool put,
                                    std::vector<core::strided_piece> pieces) {
  auto& job = jobs.at(request);
  ++batch->in_flight;
  self->request(compute_nic, caf::infinite,
                proto::kv_transfer{request, job.request.epoch, put, job.request.decode, std::move(pieces)})
      .then([this, id = batch->id, layer, request, put](const outcome& status) {
        moved(id, layer, request, !put, status);
      });
}

void prefill_engine_state::moved(std::uint64_t batch_id, std::uint32_t layer, core::request_id request,
                                 bool load, const outcome& status) {
  if (!batch || batch->id != batch_id) return;
  --batch->in_flight;
  if (!status.ok) {
    for (auto& part : batch->parts)
      if (part.request == request) part.failed = true;
    fail_batch(status.text);
  }
  auto& pending = load ? batch->loads_pending[layer] : batch->stores_pending[layer];
  if (--pending > 0 || batch->failed) {
    finish_batch_if_over();
    return;
  }
  perform(load ? batch->pipeline.loaded(layer) : batch->pipeline.stored(layer));
}

void prefill_engine_state::compute(std::uint32_t layer) {
  if (settings->faults && settings->faults->should_crash(core::engine_role::prefill))
    throw std::runtime_error("injected crash in prefill, layer " + std::to_string(layer));
  std::vector<kernels::kv_view> views;
  for (auto& part : batch->parts) {
    kernels::kv_view view;
    auto base = devices->staging.bytes.data() + staging_offset(layer, part);
    for (std::uint64_t b = 0; b < part.blocks; ++b)
      view.blocks.push_back(base + b * settings->layout.layer_block_bytes());
    views.push_back(std::move(view));
  }
  started_computing();
  auto me = caf::actor_cast<proto::prefill_actor>(self);
  devices->compute->run_layers(*batch->memory->pass, layer, 1, std::move(views),
                               [me, layer, id = batch->id, keep = batch->memory,
                                inside = devices->computing.enter()](core::result<void> r) {
                                 caf::anon_send(me, proto::layer_computed{id, layer, r});
                               });
}

void prefill_engine_state::layer_computed(const proto::layer_computed& event) {
  if (!batch || batch->id != event.batch) return;
  --batch->in_flight;
  --batch->computing;
  if (!event.status.ok) {
    for (auto& part : batch->parts) part.failed = true;
    fail_batch(event.status.text);
  }
  if (batch->failed) {
    finish_batch_if_over();
    return;
  }
  if (event.layer + 1 == settings->layout.layers && !batch->sampling_done) sample();
  perform(batch->pipeline.computed(event.layer));
}

void prefill_engine_state::sample() {
  started_computing();
  auto me = caf::actor_cast<proto::prefill_actor>(self);
  devices->compute->sample(*batch->memory->pass,
                           [me, id = batch->id, keep = batch->memory, inside = devices->computing.enter()](
                               core::result<std::vector<core::token_id>> r) {
                             caf::anon_send(me, sampled_event(id, std::move(r)));
                           });
}

void prefill_engine_state::sampled(const proto::batch_sampled& event) {
  if (!batch || batch->id != event.batch) return;
  --batch->in_flight;
  --batch->computing;
  batch->sampling_done = true;
  batch->sampled = event.ids;
  if (!event.status.ok) {
    for (auto& part : batch->parts) part.failed = true;
    fail_batch(event.status.text);
  } else if (!batch->failed) {
    std::size_t next = 0;
    for (auto& part : batch->parts) {
      if (!part.last_chunk) continue;
      auto& job = jobs.at(part.request);
      auto token = event.ids[next++];
      // The client need not wait for the transfer to the decode engine.
      if (!job.abandoned)
        deliver(self, *settings, caf::actor_cast<proto::client_actor>(job.request.client),
                proto::tokens{part.request, job.request.delivered_tokens, {token}});
    }
  }
  finish_batch_if_over();
}

void prefill_engine_state::fail_batch(const std::string& why) {
  if (!batch->failed)
    core::log_event(
        core::log_level::warn, "prefill_batch_failed",
        {{"node", devices->node}, {"engine", devices->engine}, {"batch", batch->id}, {"why", why}});
  batch->failed = true;
  batch->failure = why;
}

void prefill_engine_state::finish_batch_if_over() {
  if (!batch || batch->in_flight > 0) return;
  if (!batch->failed && !(batch->pipeline.finished() && batch->sampling_done)) return;
  auto done = std::move(*batch);
  batch.reset();
  std::size_t next = 0;
  // Parts of a failed batch go back to the head of the queue in their old order.
  std::deque<core::request_id> again;
  for (auto& part : done.parts) {
    auto& job = jobs.at(part.request);
    job.in_batch = false;
    std::optional<core::token_id> token;
    if (part.last_chunk && !done.failed) token = done.sampled[next++];
    if (job.abandoned) {
      forget(part.request);
    } else if (part.failed) {
      fail(job, outcome::failure(core::errc::io, done.failure));
    } else if (done.failed) {
      again.push_back(part.request);
    } else {
      finish_part(part, token);
    }
  }
  ready.insert(ready.begin(), again.begin(), again.end());
  start_batch();
}

void prefill_engine_state::finish_part(const batch_part& part, std::optional<core::token_id> token) {
  auto& job = jobs.at(part.request);
  job.cached_tokens += part.token_count;
  if (token) {
    hand_over(job, *token);
  } else {
    ready.push_front(part.request);
  }
}

void prefill_engine_state::hand_over(prefill_job& job, core::token_id first_token) {
  auto id = job.request.id;
  deliver(self, *settings, scheduler, proto::handed_over{id, job.request.epoch});
  auto decode = decode_engines.find(job.request.decode);
  job.request.epoch = core::decode_epoch(job.request.epoch);
  if (decode != decode_engines.end())
    deliver(self, *settings, decode->second,
            proto::decode_work{proto::for_decode(std::move(job.request), settings->layout.block_tokens,
                                                 devices->compute->verifies_kv()),
                               first_token});
  forget(id);
}

} // namespace dualpath::actors
