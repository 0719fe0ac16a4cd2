#include "net/sim_fabric.hpp"

#include "core/page_memory.hpp"
#include "net/handshake.hpp"
#include "net/piece_cursor.hpp"
#include "net/sim_core.hpp"

#include <utility>

namespace dualpath::net {
namespace {

core::error invalid(std::string text) { return {core::errc::invalid_argument, std::move(text)}; }

class sim_fabric final : public fabric {
public:
  sim_fabric(std::shared_ptr<sim_core> core, identity self)
      : core_{std::move(core)}, node_{core_->open(self)} {}
  ~sim_fabric() override { core_->close(node_); }

  std::vector<std::byte> address() const override {
    return wire::encode(wire::address{{wire::protocol_version, node_->self}, {}});
  }
  void connect(std::span<const std::byte> address, core::instant deadline, connected on_done) override;
  void disconnect(peer_id peer) override { core_->part(node_, peer); }
  void cut(core::engine_id engine, std::function<void()> on_done) override {
    core_->cut(node_, engine, std::move(on_done));
  }
  core::result<memory_region> allocate(std::uint64_t bytes) override;
  core::result<memory_region> attach(std::span<std::byte> bytes) override;
  void release(core::region_id region) override;
  core::result<std::vector<std::byte>> export_region(core::region_id region) const override;
  core::result<remote_region_id> import_region(peer_id peer, std::span<const std::byte> exported) override;
  void put(transfer t, done on_done) override {
    move(sim_operation::kind::put, std::move(t), std::move(on_done));
  }
  void get(transfer t, done on_done) override {
    move(sim_operation::kind::get, std::move(t), std::move(on_done));
  }
  void send(peer_id peer, lane on, message m, core::instant deadline, done on_done) override;
  void on_message(std::function<void(peer_id, lane, message)> handler) override {
    std::lock_guard lock{core_->mutex};
    node_->on_message = std::make_shared<std::function<void(peer_id, lane, message)>>(std::move(handler));
  }
  void on_peer_down(std::function<void(peer_id, std::string)> handler) override {
    std::lock_guard lock{core_->mutex};
    node_->on_down = std::make_shared<std::function<void(peer_id, std::string)>>(std::move(handler));
  }
  void quiesce(std::function<void()> on_done) override { core_->quiesce(node_, std::move(on_done)); }
  std::array<lane_counters, lane_count> counters() const override {
    std::lock_guard lock{core_->mutex};
    return node_->counters;
  }

private:
  void move(sim_operation::kind what, transfer t, done on_done);
  core::result<void> prepare(sim_operation& operation, const transfer& t) const;

  std::shared_ptr<sim_core> core_;
  std::shared_ptr<sim_node> node_;
};

void sim_fabric::connect(std::span<const std::byte> address, core::instant deadline, connected on_done) {
  auto read = wire::decode_address(address);
  auto checked = read ? check_peer(node_->self, read->sender) : core::result<void>{read.error()};
  sim_operation operation;
  operation.what = sim_operation::kind::connect;
  operation.lane = lane::control;
  operation.deadline = deadline;
  if (read) {
    operation.peer = read->sender.who.instance;
    operation.expected = read->sender;
  }
  operation.on_done = [core = core_, node = node_, peer = operation.peer,
                       on_done = std::move(on_done)](core::result<void> how) {
    if (!how) return on_done(how.error());
    peer_id id;
    {
      std::lock_guard lock{core->mutex};
      id = node->peer_of.at(peer);
    }
    on_done(id);
  };
  core_->begin(node_, std::move(operation), checked ? std::nullopt : std::optional{checked.error()});
}

core::result<memory_region> sim_fabric::allocate(std::uint64_t bytes) {
  if (bytes == 0) return invalid("a memory region cannot have 0 bytes");
  auto owner = std::make_shared<core::page_memory>(core::page_memory::allocate(bytes));
  if (!*owner)
    return core::error{core::errc::no_space, "cannot allocate " + std::to_string(bytes) + " bytes of memory"};
  std::lock_guard lock{core_->mutex};
  core::region_id id{node_->next_region++};
  auto span = owner->bytes();
  node_->regions.emplace(id, sim_node::region{span, {owner, span.data()}});
  return memory_region{id, span};
}

core::result<memory_region> sim_fabric::attach(std::span<std::byte> bytes) {
  if (bytes.empty() || bytes.data() == nullptr) return invalid("a memory region cannot have 0 bytes");
  std::lock_guard lock{core_->mutex};
  core::region_id id{node_->next_region++};
  node_->regions.emplace(id, sim_node::region{bytes, nullptr});
  return memory_region{id, bytes};
}

void sim_fabric::release(core::region_id region) {
  std::lock_guard lock{core_->mutex};
  node_->regions.erase(region);
}

core::result<std::vector<std::byte>> sim_fabric::export_region(core::region_id id) const {
  std::lock_guard lock{core_->mutex};
  auto found = node_->regions.find(id);
  if (found == node_->regions.end())
    return invalid("no memory region " + std::to_string(id.value) + " in this fabric");
  auto& bytes = found->second.bytes;
  return wire::encode(
      wire::region{node_->self.instance, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), {}});
}

core::result<remote_region_id> sim_fabric::import_region(peer_id peer, std::span<const std::byte> exported) {
  auto region = wire::decode_region(exported);
  std::lock_guard lock{core_->mutex};
  if (peer.value >= node_->peers.size()) {
    return invalid("no peer " + std::to_string(peer.value) + ": connect to it first");
  }
  if (!region) return region.error();
  auto& who = node_->peers[peer.value].who;
  if (region->instance != who.instance) {
    return invalid("the region belongs to instance " + std::to_string(region->instance) + ", but engine "
                   + std::to_string(who.engine.value) + " is instance " + std::to_string(who.instance)
                   + ": fetch the region again");
  }
  node_->remotes.push_back({region->instance, region->base, region->size});
  return remote_region_id{static_cast<std::uint32_t>(node_->remotes.size() - 1)};
}

core::result<void> sim_fabric::prepare(sim_operation& operation, const transfer& t) const {
  std::lock_guard lock{core_->mutex};
  if (t.deadline.count() <= 0) return invalid("a transfer needs a deadline");
  if (t.peer.value >= node_->peers.size()) {
    return invalid("no peer " + std::to_string(t.peer.value) + ": connect to it first");
  }
  operation.peer = node_->peers[t.peer.value].who.instance;
  auto local = node_->regions.find(t.local);
  if (local == node_->regions.end()) {
    return invalid("no memory region " + std::to_string(t.local.value) + " in this fabric");
  }
  if (t.remote.value >= node_->remotes.size() || node_->remotes[t.remote.value].instance != operation.peer) {
    return invalid("no imported region " + std::to_string(t.remote.value) + " of that peer");
  }
  operation.local = local->second.bytes;
  operation.remote = node_->remotes[t.remote.value];
  return check_pieces(t.pieces, operation.local.size(), operation.remote.size);
}

void sim_fabric::move(sim_operation::kind what, transfer t, done on_done) {
  sim_operation operation;
  operation.what = what;
  bool known_lane = static_cast<std::size_t>(t.lane) < lane_count;
  auto prepared = known_lane ? prepare(operation, t) : core::result<void>{invalid("no such lane")};
  operation.lane = known_lane ? t.lane : lane::control;
  operation.deadline = t.deadline;
  operation.bytes = prepared ? total_bytes(t.pieces) : 0;
  operation.pieces = std::move(t.pieces);
  operation.on_done = std::move(on_done);
  core_->begin(node_, std::move(operation), prepared ? std::nullopt : std::optional{prepared.error()});
}

void sim_fabric::send(peer_id peer, lane on, message m, core::instant deadline, done on_done) {
  sim_operation operation;
  operation.what = sim_operation::kind::send;
  operation.lane = static_cast<std::size_t>(on) < lane_count ? on : lane::control;
  operation.deadline = deadline;
  operation.bytes = m.payload.size();
  operation.message = std::move(m);
  operation.on_done = std::move(on_done);
  std::optional<core::error> refusal;
  {
    std::lock_guard lock{core_->mutex};
    if (peer.value < node_->peers.size()) {
      operation.peer = node_->peers[peer.value].who.instance;
    } else {
      refusal = invalid("no peer " + std::to_string(peer.value) + ": connect to it first");
    }
  }
  if (!refusal && deadline.count() <= 0) refusal = invalid("a message needs a deadline");
  core_->begin(node_, std::move(operation), std::move(refusal));
}

} // namespace

sim_network::sim_network(const sim_network_options& options) : core_{std::make_shared<sim_core>(options)} {}
sim_network::~sim_network() = default;

std::unique_ptr<fabric> sim_network::open(identity self) { return std::make_unique<sim_fabric>(core_, self); }

void sim_network::set_faults(const sim_faults& faults) {
  std::lock_guard lock{core_->mutex};
  core_->options.faults = faults;
}

void sim_network::kill(std::uint64_t instance) { core_->kill(instance); }
void sim_network::pause(std::uint64_t instance, bool paused) { core_->pause(instance, paused); }

void sim_network::set_bandwidth(std::uint64_t instance, double bytes_per_second) {
  std::lock_guard lock{core_->mutex};
  if (auto node = core_->find(instance)) node->bytes_per_second = bytes_per_second;
}

} // namespace dualpath::net
