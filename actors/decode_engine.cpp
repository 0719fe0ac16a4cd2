#include "actors/decode_engine.hpp"

#include "actors/children.hpp"
#include "actors/deliver.hpp"
#include "actors/device_events.hpp"
#include "core/log.hpp"

namespace dualpath::actors {

using proto::outcome;

std::byte* decode_engine_state::hbm_block(std::uint32_t index) const {
  return devices->hbm->bytes().data() + index * settings->layout.full_block_bytes();
}

std::byte* decode_engine_state::pool_slot(std::uint32_t index) const {
  return devices->pool.bytes.data() + index * settings->slot_bytes;
}

void decode_engine_state::step() {
  if (stepping || active.empty()) return;
  if (settings->faults && settings->faults->should_crash(core::engine_role::decode))
    throw std::runtime_error("injected crash in decode");
  stepping = true;
  stepping_since = settings->clock->now();
  batch = {next_batch++, {active.begin(), active.end()}};
  struct step_memory {
    std::vector<std::shared_ptr<kernels::sequence>> sequences;
    std::unique_ptr<kernels::forward_pass> pass;
  };
  auto memory = std::make_shared<step_memory>();
  std::vector<kernels::batch_entry> entries;
  std::vector<kernels::kv_view> views;
  for (auto id : batch.requests) {
    auto& job = jobs.at(id);
    kernels::batch_entry entry;
    entry.tokens = job.sequence.get();
    entry.first_position = job.sequence->size() - 1;
    entry.token_count = 1;
    entry.unseen_from = job.first_step ? 0 : entry.first_position;
    entry.wants_token = true;
    entry.sampling = {job.request.temperature, job.request.sampling_seed};
    entries.push_back(entry);
    kernels::kv_view view;
    view.layer_stride_bytes = settings->layout.layer_block_bytes();
    for (auto block : job.hbm_blocks) view.blocks.push_back(hbm_block(block));
    views.push_back(std::move(view));
    memory->sequences.push_back(job.sequence);
    job.first_step = false;
    ++job.pins;
  }
  memory->pass = devices->compute->begin(std::move(entries));
  auto me = caf::actor_cast<proto::decode_actor>(self);
  auto id = batch.id;
  auto inside = devices->computing.enter();
  devices->compute->run_layers(*memory->pass, 0, settings->layout.layers, std::move(views),
                               [me, id, memory, inside](core::result<void> r) {
                                 if (!r) caf::anon_send(me, proto::layer_computed{id, 0, r});
                               });
  devices->compute->sample(*memory->pass,
                           [me, id, memory, inside](core::result<std::vector<core::token_id>> r) {
                             caf::anon_send(me, sampled_event(id, std::move(r)));
                           });
}

void decode_engine_state::stepped(const proto::batch_sampled& event) {
  if (!stepping || batch.id != event.batch) return;
  stepping = false;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    auto found = jobs.find(batch.requests[i]);
    if (found == jobs.end()) continue;
    auto& job = found->second;
    --job.pins;
    if (job.finished) {
      free_if_over(batch.requests[i]);
    } else if (!event.status.ok) {
      deliver(self, *settings, scheduler,
              proto::request_failed{job.request.id, job.request.epoch, event.status});
      job.finished = true;
      active.erase(job.request.id);
      free_if_over(batch.requests[i]);
    } else {
      append(job, event.ids[i]);
    }
  }
  step();
}

void decode_engine_state::append(decode_job& job, core::token_id token) {
  // The step wrote the KV row of the token before this one.
  if (settings->stores_blocks() && job.sequence->size() % settings->layout.block_tokens == 0)
    persist_last_block(job);
  job.sequence->append(token);
  deliver(self, *settings, caf::actor_cast<proto::client_actor>(job.request.client),
          proto::tokens{job.request.id, job.generated, {token}});
  if (++job.generated >= job.request.generate_tokens) finish(job);
}

void decode_engine_state::persist_last_block(decode_job& job) {
  auto id = job.request.id;
  auto block = job.sequence->size() / settings->layout.block_tokens - 1;
  auto tokens = job.sequence->tokens(block * settings->layout.block_tokens, settings->layout.block_tokens);
  job.keys.push_back(core::child_key(parent_key(job, block), tokens));
  ++job.pins;
  write_outs.emplace_back(id, block);
  start_write_outs();
}

void decode_engine_state::start_write_outs() {
  while (!write_outs.empty()) {
    auto slot = write_slots.allocate(1);
    if (!slot) return;
    count_use();
    auto [request, block] = write_outs.front();
    write_outs.pop_front();
    write_out(request, block, slot->front());
  }
}

void decode_engine_state::drop_write_outs_of_finished() {
  // Blocks that wait for the store must not keep the next request out of HBM; they will be misses.
  auto waiting = std::exchange(write_outs, {});
  for (auto& [request, block] : waiting) {
    auto& job = jobs.at(request);
    if (!job.finished) {
      write_outs.emplace_back(request, block);
    } else if (--job.pins == 0) {
      hbm.release(job.hbm_blocks);
      count_use();
      jobs.erase(request);
    }
  }
}

void decode_engine_state::write_out(core::request_id request, std::uint32_t block, std::uint32_t slot) {
  auto& job = jobs.at(request);
  auto pool_index = write_slots_begin + slot;
  proto::local_copy copy;
  copy.pieces.push_back(
      {pool_slot(pool_index), hbm_block(job.hbm_blocks[block]), settings->layout.full_block_bytes()});
  auto key = key_of(job, block);
  auto parent = parent_key(job, block);
  self->request(compute_nic, caf::infinite, std::move(copy)).then([=, this](const outcome& status) {
    --jobs.at(request).pins;
    free_if_over(request);
    if (!status.ok) {
      release_write_slot(slot);
      return;
    }
    self->request(storage_nic, caf::infinite,
                  proto::write_block{devices->engine, pool_index, key, parent, block})
        .then([this, slot](const outcome&) { release_write_slot(slot); });
  });
}

void decode_engine_state::release_write_slot(std::uint32_t slot) {
  write_slots.release({&slot, 1});
  count_use();
  start_write_outs();
}

core::block_key decode_engine_state::key_of(const decode_job& job, std::uint32_t block) const {
  return job.keys[block - job.request.keys_before];
}

core::block_key decode_engine_state::parent_key(const decode_job& job, std::uint32_t block) const {
  return block == 0 ? core::root_key(settings->fingerprint) : key_of(job, block - 1);
}

void decode_engine_state::finish(decode_job& job) {
  auto id = job.request.id;
  auto& request = job.request;
  deliver(self, *settings, caf::actor_cast<proto::client_actor>(request.client),
          proto::round_done{id, request.hits, request.lost_blocks, request.attempt});
  deliver(self, *settings, scheduler, proto::request_finished{id, request.epoch});
  job.finished = true;
  active.erase(id);
  free_if_over(id);
}

void decode_engine_state::free_if_over(core::request_id request) {
  auto found = jobs.find(request);
  if (found == jobs.end() || !found->second.finished || found->second.pins > 0) return;
  hbm.release(found->second.hbm_blocks);
  count_use();
  jobs.erase(found);
  admit_waiting();
}

proto::decode_actor::behavior_type
decode_engine(decode_engine_state::self_pointer self, settings_ptr settings, devices_ptr devices,
              proto::scheduler_actor scheduler, proto::storage_nic_actor storage_nic,
              proto::compute_nic_actor compute_nic, proto::buffer_pool_actor pool,
              core::incarnation incarnation, std::shared_ptr<core::node_counters> counters) {
  auto& state = self->state;
  state.self = self;
  name_crashes(self);
  state.hbm = core::slot_allocator{
      static_cast<std::uint32_t>(devices->hbm->bytes().size() / settings->layout.full_block_bytes())};
  state.write_slots = core::slot_allocator{settings->write_slots};
  state.write_slots_begin =
      static_cast<std::uint32_t>(devices->pool.bytes.size() / settings->slot_bytes) - settings->write_slots;
  state.settings = std::move(settings);
  state.devices = std::move(devices);
  state.scheduler = std::move(scheduler);
  state.storage_nic = std::move(storage_nic);
  state.compute_nic = std::move(compute_nic);
  state.pool = std::move(pool);
  state.incarnation = incarnation;
  state.counters = std::move(counters);
  state.hbm_in_use = core::open_share(state.settings->usage, core::resource::hbm_blocks);
  state.slots_in_use = core::open_share(state.settings->usage, core::resource::buffer_slots);
  state.slots_flowed = state.settings->clock->now();
  self->delayed_send(self, state.settings->deadline / 4, proto::tick{});
  return {
      [self](const proto::open_landing& ask) { self->state.open_landing(ask, self->current_sender()); },
      [self](const proto::close_landing& ask) {
        self->state.door.ended(ask.request, ask.epoch);
        self->state.close_landing({ask.request, ask.epoch});
      },
      [self](proto::decode_work& work) { self->state.accept(std::move(work)); },
      [self](const proto::abandon& order) { self->state.abandon_when_cut(order); },
      [self](const proto::engine_up& peer) {
        if (peer.role == core::engine_role::prefill)
          self->state.prefill_engines[peer.engine] = caf::actor_cast<caf::actor_addr>(peer.actor);
      },
      [self](const proto::engine_down& peer) { self->state.prefill_engine_down(peer); },
      [self](const proto::layer_computed& event) {
        if (event.status.ok) return;
        core::log_event(core::log_level::error, "decode_step_failed",
                        {{"node", self->state.devices->node},
                         {"engine", self->state.devices->engine},
                         {"why", event.status.text}});
        self->state.step_error = event.status;
      },
      [self](const proto::batch_sampled& event) {
        auto failed = event;
        if (!self->state.step_error.ok) failed.status = std::exchange(self->state.step_error, {});
        self->state.stepped(failed);
      },
      [self](const proto::read_overdue& notice) { self->state.read_overdue(notice); },
      [self](const proto::take_stock& ask) { self->state.answer_stock(ask); },
      [self](const proto::tick& timer) {
        self->state.watch();
        self->delayed_send(self, self->state.settings->deadline / 4, timer);
      },
  };
}

} // namespace dualpath::actors
