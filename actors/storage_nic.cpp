#include "actors/storage_nic.hpp"

#include "actors/emulated_bandwidth.hpp"
#include "core/log.hpp"
#include "core/policy/read_order.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::actors {

namespace {

using proto::outcome;

constexpr std::uint64_t read_timer = 1, write_timer = 2, overdue_timer = 3;

/// Of the block itself, whichever side reads it; all else is of the path to it, or may be.
bool is_lost(core::errc code) { return code == core::errc::not_found || code == core::errc::corrupt; }

void count_failed_read(core::node_counters& counters, core::errc code) {
  auto& counter = code == core::errc::not_found ? counters.blocks_missing
                  : code == core::errc::corrupt ? counters.blocks_corrupt
                                                : counters.read_errors;
  counter += 1;
}

} // namespace

std::span<std::byte> storage_nic_state::slot(core::engine_id engine, std::uint32_t index) const {
  auto bytes = storage::padded_bytes(store->payload_bytes());
  return pools.at(engine).subspan(index * settings->slot_bytes, bytes);
}

void storage_nic_state::enqueue_read(read_job job) {
  auto id = next_id++;
  auto tokens = std::uint64_t{job.ask.keys.size()} * settings->layout.block_tokens;
  job.due = core::read_due(settings->policy, read_begun_tokens, tokens);
  read_queue.emplace(job.due, id);
  reads.emplace(id, std::move(job));
  read_rate.begin(settings->clock->now());
  start_reads();
}

void storage_nic_state::start_reads() {
  while (!read_queue.empty() && reads_in_flight < settings->storage_depth) {
    auto now = settings->clock->now();
    auto ready = read_bucket.ready_at(now);
    if (ready > now) {
      if (!read_timer_set) self->delayed_send(self, ready - now, proto::tick{read_timer});
      read_timer_set = true;
      return;
    }
    auto id = read_queue.begin()->second;
    auto& job = reads.at(id);
    // What follows a failed block cannot be used: it counts as read and is left alone.
    auto failed = job.good < job.issued;
    if (failed || job.dropped || job.overdue || job.issued == job.ask.keys.size()) {
      read_queue.erase(read_queue.begin());
      auto skipped = static_cast<std::uint32_t>(job.ask.keys.size()) - job.issued;
      job.issued += skipped;
      job.completed += skipped;
      if (job.completed == job.issued) finish_read(id);
      continue;
    }
    read_bucket.take(store->payload_bytes(), now);
    issue_read(id, job);
  }
}

void storage_nic_state::issue_read(std::uint64_t job_id, read_job& job) {
  auto id = next_id++;
  auto block = job.issued++;
  read_begun_tokens += settings->layout.block_tokens;
  if (job.good == block) ++job.good;
  auto deadline = settings->clock->now() + settings->deadline;
  in_flight.emplace(id, operation{true, job_id, block, job.ask.engine, {}, deadline});
  ++reads_in_flight;
  watch();
  auto me = caf::actor_cast<proto::storage_nic_actor>(self);
  store->read(job.ask.keys[block], slot(job.ask.engine, job.ask.slots[block]),
              [me, id](core::result<void> r) {
                caf::anon_send(me, proto::operation_done{id, r});
              });
}

void storage_nic_state::enqueue_write(write_job job) {
  // A round that started before the blocks of the one before were stored computes them again. Writing them
  // twice would make the queue longer, and the next round find even less.
  if (!writing.insert(job.ask.key).second) {
    job.answer.deliver(outcome{});
    return;
  }
  write_queue.push_back(std::move(job));
  start_writes();
}

void storage_nic_state::start_writes() {
  while (!write_queue.empty() && writes_in_flight < settings->storage_depth) {
    auto now = settings->clock->now();
    auto ready = write_bucket.ready_at(now);
    if (ready > now) {
      if (!write_timer_set) self->delayed_send(self, ready - now, proto::tick{write_timer});
      write_timer_set = true;
      return;
    }
    auto job = std::move(write_queue.front());
    write_queue.pop_front();
    if (now < writes_resume) {
      writing.erase(job.ask.key);
      job.answer.deliver(
          outcome::failure(*pause, "the block store is full or failing; serving without writes"));
      continue;
    }
    write_bucket.take(store->payload_bytes(), now);
    issue_write(std::move(job));
  }
}

void storage_nic_state::issue_write(write_job job) {
  auto id = next_id++;
  auto payload = slot(job.ask.engine, job.ask.slot);
  storage::block_name name{job.ask.key, job.ask.parent, job.ask.depth};
  auto deadline = settings->clock->now() + settings->deadline;
  in_flight.emplace(id, operation{false, 0, 0, job.ask.engine, std::move(job), deadline});
  ++writes_in_flight;
  watch();
  auto me = caf::actor_cast<proto::storage_nic_actor>(self);
  store->write(name, payload, [me, id](core::result<void> r) {
    caf::anon_send(me, proto::operation_done{id, r});
  });
}

void storage_nic_state::completed(const proto::operation_done& done) {
  auto node = in_flight.extract(done.operation);
  if (node.empty()) return;
  auto& op = node.mapped();
  if (op.is_read) {
    read_completed(op, done.status);
    start_reads();
  } else {
    write_completed(op, done.status);
    start_writes();
  }
  answer_drains();
}

void storage_nic_state::read_completed(const operation& op, const outcome& status) {
  if (!op.overdue) --reads_in_flight;
  auto& job = reads.at(op.job);
  ++job.completed;
  if (status.ok) {
    counters->storage_read_bytes += store->payload_bytes();
    if (!op.overdue) read_rate.done(settings->layout.block_tokens, settings->clock->now());
  } else {
    read_failed(job, op.block, status);
  }
  if (job.completed == job.ask.keys.size()) {
    finish_read(op.job);
  } else {
    report_progress();
  }
}

void storage_nic_state::read_failed(read_job& job, std::uint32_t block, const outcome& status) {
  auto lost = is_lost(status.code);
  if (block < job.good) {
    job.good = block;
    job.unreadable = !lost;
  }
  count_failed_read(*counters, status.code);
  core::log_event(
      core::log_level::warn, lost ? "block_lost" : "block_unreadable",
      {{"engine", job.ask.engine}, {"request", job.ask.request}, {"block", block}, {"why", status.text}});
  if (lost) self->send(directory, proto::block_lost{job.ask.keys[block]});
}

void storage_nic_state::report_progress() {
  std::uint64_t blocks = 0;
  for (auto& [id, job] : reads)
    if (!job.dropped && !job.overdue) blocks += job.completed;
  self->send(leader, proto::read_progress{blocks * settings->layout.block_tokens, read_rate.per_s()});
}

void storage_nic_state::finish_read(std::uint64_t job_id) {
  auto node = reads.extract(job_id);
  read_queue.erase({node.mapped().due, job_id});
  end_reading_if_idle();
  auto& job = node.mapped();
  if (!job.dropped) job.answer.deliver(proto::blocks_read{job.good, job.unreadable});
  report_progress();
}

/// Time in which a store only hangs says nothing of how fast it reads.
void storage_nic_state::end_reading_if_idle() {
  auto idle = std::all_of(reads.begin(), reads.end(), [](auto& entry) { return entry.second.overdue; });
  if (idle) read_rate.end(settings->clock->now());
}

void storage_nic_state::watch() {
  if (std::exchange(watching, true)) return;
  self->delayed_send(self, settings->deadline / 4, proto::tick{overdue_timer});
}

void storage_nic_state::find_overdue() {
  watching = false;
  auto now = settings->clock->now();
  std::set<std::uint64_t> late_reads;
  auto waited_for = false;
  for (auto& [id, op] : in_flight) {
    if (op.overdue) continue;
    if (op.deadline > now) {
      waited_for = true;
      continue;
    }
    op.overdue = true;
    counters->storage_overdue += 1;
    if (op.is_read) {
      --reads_in_flight;
      late_reads.insert(op.job);
    } else {
      --writes_in_flight;
    }
  }
  if (waited_for || !drains.empty()) watch();
  for (auto job : late_reads) give_up_read(job);
  start_reads();
  start_writes();
  give_up_if_draining_hangs();
}

void storage_nic_state::give_up_if_draining_hangs() {
  auto patience = settings->store_patience_deadlines * settings->deadline;
  auto now = settings->clock->now();
  auto hangs = std::find_if(drains.begin(), drains.end(),
                            [&](auto& waiting) { return now > waiting.since + patience; });
  if (hangs != drains.end()) give_up_store(hangs->engine);
}

void storage_nic_state::give_up_read(std::uint64_t job_id) {
  auto& job = reads.at(job_id);
  if (std::exchange(job.overdue, true) || job.dropped) return;
  end_reading_if_idle();
  core::log_event(core::log_level::warn, "read_overdue",
                  {{"engine", job.ask.engine},
                   {"request", job.ask.request},
                   {"epoch", job.ask.epoch},
                   {"deadline_s", core::to_seconds(settings->deadline)}});
  proto::read_overdue notice{job.ask.request, job.ask.epoch};
  if (role == core::engine_role::prefill) {
    self->send(caf::actor_cast<proto::prefill_actor>(job.reader), notice);
  } else {
    self->send(caf::actor_cast<proto::decode_actor>(job.reader), notice);
  }
}

/// Somebody waits for memory of the engine; without operations that hold it beyond their deadline, that is
/// not the store's doing.
void storage_nic_state::give_up_store(core::engine_id engine) {
  std::uint32_t operations = 0;
  auto oldest = core::instant::max();
  for (auto& [id, op] : in_flight) {
    if (!op.overdue || op.engine != engine) continue;
    ++operations;
    oldest = std::min(oldest, op.deadline - settings->deadline);
  }
  if (operations == 0) return;
  auto silent_s = core::to_seconds(settings->clock->now() - oldest);
  auto store_name = store->describe();
  core::log_event(
      core::log_level::error, "store_given_up",
      {{"engine", engine}, {"store", store_name}, {"operations", operations}, {"silent_s", silent_s}});
  self->quit(caf::make_error(caf::sec::runtime_error,
                             "the block store does not answer: " + std::to_string(operations)
                                 + " operations, the oldest for " + std::to_string(silent_s)
                                 + " s, hold memory of engine " + std::to_string(engine.value)
                                 + " that is waited for; " + store_name));
}

void storage_nic_state::write_completed(operation& op, const outcome& status) {
  if (!op.overdue) --writes_in_flight;
  writing.erase(op.write.ask.key);
  if (status.ok) {
    counters->storage_written_bytes += store->payload_bytes();
    counters->blocks_written += 1;
    self->send(directory, proto::block_stored{op.write.ask.key, op.write.ask.parent, op.write.ask.depth});
    // A write that was under way when another failed says nothing about now.
    if (settings->clock->now() >= writes_resume && std::exchange(pause, std::nullopt))
      core::log_event(core::log_level::warn, "writing_again");
  } else {
    pause_writes(status);
  }
  op.write.answer.deliver(status);
}

/// A full disk and a failing one are treated alike: serving goes on without writes, and they are tried again.
void storage_nic_state::pause_writes(const outcome& status) {
  if (status.code == core::errc::no_space)
    counters->store_full = true;
  else
    counters->blocks_unwritten += 1;
  if (pause != status.code)
    core::log_event(core::log_level::warn, "serving_without_writes", {{"why", status.text}});
  pause = status.code;
  writes_resume = settings->clock->now() + settings->store_retry_interval;
}

void storage_nic_state::watch_evictions() {
  // Weakly: the store outlives the actors.
  auto listener = caf::actor_cast<caf::weak_actor_ptr>(directory);
  store->on_evicted([listener](const core::block_key& key) {
    if (auto alive = caf::actor_cast<proto::directory_actor>(listener))
      caf::anon_send(alive, proto::block_lost{key});
  });
}

void storage_nic_state::drop_engine(core::engine_id engine) {
  std::vector<std::uint64_t> untouched;
  for (auto& [id, job] : reads) {
    if (job.ask.engine != engine) continue;
    job.dropped = true;
    if (job.issued == job.completed) untouched.push_back(id);
  }
  for (auto id : untouched) {
    finish_read(id);
  }
  std::erase_if(write_queue, [&](auto& job) {
    auto dropped = job.ask.engine == engine;
    if (dropped) writing.erase(job.ask.key);
    return dropped;
  });
  start_reads();
}

void storage_nic_state::answer_drains() {
  std::erase_if(drains, [this](drain& waiting) {
    auto busy = std::any_of(in_flight.begin(), in_flight.end(),
                            [&](auto& entry) { return entry.second.engine == waiting.engine; });
    if (!busy) waiting.answer.deliver(proto::devices_idle{});
    return !busy;
  });
}

proto::storage_nic_actor::behavior_type storage_nic(storage_nic_state::self_pointer self,
                                                    settings_ptr settings,
                                                    std::shared_ptr<const node_devices> node,
                                                    proto::directory_actor directory,
                                                    proto::leader_actor leader) {
  auto& state = self->state;
  state.self = self;
  state.read_bucket = emulate_bandwidth(settings->snic_bytes_per_s);
  state.write_bucket = emulate_bandwidth(settings->snic_bytes_per_s);
  state.settings = std::move(settings);
  state.store = node->store;
  state.role = node->role;
  state.counters = node->counters;
  for (auto& engine : node->engines) state.pools.emplace(engine->engine, engine->pool.bytes);
  state.directory = std::move(directory);
  state.leader = std::move(leader);
  if (state.store) state.watch_evictions();
  return {
      [self](proto::read_blocks& ask) -> caf::result<proto::blocks_read> {
        storage_nic_state::read_job job;
        job.reader = self->current_sender(); // the promise takes it over
        auto answer = self->make_response_promise<proto::blocks_read>();
        job.ask = std::move(ask);
        job.answer = answer;
        self->state.enqueue_read(std::move(job));
        return answer;
      },
      [self](proto::write_block& ask) -> caf::result<outcome> {
        auto answer = self->make_response_promise<outcome>();
        self->state.enqueue_write({std::move(ask), answer});
        return answer;
      },
      [self](const proto::drain_engine& ask) -> caf::result<proto::devices_idle> {
        auto answer = self->make_response_promise<proto::devices_idle>();
        self->state.drop_engine(ask.engine);
        self->state.drains.push_back({ask.engine, answer, self->state.settings->clock->now()});
        self->state.watch();
        self->state.answer_drains();
        return answer;
      },
      [self](const proto::operation_done& done) { self->state.completed(done); },
      [self](const proto::slots_overdue& notice) { self->state.give_up_store(notice.engine); },
      [self](const proto::tick& timer) {
        if (timer.id == read_timer) {
          self->state.read_timer_set = false;
          self->state.start_reads();
        } else if (timer.id == overdue_timer) {
          self->state.find_overdue();
        } else {
          self->state.write_timer_set = false;
          self->state.start_writes();
        }
      },
  };
}

} // namespace dualpath::actors
