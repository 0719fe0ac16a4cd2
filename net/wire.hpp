// The bytes of the data plane: peer.capnp as plain structures. Reading never throws and never trusts:
// whatever a peer sends is either a whole, bounded structure or an error that says what is wrong with it.
#pragma once

#include "core/result.hpp"
#include "net/fabric.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dualpath::net::wire {

using bytes = std::vector<std::byte>;
using view = std::span<const std::byte>;

/// Raised with every change that an older peer would misread.
inline constexpr std::uint32_t protocol_version = 1;
/// No structure here is larger on the wire.
inline constexpr std::size_t max_bytes = 64 * 1024;

struct peer_identity {
  std::uint32_t version = protocol_version;
  identity who;
};

struct address {
  peer_identity sender;
  std::array<bytes, lane_count> lanes;
};

struct hello {
  address sender;
  std::uint64_t target_instance = 0;
  std::uint64_t generation = 0;
  std::uint64_t heard = 0; ///< generation of the target's last hello; see handshake_state
  bytes reply_to;          ///< transport address of the endpoint's worker
  bytes proof;             ///< see prove()
};

struct hello_reply {
  peer_identity sender;
  std::uint64_t named_instance = 0;   ///< the target the hello named
  std::uint64_t hello_generation = 0; ///< as in the hello
  std::uint64_t generation = 0;       ///< of the endpoint that leads back
  std::string refusal;                ///< empty: accepted
};

struct bye {
  std::uint64_t sender_instance = 0;
  std::uint64_t generation = 0; ///< of the endpoint that is closed
  std::string reason;
};

struct message_header {
  std::uint64_t sender_instance = 0, target_instance = 0;
  std::uint16_t kind = 0;
  std::uint64_t length = 0;
};

struct region {
  std::uint64_t instance = 0, base = 0, size = 0;
  std::array<bytes, lane_count> keys;
};

struct row {
  std::uint64_t offset = 0, bytes = 0;
};

/// Rows of one region, put or got by messages.
struct copy_chunk {
  std::uint64_t number = 0; ///< names the answer
  std::uint64_t base = 0, size = 0;
  std::vector<row> rows;
};

/// A put's message carries one chunk and its bytes; small requests of gets travel together.
struct copy_request {
  std::uint64_t sender_instance = 0, target_instance = 0;
  std::vector<copy_chunk> chunks;
};

/// The bytes of one chunk, or that puts are done or refused.
struct copy_reply {
  std::uint64_t sender_instance = 0, target_instance = 0;
  std::vector<std::uint64_t> chunks;
  std::string refusal; ///< empty: done
};

/// HMAC-SHA256 of everything else in the hello, keyed with the cluster's secret; empty without a secret. It
/// binds the sender to the process instance that the hello names, and is of no use at another.
bytes prove(const hello& value, std::string_view secret);

bytes encode(const address& value);
bytes encode(const hello& value);
bytes encode(const hello_reply& value);
bytes encode(const bye& value);
bytes encode(const message_header& value);
bytes encode(const region& value);
bytes encode(const copy_request& value);
bytes encode(const copy_reply& value);

/// Errors: invalid_argument, naming the structure and the defect.
core::result<address> decode_address(view from);
core::result<hello> decode_hello(view from);
core::result<hello_reply> decode_hello_reply(view from);
core::result<bye> decode_bye(view from);
core::result<message_header> decode_message_header(view from);
core::result<region> decode_region(view from);
core::result<copy_request> decode_copy_request(view from);
core::result<copy_reply> decode_copy_reply(view from);

} // namespace dualpath::net::wire
