// The data plane between engines. One fabric belongs to one engine: it owns registered memory, one endpoint
// per peer and lane, and moves bytes one-sidedly (put, get) or as small active messages. Lanes are separate
// contexts, so that each can have its own service level or traffic class (spec §6). Implementations:
// ucx_fabric (UCX), sim_fabric (memory, modelled time); paced_fabric shares out what a network without
// virtual lanes has, over either.
//
// Every transfer has a deadline and ends exactly once: done, failed, or timed out. A transfer that timed out
// may still be touching memory; its completion is held back until it is fenced, so a completed transfer never
// touches memory again. Threading: all calls are thread-safe; none blocks, except the destructor. Completions
// and handlers run on a thread of the fabric, never inside the call; they must be short.
#pragma once

#include "core/clock.hpp"
#include "core/ids.hpp"
#include "core/layout/block_key.hpp"
#include "core/layout/block_layout.hpp"
#include "core/layout/strided_piece.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dualpath::net {

enum class lane : std::uint8_t {
  collective, ///< model collectives: ~99 % of the network
  kv,         ///< KV-cache: the rest, plus whatever is idle
  control,    ///< small messages of the data plane itself
};
inline constexpr std::size_t lane_count = 3;
constexpr const char* to_string(lane l) {
  return l == lane::collective ? "collective" : l == lane::kv ? "kv" : "control";
}

using peer_id = core::strong_id<struct peer_id_tag, std::uint32_t>;
using remote_region_id = core::strong_id<struct remote_region_id_tag, std::uint32_t>;

/// Who this end is; exchanged when peers connect, and refused by name where it does not fit.
struct identity {
  std::uint64_t instance = 0; ///< random per process start: an old address must not reach a new process
  core::engine_id engine;
  core::incarnation incarnation;
  core::model_fingerprint model;
  core::block_layout layout;
};

/// Registered memory of this fabric. Offsets in transfers count from its base.
struct memory_region {
  core::region_id id;
  std::span<std::byte> bytes;
};

using core::strided_piece;

struct transfer {
  peer_id peer;
  net::lane lane = net::lane::kv;
  core::region_id local;
  remote_region_id remote;
  std::vector<strided_piece> pieces;
  core::instant deadline{};
};

using core::total_bytes;

/// A small message; header and payload are copied.
struct message {
  std::uint16_t kind = 0;
  std::vector<std::byte> payload;
};

struct lane_counters {
  std::uint64_t put_bytes = 0, get_bytes = 0, messages = 0, failed = 0, timed_out = 0;
  core::duration waited{
      0}; ///< for the lane's turn, all transfers and messages together; where lanes are paced
};

class fabric {
public:
  using done = std::function<void(core::result<void>)>;
  using connected = std::function<void(core::result<peer_id>)>;

  virtual ~fabric() = default;

  /// What a peer needs to connect: the lanes' addresses and the identity, as opaque bytes (Cap'n Proto).
  virtual std::vector<std::byte> address() const = 0;
  /// Endpoints on all lanes, then a handshake. Errors: refused (names what differs), disconnected, timed_out.
  virtual void connect(std::span<const std::byte> address, core::instant deadline, connected on_done) = 0;
  /// Closes the endpoints; transfers to the peer fail as disconnected.
  virtual void disconnect(peer_id peer) = 0;
  /// For an engine whose process is taken for dead: closes every connection with it, whoever opened it,
  /// refuses that process for ever, and calls back once none of its transfers can touch our memory any more.
  /// Shared memory cannot be taken back from a process: there this holds only if it is dead indeed.
  virtual void cut(core::engine_id engine, std::function<void()> on_done) = 0;

  /// New memory, registered with every lane, page-aligned, zeroed; shared where that makes transfers
  /// one-sided.
  virtual core::result<memory_region> allocate(std::uint64_t bytes) = 0;
  /// Registers memory that exists (e.g. of a GPU); it must stay until a quiesce() after its release() has
  /// called back.
  virtual core::result<memory_region> attach(std::span<std::byte> bytes) = 0;
  /// The caller has seen every transfer on it complete.
  virtual void release(core::region_id region) = 0;
  /// What a peer needs to reach the region, as opaque bytes.
  virtual core::result<std::vector<std::byte>> export_region(core::region_id region) const = 0;
  virtual core::result<remote_region_id> import_region(peer_id peer, std::span<const std::byte> exported) = 0;

  /// One-sided write. Done means: the bytes are visible in the peer's memory.
  virtual void put(transfer t, done on_done) = 0;
  /// One-sided read. Done means: the bytes are here.
  virtual void get(transfer t, done on_done) = 0;
  virtual void send(peer_id peer, lane on, message m, core::instant deadline, done on_done) = 0;
  virtual void on_message(std::function<void(peer_id, lane, message)> handler) = 0;
  virtual void on_peer_down(std::function<void(peer_id, std::string why)> handler) = 0;

  /// Calls back once when no transfer is in flight any more; new ones are refused as closed meanwhile and
  /// accepted again afterwards. The fence before an engine's memory is used by its next incarnation.
  virtual void quiesce(std::function<void()> on_done) = 0;
  virtual std::array<lane_counters, lane_count> counters() const = 0;
};

} // namespace dualpath::net
