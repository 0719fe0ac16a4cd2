// Actors under test, on one thread and without real time: messages are delivered by run(), timers and devices
// go off when told to. Peers of the actor under test are played by scoped actors, whose mailboxes the test
// reads.
#pragma once

#include "actors/settings.hpp"
#include "core/clock.hpp"
#include "proto/interfaces.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <memory>
#include <optional>

namespace dualpath::actors::testing {

struct testing_config : caf::actor_system_config {
  testing_config() {
    add_message_types<caf::id_block::dualpath>();
    set("scheduler.policy", caf::atom("testing"));
    set("logger.console", caf::atom("none"));
  }
};

/// A peer that only receives. Stands for an actor of any interface.
class peer {
public:
  explicit peer(caf::actor_system& system) : self_{system} {}

  template <class Handle>
  Handle as() {
    return caf::actor_cast<Handle>(pointer());
  }
  caf::strong_actor_ptr pointer() { return caf::actor_cast<caf::strong_actor_ptr>(self_.ptr()); }

  template <class Handle, class Message>
  void send(const Handle& to, Message message) {
    self_->send(to, std::move(message));
  }
  /// Takes the first message of this type out of the mailbox; nothing where there is none.
  template <class Message>
  std::optional<Message> next() {
    std::optional<Message> taken;
    self_->receive([&](Message& message) { taken = std::move(message); },
                   caf::after(std::chrono::seconds{0}) >> [] {});
    return taken;
  }
  template <class Message>
  std::size_t drop_all() {
    std::size_t count = 0;
    while (next<Message>()) ++count;
    return count;
  }

private:
  caf::scoped_actor self_;
};

class actor_world {
public:
  actor_world()
      : system{config_}, scheduler_{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())} {
    // Actors that wait for something the test never sends must not keep it from ending.
    system.await_actors_before_shutdown(false);
    settings->clock = &clock;
    settings->layout = {2, 4, 8};
    settings->slot_bytes = 4096;
    settings->thresholds = {1u << 20, 1u << 20};
  }
  /// Delivers messages until nobody has any.
  void run() {
    while (scheduler_.try_run_once()) {
    }
  }
  /// Lets devices and timers work for that long, and actors react on the way.
  void advance(core::duration time) {
    run();
    while (time.count() > 0) {
      auto step = std::min<core::duration>(time, std::chrono::milliseconds{5});
      clock.advance(step);
      scheduler_.clock().advance_time(step);
      run();
      time -= step;
    }
  }

private:
  testing_config config_;

public:
  core::manual_clock clock;
  std::shared_ptr<cluster_settings> settings = std::make_shared<cluster_settings>();
  caf::actor_system system;

private:
  caf::scheduler::test_coordinator& scheduler_;
};

} // namespace dualpath::actors::testing
