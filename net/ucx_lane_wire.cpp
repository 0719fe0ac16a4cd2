// What lanes tell each other. Letters are read outside UCX's callbacks, in the order they came, because
// answering one opens and closes endpoints.
#include "net/ucx_lane.hpp"

#include "net/handshake.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::net {
namespace {

constexpr core::duration refusal_time = std::chrono::seconds{1};

wire::bytes copy_of(const void* from, std::size_t size) {
  auto first = static_cast<const std::byte*>(from);
  return {first, first + size};
}

} // namespace

void ucx_lane::register_letters(ucp_worker_h worker) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    boxes_[i] = {this, static_cast<letter_kind>(i + 1)};
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB
                       | UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    param.id = static_cast<unsigned>(boxes_[i].kind);
    param.cb = on_letter;
    param.arg = &boxes_[i];
    param.flags = UCP_AM_FLAG_WHOLE_MSG;
    ucp_worker_set_am_recv_handler(worker, &param);
  }
}

ucs_status_t ucx_lane::on_letter(void* box, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& to = *static_cast<letter_box*>(box);
  // Nothing is sent by rendezvous here; whoever offers one is turned down.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  wire::view head{static_cast<const std::byte*>(header), header_bytes};
  wire::view body{static_cast<const std::byte*>(data), bytes};
  // Bytes are copied straight from the transport's buffer, but not ahead of a letter that came first: it may
  // be what makes the sender known.
  auto& waiting = to.lane->letters_;
  if (!waiting.empty() || !to.lane->on_copy_letter(to.kind, head, body))
    waiting.push_back({to.kind, copy_of(header, header_bytes), copy_of(data, bytes)});
  return UCS_OK;
}

/// False when the letter is of another kind.
bool ucx_lane::on_copy_letter(letter_kind kind, wire::view header, wire::view bytes) {
  switch (kind) {
  case letter_kind::put_data:
    on_put_data(header, bytes);
    return true;
  case letter_kind::get_request:
    on_get_request(header);
    return true;
  case letter_kind::put_done:
  case letter_kind::get_data:
    on_copy_reply(kind, header, bytes);
    return true;
  default:
    return false;
  }
}

bool ucx_lane::read_letters() {
  if (letters_.empty()) return false;
  for (auto& next : std::exchange(letters_, {})) {
    switch (next.kind) {
    case letter_kind::hello:
      on_hello(next);
      break;
    case letter_kind::hello_reply:
      on_hello_reply(next);
      break;
    case letter_kind::bye:
      on_bye(next);
      break;
    case letter_kind::message:
      on_message(next);
      break;
    default:
      on_copy_letter(next.kind, next.header, next.data);
    }
  }
  return true;
}

void ucx_lane::on_hello(const letter& from) {
  auto hello = wire::decode_hello(from.data);
  if (!hello || stopping_) return;
  auto accepted = host_.accept(lane_, *hello);
  if (!accepted) return turn_away(*hello, accepted.error().text);
  auto& peer = *accepted;
  auto endpoint = slot_of(*peer).endpoint.get();
  bool superseded = endpoint != nullptr && is_void(*endpoint, hello->generation);
  if (endpoint != nullptr && (endpoint->leaving || superseded)) {
    retire(*endpoint, {core::errc::disconnected, peer->name() + " opened its connection anew"});
    if (lane_ == lane::control) host_.reconnected(peer);
    endpoint = nullptr;
  }
  if (endpoint == nullptr) {
    auto opened = open_endpoint(peer, &*hello);
    if (!opened) return;
    endpoint = *opened;
  }
  endpoint->peer_generation = std::max(endpoint->peer_generation, hello->generation);
  // Of hellos that cross, one may be older than the endpoint the peer has now; the answer to ours tells.
  // First: once it has the answer, the peer may use the other lanes at once.
  if (endpoint->status() == ucx_endpoint::state::ready) welcome(*endpoint);
  wire::hello_reply reply;
  reply.sender = host_.own_address().sender;
  reply.named_instance = hello->target_instance;
  reply.hello_generation = hello->generation;
  reply.generation = endpoint->generation();
  send_internal(*endpoint, letter_kind::hello_reply, wire::encode(reply), false, no_deadline);
}

/// Whether a hello of that generation ends what is under way on the endpoint: the peer has given up what it
/// had to answer. An endpoint that leads to the peer's published worker, and has nothing under way, stays
/// good.
bool ucx_lane::is_void(const ucx_endpoint& endpoint, std::uint64_t generation) const {
  if (endpoint.peer_generation == 0 || endpoint.peer_generation >= generation) return false;
  return lane_ == lane::control || !endpoint.said_hello || endpoint.has_begun();
}

void ucx_lane::on_hello_reply(const letter& from) {
  auto reply = wire::decode_hello_reply(from.data);
  if (!reply) return;
  auto peer = host_.find_peer(reply->named_instance);
  if (!peer) return;
  if (answers_corpse(*peer, *reply)) return;
  auto endpoint = slot_of(*peer).endpoint.get();
  if (endpoint == nullptr) return;
  if (endpoint->generation() != reply->hello_generation) {
    // Hellos have crossed: the peer answered an endpoint that is gone, from one newer than the one we lead
    // to.
    if (endpoint->peer_generation != 0 && endpoint->peer_generation < reply->generation) {
      retire(*endpoint, {core::errc::disconnected, peer->name() + " opened its connection anew"});
      renew(peer);
    }
    return;
  }
  endpoint->heard();
  core::result<void> fits;
  if (!reply->refusal.empty()) {
    fits = check_peer(host_.own_address().sender.who, reply->sender);
    // Refused for a reason that is over: the peer has said hello itself meanwhile.
    if (fits && endpoint->peer_generation == 0)
      fits = core::error{core::errc::refused, peer->name() + " refused: " + reply->refusal};
  }
  if (!fits) {
    if (endpoint->status() == ucx_endpoint::state::connecting) retire(*endpoint, fits.error());
    return;
  }
  endpoint->peer_generation = std::max(endpoint->peer_generation, reply->generation);
  welcome(*endpoint);
}

/// Whether the reply is for an endpoint that was closed before it came. Its connection may go now, but the
/// peer takes it for a good one and has to be told.
bool ucx_lane::answers_corpse(const ucx_peer& peer, const wire::hello_reply& reply) {
  auto corpse = std::find_if(corpses_.begin(), corpses_.end(), [&](auto& each) {
    return each->peer().get() == &peer && each->generation() == reply.hello_generation;
  });
  if (corpse == corpses_.end()) return false;
  (*corpse)->heard();
  if (lane_ == lane::control && reply.refusal.empty()) {
    (*corpse)->say_late(letter_kind::bye, wire::encode(wire::bye{own_instance(), reply.hello_generation,
                                                                 "it was given up while it was made"}));
  }
  return true;
}

void ucx_lane::on_bye(const letter& from) {
  auto bye = wire::decode_bye(from.data);
  if (!bye) return;
  auto peer = host_.find_peer(bye->sender_instance);
  if (!peer) return;
  auto endpoint = slot_of(*peer).endpoint.get();
  // A bye of a connection that has been replaced comes late.
  if (endpoint == nullptr || endpoint->peer_generation != bye->generation) return;
  retire(*endpoint, {core::errc::disconnected, peer->name() + " closed the connection: " + bye->reason});
  host_.lost(peer, peer->name() + " closed the connection: " + bye->reason);
}

void ucx_lane::on_message(letter& from) {
  auto header = wire::decode_message_header(from.header);
  if (!header || header->length != from.data.size()) return;
  if (header->target_instance != host_.own_address().sender.who.instance) return;
  auto peer = host_.find_peer(header->sender_instance);
  if (!peer || !peer->up) return;
  host_.deliver(*peer, lane_, message{header->kind, std::move(from.data)});
}

/// Both ends know each other: jobs may go.
void ucx_lane::welcome(ucx_endpoint& endpoint) {
  if (endpoint.leaving) return;
  endpoint.become_ready();
  if (lane_ != lane::control) return;
  auto peer = endpoint.peer();
  host_.hands_shaken(peer);
  for (auto& waiting : std::exchange(endpoint.waiters, {})) waiting.on_done(peer->id);
}

void ucx_lane::turn_away(const wire::hello& hello, const std::string& refusal) {
  auto stranger = std::make_shared<ucx_peer>();
  stranger->id = peer_id{0};
  stranger->who = hello.sender.sender.who;
  auto courier = make_endpoint(stranger, 0, hello.reply_to, nullptr);
  if (!courier) return;
  (*courier)->expects_no_answer();
  couriers_.push_back(std::move(*courier));
  wire::hello_reply reply;
  reply.sender = host_.own_address().sender;
  reply.named_instance = hello.target_instance;
  reply.hello_generation = hello.generation;
  reply.refusal = refusal;
  send_internal(*couriers_.back(), letter_kind::hello_reply, wire::encode(reply), true,
                clock_.now() + refusal_time);
}

} // namespace dualpath::net
