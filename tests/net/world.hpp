// Fabrics under test, whatever they are made of: one world is a network with a clock on which several fabrics
// are opened.
#pragma once

#include "net/fabric.hpp"

#include <catch2/catch.hpp>

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dualpath::net::testing {

using namespace std::chrono_literals;

/// What a completion or handler tells, counted; written on a fabric's thread, read by the test.
template <class T>
class outcome {
public:
  void set(T value) {
    std::lock_guard lock{shared_->mutex};
    shared_->values.push_back(std::move(value));
    shared_->changed.notify_all();
  }
  std::size_t count() const {
    std::lock_guard lock{shared_->mutex};
    return shared_->values.size();
  }
  std::vector<T> values() const {
    std::lock_guard lock{shared_->mutex};
    return shared_->values;
  }
  bool wait_for(std::size_t wanted, std::chrono::milliseconds limit) const {
    std::unique_lock lock{shared_->mutex};
    return shared_->changed.wait_for(lock, limit, [&] { return shared_->values.size() >= wanted; });
  }

private:
  struct state {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::vector<T> values;
  };
  std::shared_ptr<state> shared_ = std::make_shared<state>();
};

using ending = std::optional<core::error>; ///< nothing: done

/// Whether DUALPATH_TEST_EMULATED says that CPU and network are: tens of MB/s, and hardly any CPU where the
/// machine has other work. Tests then move less; what they demand stays.
bool emulated();
/// Deadlines and limits of tests are multiplied by it.
int patience();
/// `bytes`, or a sixteenth of them where moving all would take minutes.
std::uint64_t bulk(std::uint64_t bytes);

class world {
public:
  virtual ~world() = default;
  virtual std::unique_ptr<fabric> open(const identity& self) = 0;
  virtual core::clock& clock() = 0;
  /// Lets the world go on until `wanted` values are there; false after a generous limit.
  virtual bool let_run(const std::function<bool(std::chrono::milliseconds)>& reached) = 0;

  template <class T>
  std::vector<T> await(const outcome<T>& box, std::size_t wanted = 1) {
    bool reached = let_run([&](std::chrono::milliseconds limit) { return box.wait_for(wanted, limit); });
    INFO("waiting for " << wanted << " outcomes, got " << box.count());
    REQUIRE(reached);
    return box.values();
  }
  core::instant soon() { return clock().now() + 20s * patience(); }
};

/// Those every machine has, each also with paced lanes, or only the one DUALPATH_TEST_FABRIC names: rc_v is
/// UCX over RDMA, its fabrics on the devices DUALPATH_TEST_DEVICES lists, in turn by engine.
std::vector<std::string> all_worlds();
std::unique_ptr<world> make_world(const std::string& name);
/// As UCX names the transports of that world.
std::string transports_of(const std::string& name);
/// The RDMA device of that engine; empty where none is asked for.
std::string device_of(core::engine_id engine);

/// Of all fabrics over UCX, here and in processes of their own, so that their TCP ports are guarded.
inline constexpr const char* cluster_secret = "the secret of the tests";

identity engine(std::uint32_t number);
std::uint64_t seed();
std::vector<std::byte> random_bytes(std::size_t size, std::mt19937_64& random);

/// Two connected fabrics, each with one exported region, and calls that wait.
struct pair_of_fabrics {
  pair_of_fabrics(world& in, std::uint64_t region_bytes);

  world& around;
  std::unique_ptr<fabric> a, b;
  memory_region a_memory, b_memory;
  peer_id b_at_a, a_at_b;
  remote_region_id b_memory_at_a, a_memory_at_b;

  transfer from_a(std::vector<strided_piece> pieces, lane on = lane::kv);
  transfer from_b(std::vector<strided_piece> pieces, lane on = lane::kv);
};

core::result<peer_id> connect(world& in, fabric& from, const std::vector<std::byte>& address);
core::result<peer_id> connect(world& in, fabric& from, fabric& to);
ending put(world& in, fabric& on, transfer t);
ending get(world& in, fabric& on, transfer t);
fabric::done into(outcome<ending> box);

/// Whether the error has that code and its text tells `part`.
bool tells(const core::error& error, core::errc code, const std::string& part);

} // namespace dualpath::net::testing

/// Runs the rest of the test once for every kind of fabric; `world_` is a fresh world of it.
#define FOR_EVERY_WORLD(world_)                                                                              \
  auto world_##name = GENERATE(from_range(::dualpath::net::testing::all_worlds()));                          \
  INFO("fabric: " << world_##name);                                                                          \
  auto world_##owner = ::dualpath::net::testing::make_world(world_##name);                                   \
  auto& world_ = *world_##owner
