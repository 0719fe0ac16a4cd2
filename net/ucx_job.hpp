// What one put, get or message needs from submission to completion. Made by the caller's thread, then owned
// by the lane's thread alone.
#pragma once

#include "core/clock.hpp"
#include "core/result.hpp"
#include "net/fabric.hpp"
#include "net/lane_regions.hpp"
#include "net/piece_cursor.hpp"
#include "net/ucx_memory.hpp"
#include "net/wire.hpp"

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dualpath::net {

inline constexpr core::instant no_deadline{std::numeric_limits<core::instant::rep>::max()};

/// A process this fabric knows. Everything but the flags is fixed: another process is another peer.
struct ucx_peer : std::enable_shared_from_this<ucx_peer> {
  peer_id id;
  identity who;
  std::array<wire::bytes, lane_count> addresses;
  std::atomic<bool> asked{false}; ///< asked for a connection here, not answered yet
  std::atomic<bool> up{false};    ///< shaken hands, and not gone or closed since
  std::atomic<bool> cut{false};   ///< taken for dead: never spoken to again

  std::string name() const { return "engine " + std::to_string(who.engine.value); }
};

struct ucx_remote_region {
  peer_id peer;
  std::uint64_t base = 0, size = 0;
  std::array<wire::bytes, lane_count> keys;
};

/// Active message ids: what lanes tell each other.
enum class letter_kind : std::uint8_t {
  hello = 1,
  hello_reply,
  bye,
  message,
  put_data,
  put_done,
  get_request,
  get_data,
  alive ///< says nothing: that it does not arrive is what tells
};
inline constexpr std::size_t letter_kinds = 9;

class ucx_endpoint;

struct ucx_job {
  enum class kind : std::uint8_t { put, get, send };

  kind what = kind::put;
  bool internal = false;    ///< of the fabric itself: not counted, may precede the handshake
  bool needs_flush = false; ///< done only when the peer has it
  bool counted = false;     ///< by its lane, as a transfer in flight
  ucx_peer* peer = nullptr; ///< stays as long as the fabric, as the remote region does
  core::instant deadline = no_deadline;
  std::uint64_t bytes = 0;
  fabric::done on_done;

  core::region_id local_id;
  region_use local; ///< taken by the lane
  ucp_mem_h local_handle = nullptr;
  const ucx_remote_region* remote = nullptr;
  piece_cursor cursor;

  unsigned message_id = 0; ///< of the active message
  wire::bytes header, payload;
  std::span<const std::byte> borrowed; ///< of `lender`, in place of the payload
  std::shared_ptr<ucx_region> lender;

  // Owned by the endpoint that carries it.
  ucx_endpoint* endpoint = nullptr;
  std::size_t slot = 0;
  std::uint32_t outstanding = 0; ///< UCX operations that may still touch memory
  bool started = false, issued = false, flushed = false, reported = false;
  std::optional<core::error> failure;

  const char* verb() const { return what == kind::put ? "put" : what == kind::get ? "get" : "message"; }
};

} // namespace dualpath::net
