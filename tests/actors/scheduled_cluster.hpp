// A request scheduler whose engines, leaders and client are played by the test.
#pragma once

#include "actor_world.hpp"
#include "actors/block_directory.hpp"
#include "actors/request_scheduler.hpp"

#include <catch2/catch.hpp>

namespace dualpath::actors::testing {

inline constexpr std::uint32_t hit_blocks = 3, context_tokens = 14;

/// A scheduler between two prefill engines' nodes, two decode engines' nodes and a client, all played by the
/// test. Engine n is alone on node n; 0 and 1 prefill, 2 and 3 decode.
struct scheduled_cluster : actor_world {
  scheduled_cluster() {
    auto stored = std::make_shared<std::vector<storage::block_name>>();
    auto chain = core::key_chain(settings->fingerprint, context(), settings->layout.block_tokens);
    auto parent = core::root_key(settings->fingerprint);
    for (std::uint32_t depth = 0; depth < hit_blocks; ++depth) {
      stored->push_back({chain[depth], parent, depth});
      parent = chain[depth];
    }
    directory = system.spawn(block_directory, std::shared_ptr<const std::vector<storage::block_name>>{stored},
                             nullptr);
    for (int i = 0; i < 4; ++i) engines.push_back(std::make_unique<peer>(system));
  }
  ~scheduled_cluster() {
    // Its stocktaking goes on for ever, and the system ends only when no timer is left.
    caf::anon_send_exit(scheduler, caf::exit_reason::kill);
    run();
  }
  /// After this the policy is fixed.
  void start(core::policy policy = core::policy::basic) {
    settings->policy = policy;
    scheduler = system.spawn(request_scheduler, settings_ptr{settings}, directory);
  }
  static std::vector<core::token_id> context() { return std::vector<core::token_id>(context_tokens, 7); }
  static core::engine_role role_of(std::uint32_t engine) {
    return engine < 2 ? core::engine_role::prefill : core::engine_role::decode;
  }

  void up(std::uint32_t engine, std::uint32_t incarnation = 0) {
    proto::engine_up event;
    event.engine = core::engine_id{engine};
    event.node = core::node_id{engine};
    event.role = role_of(engine);
    event.incarnation = core::incarnation{incarnation};
    event.actor = engines[engine]->pointer();
    event.hbm_tokens = 1024;
    client.send(scheduler, event);
    run();
  }
  void down(std::uint32_t engine, std::uint32_t incarnation = 0) {
    client.send(scheduler,
                proto::engine_down{core::engine_id{engine}, core::incarnation{incarnation}, "test"});
    run();
  }
  void submit(std::uint64_t id) {
    proto::request request;
    request.id = core::request_id{id};
    request.context = context();
    request.generate_tokens = 4;
    request.keys = core::key_chain(settings->fingerprint, request.context, settings->layout.block_tokens);
    request.client = client.pointer();
    client.send(scheduler, proto::submit{request});
    run();
  }
  void fetch(std::uint32_t node, std::uint64_t partly_read_tokens = 0, double read_tokens_per_s = 0) {
    client.send(scheduler, proto::fetch_work{core::node_id{node}, partly_read_tokens, read_tokens_per_s});
    run();
  }
  /// The work that engine gets when every node fetches.
  std::optional<proto::request> work_of(std::uint32_t engine) {
    for (std::uint32_t node : {0, 1, 2, 3}) fetch(node);
    auto work = engines[engine]->next<proto::prefill_work>();
    if (!work) return std::nullopt;
    return work->request;
  }
  template <class Message>
  void from(std::uint32_t engine, Message message) {
    engines[engine]->send(scheduler, std::move(message));
    run();
  }
  void answer(std::uint32_t engine, const proto::abandon& order) {
    from(engine, proto::abandoned{order.request, order.epoch});
  }
  std::optional<proto::abandon> abandon_at(std::uint32_t engine) {
    return engines[engine]->next<proto::abandon>();
  }

  peer client{system};
  std::vector<std::unique_ptr<peer>> engines;
  proto::directory_actor directory;
  proto::scheduler_actor scheduler;
};

} // namespace dualpath::actors::testing
