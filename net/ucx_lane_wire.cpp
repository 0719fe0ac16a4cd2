// What lanes tell each other. Letters are read outside UCX's callbacks, in the order they came, because
// answering one opens and closes endpoints.
#include "net/ucx_lane.hpp"

#include "net/handshake.hpp"

#include <algorithm>
#include <iterator>
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
    case letter_kind::alive:
      break;
    default:
      on_copy_letter(next.kind, next.header, next.data);
    }
  }
  return true;
}

void ucx_lane::on_hello(letter& from) {
  auto hello = wire::decode_hello(from.data);
  if (!hello || stopping_) return;
  auto accepted = host_.accept(lane_, *hello);
  if (!accepted) return turn_away(*hello, accepted.error().text);
  auto& peer = *accepted;
  auto& place = slot_of(*peer);
  if (lane_ != lane::control) {
    bool asked = peer->asked; // looked at first: it ends after `up` has begun
    if (!peer->up && asked) return wait_for_control(place, from);
    if (!peer->up)
      return turn_away(*hello, std::string{"lane "} + to_string(lane_)
                                   + " opens only after the control lane: connect first");
  }
  auto response = place.handshake.on_hello({hello->generation, hello->heard});
  if (response.late) return turn_away(*hello, "its sender has said hello since");
  core::error anew{core::errc::disconnected, peer->name() + " opened its connection anew"};
  // What has only waited goes over to the new end.
  auto waiters = std::exchange(place.waiters, {});
  std::vector<std::unique_ptr<ucx_job>> jobs;
  auto replace = [&](ucx_endpoint& old) {
    auto more = old.take_waiting();
    std::move(more.begin(), more.end(), std::back_inserter(jobs));
    retire(old, anew);
  };
  if (response.closes_asking) replace(*place.asking);
  if (response.closes_answering) replace(*place.answering);
  if (lane_ == lane::control && (response.closes_asking || response.closes_answering))
    host_.reconnected(peer);
  auto opened = answer(peer, *hello, response.generation);
  place.waiters = std::move(waiters);
  if (auto end = place.current()) {
    for (auto& job : jobs) end->add(std::move(job));
  } else {
    for (auto& job : jobs) host_.report(lane_, *job, opened.error());
    for (auto& waiting : std::exchange(place.waiters, {})) waiting.on_done(opened.error());
  }
  if (!opened) return;
  // First: once it has the answer, the peer may use the other lanes at once.
  welcome(place, **opened);
  wire::hello_reply reply;
  reply.sender = host_.own_address().sender;
  reply.named_instance = hello->target_instance;
  reply.hello_generation = hello->generation;
  reply.generation = response.generation;
  send_internal(**opened, letter_kind::hello_reply, wire::encode(reply), false, no_deadline);
}

void ucx_lane::wait_for_control(slot& place, letter& hello) {
  auto older = std::exchange(place.early, std::move(hello));
  if (!older) return;
  if (auto read = wire::decode_hello(older->data)) turn_away(*read, "its sender has said hello since");
}

void ucx_lane::admit(const ucx_peer& peer) {
  if (auto early = std::exchange(slot_of(peer).early, std::nullopt)) on_hello(*early);
}

void ucx_lane::on_hello_reply(const letter& from) {
  auto reply = wire::decode_hello_reply(from.data);
  if (!reply) return;
  auto peer = host_.find_peer(reply->named_instance);
  if (!peer) return;
  auto& place = slot_of(*peer);
  auto asking = place.asking.get();
  if (asking == nullptr || asking->generation() != reply->hello_generation)
    return on_late_reply(*peer, *reply);
  asking->heard();
  if (reply->refusal.empty()) {
    place.handshake.on_reply(reply->hello_generation, reply->generation);
    return welcome(place, *asking);
  }
  if (asking->status() != ucx_endpoint::state::connecting) return;
  auto fits = check_peer(host_.own_address().sender.who, reply->sender);
  if (fits) fits = core::error{core::errc::refused, peer->name() + " refused: " + reply->refusal};
  retire(*asking, fits.error());
}

/// The reply is for an end that was closed before it came. Its connection may go now, but the peer takes it
/// for a good one and has to be told.
void ucx_lane::on_late_reply(const ucx_peer& peer, const wire::hello_reply& reply) {
  auto corpse = std::find_if(corpses_.begin(), corpses_.end(), [&](auto& each) {
    return each->peer().get() == &peer && each->generation() == reply.hello_generation;
  });
  if (corpse == corpses_.end()) return;
  (*corpse)->heard();
  if (!reply.refusal.empty()) return;
  (*corpse)->say_late(letter_kind::bye, wire::encode(wire::bye{own_instance(), reply.hello_generation,
                                                               "it was given up while it was made"}));
}

void ucx_lane::on_bye(const letter& from) {
  auto bye = wire::decode_bye(from.data);
  if (!bye) return;
  auto peer = host_.find_peer(bye->sender_instance);
  if (!peer) return;
  auto& place = slot_of(*peer);
  auto closed = place.handshake.on_bye(bye->generation);
  if (!closed) return; // a bye of a connection that has been replaced comes late
  auto why = peer->name() + " closed the connection: " + bye->reason;
  retire(*closed == handshake_state::role::asking ? *place.asking : *place.answering,
         {core::errc::disconnected, why});
  lost_end(peer, why);
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
void ucx_lane::welcome(slot& place, ucx_endpoint& endpoint) {
  endpoint.become_ready(clock_.now());
  set_deadline(endpoint.next_deadline());
  if (lane_ != lane::control) return;
  auto peer = endpoint.peer();
  host_.hands_shaken(peer);
  for (auto& waiting : std::exchange(place.waiters, {})) waiting.on_done(peer->id);
}

void ucx_lane::turn_away(const wire::hello& hello, const std::string& refusal) {
  auto stranger = std::make_shared<ucx_peer>();
  stranger->id = peer_id{0};
  stranger->who = hello.sender.sender.who;
  auto made = make_endpoint(stranger, 0, hello.reply_to, nullptr);
  if (!made) return;
  auto& endpoint = **made;
  endpoint.heard();
  // Closing at once could overtake the refusal, so it is left to the other side for a while.
  couriers_.push_back({std::move(*made), clock_.now() + refusal_time});
  set_deadline(couriers_.back().until);
  wire::hello_reply reply;
  reply.sender = host_.own_address().sender;
  reply.named_instance = hello.target_instance;
  reply.hello_generation = hello.generation;
  reply.refusal = refusal;
  send_internal(endpoint, letter_kind::hello_reply, wire::encode(reply), false, no_deadline);
}

} // namespace dualpath::net
