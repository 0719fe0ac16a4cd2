#include "actors/peer_watch.hpp"

#include "core/log.hpp"
#include "core/policy/silence_watch.hpp"

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>

#include <set>

namespace dualpath::actors {

namespace {

using caf::io::basp_broker;

/// Shorter ones come and go on any busy machine.
constexpr core::duration least_told = std::chrono::seconds{1};

core::silence_watch::peer number_of(caf::io::connection_handle connection) {
  return static_cast<core::silence_watch::peer>(connection.id());
}

} // namespace

/// Runs in CAF's event loop, where nobody else touches the broker.
struct peer_watch::judge {
  judge(caf::actor_system& system, core::duration timeout, core::duration interval)
      : clock{system.clock()}, watch{timeout, interval, now()} {
    if (system.has_middleman())
      broker = system.middleman().named_broker<basp_broker>(caf::atom("BASP")).address();
  }

  core::instant now() const { return clock.now().time_since_epoch(); }

  void tick() {
    is_due = false;
    auto connections = caf::actor_cast<caf::strong_actor_ptr>(broker);
    auto* basp =
        connections ? static_cast<basp_broker*>(caf::actor_cast<caf::abstract_actor*>(connections)) : nullptr;
    if (basp != nullptr) hear(*basp);
    note_pause(watch.tick(now()));
    if (basp != nullptr) cut_silent(*basp);
  }

  void hear(basp_broker& basp) {
    std::erase_if(connecting, [&](auto& connection) { return !basp.ctx.contains(connection); });
    std::erase_if(known, [&](auto& connection) {
      auto gone = !basp.ctx.contains(connection);
      if (gone) watch.forget(number_of(connection));
      return gone;
    });
    for (auto& [connection, context] : basp.ctx) {
      known.insert(connection);
      auto last_seen = context.last_seen.time_since_epoch();
      if (last_seen.count() != 0) {
        connecting.erase(connection);
        watch.heard(number_of(connection), last_seen);
      } else if (connecting.insert(connection).second) {
        // Of one that is being made nothing has come yet. Its number may have been another's before.
        watch.forget(number_of(connection));
        watch.heard(number_of(connection), now());
      }
    }
  }

  void note_pause(core::duration length) {
    if (length < least_told) return;
    core::log_event(core::log_level::warn, "process_paused", {{"paused_s", core::to_seconds(length)}});
    paused_ns += length.count();
    ++count;
  }

  /// As CAF does at its own timeout.
  void cut_silent(basp_broker& basp) {
    for (auto peer : watch.silent()) {
      auto connection = caf::io::connection_handle::from_int(static_cast<std::int64_t>(peer));
      watch.forget(peer);
      known.erase(connection);
      connecting.erase(connection);
      basp.connection_cleanup(connection, caf::sec::connection_timeout);
      basp.close(connection);
    }
  }

  caf::actor_clock& clock;
  caf::actor_addr broker;
  core::silence_watch watch;
  std::set<caf::io::connection_handle> known, connecting;
  std::atomic<bool> is_due{false};
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::int64_t> paused_ns{0};
};

peer_watch::peer_watch(caf::actor_system& system, core::duration timeout, core::duration interval)
    : system_{system}, interval_{interval}, judge_{std::make_shared<judge>(system, timeout, interval)} {
  arm();
}

peer_watch::~peer_watch() = default;

void peer_watch::arm() {
  clock_.call_at(clock_.now() + interval_, [this] {
    if (!judge_->is_due.exchange(true)) {
      if (system_.has_middleman()) {
        system_.middleman().run_later([here = judge_] { here->tick(); });
      } else {
        judge_->tick();
      }
    }
    arm();
  });
}

core::pauses peer_watch::pauses() const {
  return {judge_->count.load(), core::duration{judge_->paused_ns.load()}};
}

} // namespace dualpath::actors
