// The client: replays a trace against the cluster. Sessions run side by side, the rounds of a session one
// after another (spec §8). It knows every token it has received, so a repeated one is dropped and an
// interrupted round is submitted again from where it stands. So is one that is silent for long, or ends
// without all of its tokens: the notice, or tokens, may have been lost with a connection. The scheduler
// ignores it where it still has the request. Rounds that the scheduler has not accepted yet are bounded in
// bytes; the others wait here.
#pragma once

#include "actors/settings.hpp"
#include "core/drain_switch.hpp"
#include "core/flight_budget.hpp"
#include "core/result.hpp"
#include "core/run_record.hpp"
#include "core/workload/prompt_builder.hpp"
#include "core/workload/trace.hpp"
#include "proto/interfaces.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace dualpath::actors {

struct replay_options {
  std::shared_ptr<const core::trace> trace; ///< arrival times are followed
  std::uint64_t seed = 1;
  std::uint32_t vocabulary = 0;
  float temperature = 0;
  bool keep_prompts = false; ///< in the records
  /// A run in which nothing has arrived for so long has lost something: it fails rather than hangs.
  core::duration stall_limit = std::chrono::seconds{180};
  /// Called now and then on an actor thread: rounds done, rounds in all, tokens generated.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t)> on_progress;
  std::shared_ptr<core::drain_switch> drain; ///< ends the replay early; none: nobody can
};

struct replay_result {
  core::duration jct{};
  std::vector<core::round_record> rounds;
  std::uint64_t rounds_planned = 0; ///< more than there are rounds where the replay was drained
  /// Of rounds that were submitted to the scheduler and that it had not answered to yet.
  std::uint64_t peak_in_flight_bytes = 0;
};

using replay_done = std::function<void(core::result<replay_result>)>;

struct replayer_state {
  using self_pointer = proto::client_actor::stateful_pointer<replayer_state>;
  struct session {
    const core::trajectory* trajectory = nullptr;
    core::prompt_builder prompts;
    std::vector<core::round_record> rounds;
    proto::request open;         ///< the round under way, as submitted
    core::instant last_event{0}; ///< of that round
  };

  static inline const char* name = "replayer";
  self_pointer self = nullptr;
  settings_ptr settings;
  proto::scheduler_actor scheduler;
  replay_options options;
  replay_done on_done;
  std::vector<session> sessions;
  std::map<core::request_id, std::size_t> open; ///< request → session
  core::flight_peaks peaks;
  core::flight_budget flights;       ///< rounds submitted to the scheduler, the only peer
  std::deque<core::request_id> held; ///< rounds that wait for others to be accepted
  core::instant start{0};            ///< by the clock of what is reported
  core::instant last_event{0};       ///< by that of what is waited for
  std::uint64_t next_request = 1, rounds_total = 0, rounds_done = 0, generated_tokens = 0;
  std::size_t sessions_open = 0; ///< with rounds under way or to come
  bool draining = false;

  ~replayer_state();
  void start_sessions();
  void on_tick(std::uint64_t id);
  void submit_next(std::size_t index);
  void send_round(session& s);
  void submit_held();
  void acknowledged(core::request_id request);
  void resume_round(session& s);
  void ask_for_silent_rounds();
  void on_tokens(const proto::tokens& event);
  void on_done_round(const proto::round_done& event);
  void on_interrupted(core::request_id request);
  void on_nodes_awaited(const proto::nodes_awaited& event);
  void on_drain();
  void end_if_over();
  core::duration watch_interval() const;
  void finish(core::result<replay_result> result);
};

proto::client_actor::behavior_type replayer(replayer_state::self_pointer self, settings_ptr settings,
                                            proto::scheduler_actor scheduler, replay_options options,
                                            replay_done on_done);

} // namespace dualpath::actors
