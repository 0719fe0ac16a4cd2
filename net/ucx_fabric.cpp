#include "net/ucx_fabric.hpp"

#include "net/handshake.hpp"
#include "net/socket_guard.hpp"
#include "net/ucx_lane.hpp"
#include "net/ucx_peers.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <random>
#include <utility>

namespace dualpath::net {
namespace {

constexpr std::size_t index(lane which) { return static_cast<std::size_t>(which); }

core::error invalid(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

/// Written by one thread at a time, its lane's.
class counter {
public:
  void add(std::uint64_t more) {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  operator std::uint64_t() const { return value_.load(std::memory_order_relaxed); }

private:
  std::atomic<std::uint64_t> value_{0};
};

struct atomic_counters {
  counter put_bytes, get_bytes, messages, failed, timed_out;
};

template <class Handler>
class handler_slot {
public:
  void set(Handler handler) {
    auto shared = std::make_shared<Handler>(std::move(handler));
    std::lock_guard lock{mutex_};
    handler_ = std::move(shared);
  }

  template <class... Args>
  void call(Args&&... args) const {
    std::shared_ptr<Handler> handler;
    {
      std::lock_guard lock{mutex_};
      handler = handler_;
    }
    if (handler && *handler) (*handler)(std::forward<Args>(args)...);
  }

private:
  mutable std::mutex mutex_;
  std::shared_ptr<Handler> handler_;
};

class ucx_fabric final : public fabric, private ucx_lane_host {
public:
  explicit ucx_fabric(ucx_fabric_options options) : options_{std::move(options)} {}
  ~ucx_fabric() override;
  core::result<void> open();

  std::vector<std::byte> address() const override { return wire::encode(own_); }
  void connect(std::span<const std::byte> address, core::instant deadline, connected on_done) override;
  void disconnect(peer_id peer) override;
  void cut(core::engine_id engine, std::function<void()> on_done) override;
  core::result<memory_region> allocate(std::uint64_t bytes) override;
  core::result<memory_region> attach(std::span<std::byte> bytes) override;
  void release(core::region_id region) override;
  core::result<std::vector<std::byte>> export_region(core::region_id region) const override;
  core::result<remote_region_id> import_region(peer_id peer, std::span<const std::byte> exported) override;
  void put(transfer t, done on_done) override { move(ucx_job::kind::put, std::move(t), std::move(on_done)); }
  void get(transfer t, done on_done) override { move(ucx_job::kind::get, std::move(t), std::move(on_done)); }
  void send(peer_id peer, lane on, message m, core::instant deadline, done on_done) override;
  void on_message(std::function<void(peer_id, lane, message)> handler) override {
    on_message_.set(std::move(handler));
  }
  void on_peer_down(std::function<void(peer_id, std::string)> handler) override {
    on_down_.set(std::move(handler));
  }
  void quiesce(std::function<void()> on_done) override;
  std::array<lane_counters, lane_count> counters() const override;

  std::uint64_t wake_ups() const;

private:
  void move(ucx_job::kind what, transfer&& t, done&& on_done);
  core::result<void> prepare(ucx_job& job, transfer& t);
  core::result<memory_region> keep(core::result<std::shared_ptr<ucx_region>> region);
  ucx_contexts contexts() const;
  ucx_lane& at(lane which) { return *lanes_[index(which)]; }

  const wire::address& own_address() const override { return own_; }
  wire::bytes prove(const wire::hello& hello) const override { return wire::prove(hello, options_.secret); }
  core::result<std::shared_ptr<ucx_peer>> accept(lane on, const wire::hello& hello) override;
  std::shared_ptr<ucx_region> find_memory(std::uint64_t base, std::uint64_t size) const override {
    return regions_.find(base, size);
  }
  std::shared_ptr<ucx_region> find_memory(core::region_id id) const override { return regions_.find(id); }
  std::shared_ptr<ucx_peer> find_peer(std::uint64_t instance) const override {
    return peers_.find_instance(instance);
  }
  void hands_shaken(const std::shared_ptr<ucx_peer>& peer) override;
  void handshake_over(const std::shared_ptr<ucx_peer>& peer) override;
  void reconnected(const std::shared_ptr<ucx_peer>& peer) override;
  void lost(const std::shared_ptr<ucx_peer>& peer, const std::string& why) override;
  void deliver(const ucx_peer& from, lane on, message m) override {
    on_message_.call(from.id, on, std::move(m));
  }
  void report(lane on, ucx_job& job, core::result<void> outcome) override;

  ucx_fabric_options options_;
  wire::address own_;
  ucx_peers peers_;
  ucx_regions regions_;
  std::array<atomic_counters, lane_count> counters_;
  handler_slot<std::function<void(peer_id, lane, message)>> on_message_;
  handler_slot<std::function<void(peer_id, std::string)>> on_down_;
  std::array<std::unique_ptr<ucx_lane>, lane_count> lanes_;
};

core::result<void> ucx_fabric::open() {
  if (options_.clock == nullptr) return invalid("a fabric needs a clock");
  while (options_.self.instance == 0) {
    std::random_device entropy;
    options_.self.instance = std::uint64_t{entropy()} << 32 | entropy();
  }
  own_.sender.who = options_.self;
  // Before UCX listens.
  if (!options_.secret.empty())
    if (auto guarded = guard_ucx_sockets(options_.secret); !guarded) return guarded.error();
  for (std::size_t i = 0; i < lane_count; ++i) {
    ucx_lane_options lane_options;
    lane_options.transports = options_.transports;
    lane_options.settings = options_.settings;
    auto& own = options_.lane_settings[i];
    lane_options.settings.insert(lane_options.settings.end(), own.begin(), own.end());
    lane_options.busy_poll = options_.busy_poll;
    if (static_cast<lane>(i) == lane::collective)
      lane_options.busy_poll = std::max(options_.busy_poll, options_.collective_busy_poll);
    lane_options.niceness = options_.niceness[i];
    lane_options.copy_helpers = options_.copy_helpers;
    lane_options.limits.window_operations = std::max(1u, options_.window_operations);
    lane_options.limits.max_operation_bytes = std::max<std::uint64_t>(4096, options_.max_operation_bytes);
    auto opened = ucx_lane::open(static_cast<lane>(i), std::move(lane_options), *options_.clock, *this);
    if (!opened) return opened.error();
    lanes_[i] = std::move(*opened);
    own_.lanes[i] = lanes_[i]->address();
  }
  for (auto& each : lanes_) each->start();
  return {};
}

ucx_fabric::~ucx_fabric() {
  for (auto& each : lanes_) {
    if (each) each->begin_stop();
  }
  for (auto& each : lanes_) {
    if (each) each->stop();
  }
  for (bool any = true; any;) {
    any = false;
    for (auto& each : lanes_) any |= each && each->drain();
  }
  regions_.clear(); // registered with the lanes' contexts
}

void ucx_fabric::connect(std::span<const std::byte> address, core::instant deadline,
                         fabric::connected on_done) {
  auto read = wire::decode_address(address);
  auto checked = read ? check_peer(options_.self, read->sender) : core::result<void>{read.error()};
  if (!checked) {
    at(lane::control).post([on_done = std::move(on_done), why = checked.error()](ucx_lane&) {
      on_done(why);
    });
    return;
  }
  auto peer = peers_.remember(*read);
  at(lane::control).post([peer, deadline, on_done = std::move(on_done)](ucx_lane& self) mutable {
    self.connect(peer, deadline, std::move(on_done));
  });
}

void ucx_fabric::disconnect(peer_id id) {
  auto peer = peers_.find(id);
  if (!peer) return;
  peer->up = false;
  core::error why{core::errc::disconnected, "the connection to " + peer->name() + " was closed"};
  at(lane::kv).post([peer, why](ucx_lane& self) { self.close_peer(peer, why); });
  at(lane::collective).post([peer, why](ucx_lane& self) { self.close_peer(peer, why); });
  at(lane::control).post([peer](ucx_lane& self) { self.leave_peer(*peer, "disconnected"); });
}

void ucx_fabric::cut(core::engine_id engine, std::function<void()> on_done) {
  for (auto& peer : peers_.find_engine(engine)) {
    peer->cut = true;
    disconnect(peer->id);
  }
  // Each lane works off its orders in turn, and copies for peers on its own thread: once all have come past
  // this point, none does so for that engine any more.
  auto left = std::make_shared<std::atomic<std::size_t>>(lane_count);
  auto done = std::make_shared<std::function<void()>>(std::move(on_done));
  for (std::size_t i = 0; i < lane_count; ++i)
    at(static_cast<lane>(i)).post([left, done](ucx_lane&) {
      if (--*left == 0) (*done)();
    });
}

void ucx_fabric::hands_shaken(const std::shared_ptr<ucx_peer>& peer) {
  if (!peer->up) {
    // Whatever the other lanes still have is of a connection that is over.
    reconnected(peer);
    peer->up = true;
  }
  handshake_over(peer);
}

void ucx_fabric::handshake_over(const std::shared_ptr<ucx_peer>& peer) {
  if (!peer->asked.exchange(false)) return;
  for (auto which : {lane::kv, lane::collective}) {
    at(which).post([peer](ucx_lane& self) { self.admit(*peer); });
  }
}

void ucx_fabric::reconnected(const std::shared_ptr<ucx_peer>& peer) {
  core::error why{core::errc::disconnected, peer->name() + " opened its connection anew"};
  for (auto which : {lane::kv, lane::collective}) {
    at(which).post([peer, why](ucx_lane& self) { self.close_peer(peer, why); });
  }
}

void ucx_fabric::lost(const std::shared_ptr<ucx_peer>& peer, const std::string& why) {
  if (!peer->up.exchange(false)) return;
  core::error gone{core::errc::disconnected, why};
  for (auto which : {lane::kv, lane::collective}) {
    at(which).post([peer, gone](ucx_lane& self) { self.close_peer(peer, gone); });
  }
  on_down_.call(peer->id, why);
}

core::result<std::shared_ptr<ucx_peer>> ucx_fabric::accept(lane on, const wire::hello& hello) {
  if (auto checked = check_proof(hello, options_.secret); !checked) return checked.error();
  if (auto checked = check_target(options_.self, hello.target_instance); !checked) return checked.error();
  if (auto checked = check_peer(options_.self, hello.sender.sender); !checked) return checked.error();
  auto known = peers_.find_instance(hello.sender.sender.who.instance);
  if (known && known->cut)
    return core::error{core::errc::refused,
                       known->name() + " is cut off here: its process was taken for dead"};
  if (on == lane::control) return peers_.remember(hello.sender);
  if (!known)
    return core::error{core::errc::refused, std::string{"lane "} + to_string(on)
                                                + " opens only after the control lane: connect first"};
  return known;
}

ucx_contexts ucx_fabric::contexts() const {
  ucx_contexts out{};
  for (std::size_t i = 0; i < lane_count; ++i) out[i] = lanes_[i]->context();
  return out;
}

core::result<memory_region> ucx_fabric::keep(core::result<std::shared_ptr<ucx_region>> region) {
  if (!region) return region.error();
  auto bytes = (*region)->bytes();
  return memory_region{regions_.add(std::move(*region)), bytes};
}

core::result<memory_region> ucx_fabric::allocate(std::uint64_t bytes) {
  return keep(ucx_region::allocate(contexts(), bytes));
}

core::result<memory_region> ucx_fabric::attach(std::span<std::byte> bytes) {
  return keep(ucx_region::attach(contexts(), bytes));
}

core::result<std::vector<std::byte>> ucx_fabric::export_region(core::region_id id) const {
  auto region = regions_.find(id);
  if (!region) return invalid("no memory region " + std::to_string(id.value) + " in this fabric");
  wire::region out;
  out.instance = options_.self.instance;
  out.base = reinterpret_cast<std::uintptr_t>(region->bytes().data());
  out.size = region->bytes().size();
  for (std::size_t i = 0; i < lane_count; ++i) {
    auto key = region->pack_key(static_cast<lane>(i));
    if (!key) return key.error();
    out.keys[i] = std::move(*key);
  }
  return wire::encode(out);
}

core::result<remote_region_id> ucx_fabric::import_region(peer_id id, std::span<const std::byte> exported) {
  auto peer = peers_.find(id);
  if (!peer) return invalid("no peer " + std::to_string(id.value) + ": connect to it first");
  auto region = wire::decode_region(exported);
  if (!region) return region.error();
  if (region->instance != peer->who.instance) {
    return invalid("the region belongs to instance " + std::to_string(region->instance) + ", but "
                   + peer->name() + " is instance " + std::to_string(peer->who.instance)
                   + ": fetch the region again");
  }
  return peers_.import(id, *region);
}

core::result<void> ucx_fabric::prepare(ucx_job& job, transfer& t) {
  if (index(t.lane) >= lane_count) return invalid("no lane " + std::to_string(index(t.lane)));
  if (t.deadline.count() <= 0) return invalid("a transfer needs a deadline");
  job.peer = peers_.lookup(t.peer);
  if (job.peer == nullptr)
    return invalid("no peer " + std::to_string(t.peer.value) + ": connect to it first");
  job.remote = peers_.lookup(t.remote);
  if (job.remote == nullptr || job.remote->peer != t.peer) {
    return invalid("no imported region " + std::to_string(t.remote.value) + " of " + job.peer->name());
  }
  job.local_id = t.local;
  job.bytes = total_bytes(t.pieces);
  job.cursor.assign(std::move(t.pieces));
  return {};
}

void ucx_fabric::move(ucx_job::kind what, transfer&& t, done&& on_done) {
  auto job =
      std::make_unique_for_overwrite<ucx_job>(); // its members start as they say; no need to clear it first
  job->what = what;
  job->needs_flush = what == ucx_job::kind::put;
  job->deadline = t.deadline;
  job->on_done = std::move(on_done);
  auto which = index(t.lane) < lane_count ? t.lane : lane::control;
  if (auto prepared = prepare(*job, t); !prepared) job->failure = prepared.error();
  at(which).post(std::move(job));
}

void ucx_fabric::send(peer_id id, lane on, message m, core::instant deadline, done on_done) {
  auto job =
      std::make_unique_for_overwrite<ucx_job>(); // its members start as they say; no need to clear it first
  job->what = ucx_job::kind::send;
  job->deadline = deadline;
  job->bytes = m.payload.size();
  job->on_done = std::move(on_done);
  job->peer = peers_.lookup(id);
  if (index(on) >= lane_count) {
    job->failure = invalid("no lane " + std::to_string(index(on)));
    on = lane::control;
  } else if (job->peer == nullptr) {
    job->failure = invalid("no peer " + std::to_string(id.value) + ": connect to it first");
  } else if (deadline.count() <= 0) {
    job->failure = invalid("a message needs a deadline");
  } else if (m.payload.size() > options_.max_message_bytes) {
    job->failure = invalid("a message of " + std::to_string(m.payload.size()) + " bytes is over the limit of "
                           + std::to_string(options_.max_message_bytes) + ": put it into a memory region");
  } else {
    job->message_id = static_cast<unsigned>(letter_kind::message);
    job->header = wire::encode(
        wire::message_header{options_.self.instance, job->peer->who.instance, m.kind, m.payload.size()});
    job->payload = std::move(m.payload);
  }
  at(on).post(std::move(job));
}

void ucx_fabric::report(lane on, ucx_job& job, core::result<void> outcome) {
  auto& count = counters_[index(on)];
  if (!outcome) {
    (outcome.error().code == core::errc::timed_out ? count.timed_out : count.failed).add(1);
  } else {
    switch (job.what) {
    case ucx_job::kind::put:
      count.put_bytes.add(job.bytes);
      break;
    case ucx_job::kind::get:
      count.get_bytes.add(job.bytes);
      break;
    case ucx_job::kind::send:
      count.messages.add(1);
      break;
    }
  }
  if (job.on_done) job.on_done(std::move(outcome));
}

void ucx_fabric::release(core::region_id region) {
  regions_.remove(region);
  for (auto& each : lanes_) each->post([region](ucx_lane& self) { self.release(region); });
}

void ucx_fabric::quiesce(std::function<void()> on_done) {
  auto left = std::make_shared<std::atomic<std::size_t>>(lane_count);
  auto done = std::make_shared<std::function<void()>>(std::move(on_done));
  auto on_idle = [this, left, done] {
    if (--*left != 0) return;
    for (auto& each : lanes_) each->post([](ucx_lane& self) { self.open_gate(); });
    (*done)();
  };
  for (auto& each : lanes_) each->post([on_idle](ucx_lane& self) { self.close_gate(on_idle); });
}

std::array<lane_counters, lane_count> ucx_fabric::counters() const {
  std::array<lane_counters, lane_count> out;
  for (std::size_t i = 0; i < lane_count; ++i) {
    auto& from = counters_[i];
    out[i] = {from.put_bytes, from.get_bytes, from.messages, from.failed, from.timed_out};
  }
  return out;
}

std::uint64_t ucx_fabric::wake_ups() const {
  std::uint64_t sum = 0;
  for (auto& each : lanes_) sum += each->wake_ups();
  return sum;
}

} // namespace

core::result<std::unique_ptr<fabric>> open_ucx_fabric(ucx_fabric_options options) {
  auto out = std::make_unique<ucx_fabric>(std::move(options));
  if (auto opened = out->open(); !opened) return opened.error();
  return std::unique_ptr<fabric>{std::move(out)};
}

std::uint64_t ucx_wake_ups(const fabric& of) {
  auto ucx = dynamic_cast<const ucx_fabric*>(&of);
  return ucx == nullptr ? 0 : ucx->wake_ups();
}

} // namespace dualpath::net
