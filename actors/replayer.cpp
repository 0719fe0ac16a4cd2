#include "actors/replayer.hpp"

#include <algorithm>

namespace dualpath::actors {

namespace {

constexpr std::uint64_t watchdog_tick = ~std::uint64_t{0};
constexpr core::duration longest_watch_interval = std::chrono::seconds{1};
constexpr std::uint32_t most_attempts = 8; ///< of a round that ends short of tokens
constexpr core::node_id scheduler_node{0};

core::duration from_ms(double ms) { return core::from_seconds(ms * 1e-3); }

} // namespace

void replayer_state::start_sessions() {
  start = settings->reported_clock().now();
  last_event = settings->clock->now();
  for (auto& trajectory : options.trace->trajectories) {
    sessions.push_back(
        {&trajectory, core::prompt_builder{trajectory, options.seed, options.vocabulary}, {}, {}, {}});
    rounds_total += trajectory.rounds.size();
  }
  sessions_open = sessions.size();
  for (std::size_t i = 0; i < sessions.size(); ++i)
    self->delayed_send(self, from_ms(sessions[i].trajectory->arrival_ms), proto::tick{i});
  self->delayed_send(self, watch_interval(), proto::tick{watchdog_tick});
}

core::duration replayer_state::watch_interval() const {
  return std::min(longest_watch_interval, settings->deadline);
}

void replayer_state::ask_for_silent_rounds() {
  auto now = settings->clock->now();
  for (auto& [id, index] : open) {
    auto& s = sessions[index];
    if (now - s.last_event < 2 * settings->deadline) continue;
    s.last_event = now;
    resume_round(s);
  }
}

replayer_state::~replayer_state() {
  if (options.drain) options.drain->detach();
}

void replayer_state::on_tick(std::uint64_t id) {
  if (id != watchdog_tick) {
    if (!draining) submit_next(id);
    return;
  }
  if (!open.empty() && settings->clock->now() - last_event > options.stall_limit) {
    finish(core::error{core::errc::timed_out, "nothing arrived for "
                                                  + std::to_string(core::to_seconds(options.stall_limit))
                                                  + " s with " + std::to_string(open.size())
                                                  + " rounds open, the first being request "
                                                  + std::to_string(open.begin()->first.value)});
    return;
  }
  ask_for_silent_rounds();
  self->delayed_send(self, watch_interval(), proto::tick{watchdog_tick});
}

void replayer_state::submit_next(std::size_t index) {
  auto& s = sessions[index];
  last_event = s.last_event = settings->clock->now();
  core::round_record record;
  record.session = s.trajectory->session;
  record.round = static_cast<std::uint32_t>(s.prompts.next_round());
  record.submitted = settings->reported_clock().now() - start;
  auto generate = s.prompts.next_spec().generate_tokens;
  proto::request request;
  request.id = core::request_id{next_request++};
  request.session = record.session;
  request.round = record.round;
  request.context = s.prompts.next_prompt();
  request.generate_tokens = generate;
  request.temperature = options.temperature;
  request.sampling_seed = options.seed * 0x9e3779b97f4a7c15ULL + index * 0x100000001b3ULL + record.round;
  request.client = caf::actor_cast<caf::strong_actor_ptr>(self);
  record.prompt_tokens = request.context_tokens();
  if (options.keep_prompts) record.prompt.assign(request.context.begin(), request.context.end());
  s.rounds.push_back(std::move(record));
  s.open = std::move(request);
  open.emplace(s.open.id, index);
  send_round(s);
}

void replayer_state::send_round(session& s) {
  s.open.keys = core::key_chain(settings->fingerprint, s.open.context, settings->layout.block_tokens);
  if (std::find(held.begin(), held.end(), s.open.id) == held.end()) held.push_back(s.open.id);
  submit_held();
}

void replayer_state::submit_held() {
  while (!held.empty() && flights.has_room(scheduler_node)) {
    auto found = open.find(held.front());
    held.pop_front();
    if (found == open.end()) continue;
    auto& round = sessions[found->second].open;
    flights.give(scheduler_node, round.id, proto::wire_bytes(round));
    self->send(scheduler, proto::submit{round});
  }
}

/// Whatever is heard of a round says that the scheduler has it.
void replayer_state::acknowledged(core::request_id request) {
  if (flights.acknowledge(request)) submit_held();
}

void replayer_state::on_tokens(const proto::tokens& event) {
  auto found = open.find(event.request);
  if (found == open.end()) return;
  auto& s = sessions[found->second];
  auto& record = s.rounds.back();
  last_event = s.last_event = settings->clock->now();
  auto now = settings->reported_clock().now() - start;
  for (std::size_t i = 0; i < event.ids.size(); ++i) {
    // What an earlier attempt already delivered arrives again after a failure.
    if (event.first_index + i != record.generated.size()) continue;
    record.generated.push_back(event.ids[i]);
    ++generated_tokens;
    if (record.generated.size() == 1) record.first_token = now;
    if (record.generated.size() == 2) record.second_token = now;
    record.finished = now;
  }
}

void replayer_state::on_done_round(const proto::round_done& event) {
  auto found = open.find(event.request);
  if (found == open.end()) return;
  auto index = found->second;
  auto& s = sessions[index];
  auto& record = s.rounds.back();
  if (record.generated.size() != s.open.generate_tokens && event.attempts < most_attempts) {
    // Tokens were lost on the way. The cluster has closed the request: this is another one.
    s.open.attempt = event.attempts + 1;
    resume_round(s);
    return;
  }
  if (record.generated.size() != s.open.generate_tokens) {
    finish(core::error{core::errc::io, "session " + record.session + " round " + std::to_string(record.round)
                                           + " ended with " + std::to_string(record.generated.size()) + " of "
                                           + std::to_string(s.open.generate_tokens) + " tokens"});
    return;
  }
  open.erase(found);
  record.hit_tokens = event.hits.blocks() * settings->layout.block_tokens;
  record.lost_tokens = event.lost_blocks * settings->layout.block_tokens;
  record.attempts = event.attempts;
  record.hits = event.hits;
  s.prompts.generated(record.generated);
  ++rounds_done;
  if (options.on_progress) options.on_progress(rounds_done, rounds_total, generated_tokens);
  if (!s.prompts.finished() && !draining) {
    auto pause = from_ms(s.prompts.next_spec().tool_ms);
    if (pause.count() > 0) {
      self->delayed_send(self, pause, proto::tick{index});
    } else {
      submit_next(index);
    }
    return;
  }
  --sessions_open;
  end_if_over();
}

void replayer_state::on_drain() {
  draining = true;
  // Only sessions with a round under way are left.
  sessions_open = open.size();
  end_if_over();
}

void replayer_state::end_if_over() {
  if (sessions_open > 0) return;
  replay_result result;
  result.rounds_planned = rounds_total;
  result.peak_in_flight_bytes = peaks.all()[scheduler_node];
  for (auto& each : sessions)
    for (auto& round : each.rounds) {
      result.jct = std::max(result.jct, round.finished);
      result.rounds.push_back(std::move(round));
    }
  finish(std::move(result));
}

void replayer_state::on_interrupted(core::request_id request) {
  auto found = open.find(request);
  if (found == open.end()) {
    self->send(scheduler, proto::withdrawn{request});
    return;
  }
  resume_round(sessions[found->second]);
}

void replayer_state::on_nodes_awaited(const proto::nodes_awaited& event) {
  last_event = settings->clock->now();
  if (!event.given_up) return;
  finish(core::error{core::errc::disconnected, event.why + "; " + std::to_string(rounds_done) + " of "
                                                   + std::to_string(rounds_total) + " rounds are done"});
}

void replayer_state::resume_round(session& s) {
  auto& record = s.rounds.back();
  auto& generated = record.generated;
  // Every token may have arrived with only the notice of the end lost: ask for the last one again.
  auto keep = std::min<std::size_t>(generated.size(), s.open.generate_tokens - 1);
  s.open.context = s.open.context.first(record.prompt_tokens).appended(std::span{generated}.first(keep));
  s.open.delivered_tokens = static_cast<std::uint32_t>(keep);
  send_round(s);
}

void replayer_state::finish(core::result<replay_result> result) {
  if (options.drain) options.drain->detach();
  if (on_done) on_done(std::move(result));
  on_done = nullptr;
  self->quit();
}

proto::client_actor::behavior_type replayer(replayer_state::self_pointer self, settings_ptr settings,
                                            proto::scheduler_actor scheduler, replay_options options,
                                            replay_done on_done) {
  auto& state = self->state;
  state.self = self;
  state.settings = std::move(settings);
  state.scheduler = std::move(scheduler);
  state.options = std::move(options);
  state.flights = core::flight_budget{state.settings->control_in_flight_bytes, &state.peaks};
  state.on_done = std::move(on_done);
  state.start_sessions();
  if (state.options.drain)
    state.options.drain->attach([me = caf::actor_cast<caf::weak_actor_ptr>(self)] {
      if (auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
        caf::anon_send(caf::actor_cast<proto::client_actor>(alive), proto::drain{});
    });
  return {
      [self](const proto::accepted& event) { self->state.acknowledged(event.request); },
      [self](const proto::tokens& event) {
        self->state.acknowledged(event.request);
        self->state.on_tokens(event);
      },
      [self](const proto::round_done& event) {
        self->state.acknowledged(event.request);
        self->state.on_done_round(event);
      },
      [self](const proto::interrupted& event) {
        self->state.acknowledged(event.request);
        self->state.on_interrupted(event.request);
      },
      [self](const proto::nodes_awaited& event) { self->state.on_nodes_awaited(event); },
      [self](const proto::rejected& event) {
        self->state.finish(core::error{core::errc::invalid_argument, event.why});
      },
      [self](const proto::drain&) { self->state.on_drain(); },
      [self](const proto::tick& timer) { self->state.on_tick(timer.id); },
  };
}

} // namespace dualpath::actors
