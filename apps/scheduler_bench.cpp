#include "apps/scheduler_bench.hpp"

#include "actors/block_directory.hpp"
#include "actors/request_scheduler.hpp"
#include "core/clock.hpp"

#include <caf/binary_serializer.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <ctime>
#include <deque>
#include <memory>

namespace dualpath::apps {

namespace {

double thread_cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct bench_config : caf::actor_system_config {
  bench_config() {
    add_message_types<caf::id_block::dualpath>();
    set("scheduler.policy", caf::atom("testing"));
    set("logger.console", caf::atom("none"));
  }
};

/// What the scheduler sends to engines and clients.
struct inbox {
  struct work {
    core::request_id request;
    core::epoch epoch;
    std::uint32_t hit_blocks = 0;
  };
  std::deque<work> prefill;
  std::uint64_t rejected = 0;
};

/// Every engine and every client.
caf::behavior everybody(caf::event_based_actor*, inbox* in) {
  return {
      [in](const proto::prefill_work& work) {
        in->prefill.push_back({work.request.id, work.request.epoch, work.request.hits.blocks()});
      },
      [](const proto::nodes_awaited&) {},
      [in](const proto::rejected&) { ++in->rejected; },
      [](const proto::accepted&) {},
      [](const proto::engine_up&) {},
  };
}

/// Runs actors on the calling thread, and adds up the CPU time of those it is asked to watch.
class watched_actors : caf::execution_unit {
public:
  explicit watched_actors(caf::actor_system& system)
      : caf::execution_unit{&system},
        queue_{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).jobs} {}

  template <class Handle>
  void watch(const Handle& actor, double& cpu_s) {
    watched_.push_back({dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(actor)), &cpu_s});
  }
  /// Until nobody has a message left.
  void run() {
    while (!queue_.empty()) {
      auto* job = queue_.front();
      queue_.pop_front();
      auto* spent = watched(job);
      auto start = spent ? thread_cpu_s() : 0;
      constexpr std::size_t messages_at_a_time = 50; // as in a cluster
      auto result = job->resume(this, messages_at_a_time);
      if (spent) *spent += thread_cpu_s() - start;
      if (result == caf::resumable::resume_later)
        queue_.push_back(job);
      else
        caf::intrusive_ptr_release(job);
    }
  }
  void exec_later(caf::resumable* job) override { queue_.push_back(job); }

private:
  struct watch_entry {
    caf::resumable* job;
    double* cpu_s;
  };
  double* watched(caf::resumable* job) const {
    for (const auto& each : watched_)
      if (each.job == job) return each.cpu_s;
    return nullptr;
  }
  std::deque<caf::resumable*>& queue_;
  std::vector<watch_entry> watched_;
};

/// Agents of which every block is stored.
class workload {
public:
  workload(const scheduler_bench_options& options, const actors::cluster_settings& settings) {
    constexpr std::uint32_t most_sessions = 64;
    for (std::uint32_t s = 0; s < most_sessions; ++s) {
      proto::request request;
      request.session = "session " + std::to_string(s);
      request.generate_tokens = 200;
      std::vector<core::token_id> context;
      for (std::uint32_t t = 0; t < options.context_tokens; ++t) context.push_back(s * 1000003U + t * 7919U);
      request.context = std::move(context);
      request.keys = core::key_chain(settings.fingerprint, request.context, options.block_tokens);
      auto parent = core::root_key(settings.fingerprint);
      for (std::uint32_t depth = 0; depth < request.keys.size(); ++depth) {
        stored_->push_back({request.keys[depth], parent, depth});
        parent = request.keys[depth];
      }
      sessions_.push_back(std::move(request));
    }
  }
  std::shared_ptr<const std::vector<storage::block_name>> stored() const { return stored_; }
  proto::request next(const caf::strong_actor_ptr& client) {
    auto request = sessions_[made_ % sessions_.size()];
    request.id = core::request_id{++made_};
    request.client = client;
    return request;
  }

private:
  std::vector<proto::request> sessions_;
  std::shared_ptr<std::vector<storage::block_name>> stored_ =
      std::make_shared<std::vector<storage::block_name>>();
  std::uint64_t made_ = 0;
};

actors::settings_ptr make_settings(const scheduler_bench_options& options, core::clock& clock) {
  auto settings = std::make_shared<actors::cluster_settings>();
  settings->clock = &clock;
  settings->layout = {60, options.block_tokens, 656};
  // An engine has one request at a time, so that the others wait.
  settings->thresholds = {std::uint64_t{1} << 40, 1};
  return settings;
}

class bench {
public:
  explicit bench(const scheduler_bench_options& options)
      : options_{options},
        settings_{make_settings(options, clock_)},
        workload_{options, *settings_},
        directory_{system_.spawn(actors::block_directory, workload_.stored(), nullptr)},
        scheduler_{system_.spawn(actors::request_scheduler, settings_, directory_)},
        peers_{system_.spawn(everybody, &inbox_)} {}

  ~bench() {
    for (const auto& each :
         {caf::actor_cast<caf::actor>(directory_), caf::actor_cast<caf::actor>(scheduler_), peers_})
      caf::anon_send_exit(each, caf::exit_reason::user_shutdown);
    actors_.run();
  }

  scheduler_bench_result run() {
    register_engines();
    result_.engines = engines();
    auto prefill_engines = options_.prefill_nodes * options_.engines_per_node;
    submit(options_.waiting + prefill_engines);
    while (inbox_.prefill.size() < prefill_engines) tick();
    while (decoding_.size() < options_.in_decode) round();
    actors_.watch(scheduler_, result_.scheduler_cpu_s);
    actors_.watch(directory_, result_.directory_cpu_s);
    auto before = finished_;
    result_.fetches = 0;
    while (finished_ - before < options_.requests) round();
    result_.requests = finished_ - before;
    describe_messages();
    return result_;
  }

private:
  std::uint32_t nodes() const { return options_.prefill_nodes + options_.decode_nodes; }
  std::uint32_t engines() const { return nodes() * options_.engines_per_node; }

  template <class Message>
  void tell_scheduler(Message message) {
    caf::anon_send(scheduler_, std::move(message));
  }
  proto::engine_up engine(std::uint32_t number) const {
    proto::engine_up up;
    up.engine = core::engine_id{number};
    up.node = core::node_id{number / options_.engines_per_node};
    up.role = up.node.value < options_.prefill_nodes ? core::engine_role::prefill : core::engine_role::decode;
    up.actor = caf::actor_cast<caf::strong_actor_ptr>(peers_);
    up.hbm_tokens = std::uint64_t{1} << 24;
    return up;
  }
  void register_engines() {
    for (std::uint32_t e = 0; e < engines(); ++e) {
      tell_scheduler(engine(e));
      actors_.run();
    }
  }
  void submit(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      tell_scheduler(proto::submit{workload_.next(caf::actor_cast<caf::strong_actor_ptr>(peers_))});
    actors_.run();
  }
  /// Every leader fetches once.
  void tick() {
    for (std::uint32_t n = 0; n < nodes(); ++n) tell_scheduler(proto::fetch_work{core::node_id{n}, 0});
    result_.fetches += nodes();
    actors_.run();
  }
  /// Some requests end their prefill, as many their decode, as many arrive, and every leader fetches.
  void round() {
    auto count = std::min<std::size_t>(options_.requests_per_fetch, inbox_.prefill.size());
    submit(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      auto work = inbox_.prefill.front();
      inbox_.prefill.pop_front();
      tell_scheduler(proto::hits_read{work.request, work.epoch, work.hit_blocks});
      tell_scheduler(proto::handed_over{work.request, work.epoch});
      decoding_.push_back(work);
    }
    while (decoding_.size() > options_.in_decode) {
      auto work = decoding_.front();
      decoding_.pop_front();
      tell_scheduler(proto::request_finished{work.request, core::decode_epoch(work.epoch)});
      ++finished_;
    }
    tick();
  }

  enum class hop : std::uint8_t { within_a_process, between_processes };
  template <class Message>
  void describe(const char* name, Message message, double per_request, hop over) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system_, bytes};
    if (sink(message) == caf::none)
      result_.messages.push_back({name, bytes.size(), per_request, over == hop::between_processes});
  }
  /// What the engines hand over to each other.
  proto::decode_work decode_work_of(proto::request request) const {
    request.hits.prefill_blocks = settings_->layout.usable_hit_blocks(request.context_tokens());
    return {proto::for_decode(std::move(request), options_.block_tokens, false), 0};
  }
  void describe_messages() {
    auto request = workload_.next(caf::actor_cast<caf::strong_actor_ptr>(peers_));
    auto fetches = static_cast<double>(result_.fetches) / static_cast<double>(result_.requests);
    // Client and directory live with the scheduler, engines do not.
    describe("submit", proto::submit{request}, 1, hop::within_a_process);
    describe("accepted", proto::accepted{}, 1, hop::within_a_process);
    describe("fetch_work", proto::fetch_work{}, fetches, hop::between_processes);
    describe("find_prefix", proto::find_prefix{request.id, request.keys}, 1, hop::within_a_process);
    describe("prefix_found", proto::prefix_found{}, 1, hop::within_a_process);
    describe("prefill_work", proto::prefill_work{request}, 1, hop::between_processes);
    describe("hits_read", proto::hits_read{}, 1, hop::between_processes);
    describe("unpin_prefix", proto::unpin_prefix{}, 1, hop::within_a_process);
    describe("decode_work", decode_work_of(request), 1, hop::between_processes);
    describe("handed_over", proto::handed_over{}, 1, hop::between_processes);
    describe("request_finished", proto::request_finished{}, 1, hop::between_processes);
  }

  scheduler_bench_options options_;
  core::steady_clock clock_;
  actors::settings_ptr settings_;
  workload workload_;
  bench_config config_;
  caf::actor_system system_{config_};
  watched_actors actors_{system_};
  inbox inbox_;
  proto::directory_actor directory_;
  proto::scheduler_actor scheduler_;
  caf::actor peers_;
  std::deque<inbox::work> decoding_;
  std::uint64_t finished_ = 0;
  scheduler_bench_result result_;
};

} // namespace

scheduler_bench_result bench_scheduler(const scheduler_bench_options& options) {
  return bench{options}.run();
}

} // namespace dualpath::apps
