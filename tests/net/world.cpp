#include "world.hpp"

#include "net/paced_fabric.hpp"
#include "net/sim_fabric.hpp"
#include "net/ucx_fabric.hpp"

#include <string_view>

namespace dualpath::net::testing {
namespace {

/// Entry `number`, counted round, of a list with commas.
std::string nth_of(const std::string& list, std::uint32_t number) {
  std::vector<std::string> entries(1);
  for (char c : list) {
    if (c == ',')
      entries.emplace_back();
    else
      entries.back() += c;
  }
  return entries[number % entries.size()];
}

class ucx_world final : public world {
public:
  explicit ucx_world(std::string transports) : transports_{std::move(transports)} {}

  std::unique_ptr<fabric> open(const identity& self) override {
    ucx_fabric_options options;
    options.clock = &clock_;
    options.self = self;
    options.transports = transports_;
    options.secret = cluster_secret;
    // Two RDMA devices stand for two machines.
    if (auto device = device_of(self.engine); !device.empty() && transports_ == "rc_v")
      options.settings.emplace_back("NET_DEVICES", device);
    auto opened = open_ucx_fabric(std::move(options));
    if (!opened) FAIL(opened.error().text);
    return std::move(*opened);
  }
  core::clock& clock() override { return clock_; }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    return reached(30s * patience());
  }

private:
  std::string transports_;
  core::steady_clock clock_;
};

class simulated_world final : public world {
public:
  std::unique_ptr<fabric> open(const identity& self) override { return network_.open(self); }
  core::clock& clock() override { return clock_; }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    for (auto end = clock_.now() + 60s; clock_.now() < end; clock_.advance(50us)) {
      if (reached(0ms)) return true;
    }
    return reached(0ms);
  }

private:
  core::manual_clock clock_;
  sim_network network_{{.clock = &clock_, .bytes_per_second = 10e9}};
};

/// Another world whose fabrics pace their lanes, in parts small enough that most transfers are cut.
class paced_world final : public world {
public:
  explicit paced_world(std::unique_ptr<world> inner) : inner_{std::move(inner)} {}

  std::unique_ptr<fabric> open(const identity& self) override {
    pacing_options options;
    options.clock = &inner_->clock();
    options.window = {.shared_bytes = 128 << 10, .reserve_bytes = 64 << 10};
    options.quantum_bytes = 50'000;
    auto paced = pace_lanes(inner_->open(self), std::move(options));
    if (!paced) FAIL(paced.error().text);
    return std::move(*paced);
  }
  core::clock& clock() override { return inner_->clock(); }
  bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) override {
    return inner_->let_run(reached);
  }

private:
  std::unique_ptr<world> inner_;
};

} // namespace

std::vector<std::string> all_worlds() {
  if (const char* only = std::getenv("DUALPATH_TEST_FABRIC")) return {only};
  return {"simulated", "tcp", "shared memory", "paced simulated", "paced tcp", "paced shared memory"};
}

std::unique_ptr<world> make_world(const std::string& name) {
  constexpr std::string_view paced = "paced ";
  if (name.starts_with(paced)) return std::make_unique<paced_world>(make_world(name.substr(paced.size())));
  if (name == "simulated") return std::make_unique<simulated_world>();
  return std::make_unique<ucx_world>(transports_of(name));
}

std::string transports_of(const std::string& name) {
  return name == "shared memory" ? "posix,cma,self,tcp" : name;
}

std::string device_of(core::engine_id engine) {
  const char* devices = std::getenv("DUALPATH_TEST_DEVICES");
  return devices == nullptr ? std::string{} : nth_of(devices, engine.value);
}

bool emulated() { return std::getenv("DUALPATH_TEST_EMULATED") != nullptr; }
int patience() { return emulated() ? 3 : 1; }
std::uint64_t bulk(std::uint64_t bytes) { return emulated() ? bytes / 16 : bytes; }

identity engine(std::uint32_t number) {
  identity self;
  self.instance = 0x1000 + number;
  self.engine = core::engine_id{number};
  self.model.bytes[0] = 7;
  self.layout = {.layers = 4, .block_tokens = 64, .token_bytes = 128};
  return self;
}

std::uint64_t seed() {
  auto given = std::getenv("DUALPATH_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

std::vector<std::byte> random_bytes(std::size_t size, std::mt19937_64& random) {
  std::vector<std::byte> out(size);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

fabric::done into(outcome<ending> box) {
  return [box](core::result<void> done) mutable { box.set(done ? ending{} : ending{done.error()}); };
}

core::result<peer_id> connect(world& in, fabric& from, const std::vector<std::byte>& address) {
  outcome<core::result<peer_id>> box;
  from.connect(address, in.soon(), [box](core::result<peer_id> peer) mutable { box.set(peer); });
  return in.await(box)[0];
}

core::result<peer_id> connect(world& in, fabric& from, fabric& to) { return connect(in, from, to.address()); }

ending put(world& in, fabric& on, transfer t) {
  outcome<ending> box;
  on.put(std::move(t), into(box));
  return in.await(box)[0];
}

ending get(world& in, fabric& on, transfer t) {
  outcome<ending> box;
  on.get(std::move(t), into(box));
  return in.await(box)[0];
}

pair_of_fabrics::pair_of_fabrics(world& in, std::uint64_t region_bytes)
    : around{in}, a{in.open(engine(1))}, b{in.open(engine(2))} {
  auto must = [](auto result) {
    if (!result) FAIL(result.error().text);
    return *result;
  };
  a_memory = must(a->allocate(region_bytes));
  b_memory = must(b->allocate(region_bytes));
  b_at_a = must(connect(in, *a, *b));
  a_at_b = must(connect(in, *b, *a));
  b_memory_at_a = must(a->import_region(b_at_a, must(b->export_region(b_memory.id))));
  a_memory_at_b = must(b->import_region(a_at_b, must(a->export_region(a_memory.id))));
}

transfer pair_of_fabrics::from_a(std::vector<strided_piece> pieces, lane on) {
  return {b_at_a, on, a_memory.id, b_memory_at_a, std::move(pieces), around.soon()};
}

transfer pair_of_fabrics::from_b(std::vector<strided_piece> pieces, lane on) {
  return {a_at_b, on, b_memory.id, a_memory_at_b, std::move(pieces), around.soon()};
}

bool tells(const core::error& error, core::errc code, const std::string& part) {
  UNSCOPED_INFO(core::to_string(error.code) << ": " << error.text);
  return error.code == code && error.text.find(part) != std::string::npos;
}

} // namespace dualpath::net::testing
