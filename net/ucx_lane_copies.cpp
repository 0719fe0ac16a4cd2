// The target's side of puts and gets by messages. Bytes of a put are copied inside the receive callback,
// straight from the transport's buffer; answers are sent outside it.
#include "net/payload_access.hpp"
#include "net/ucx_lane.hpp"

#include <cstring>
#include <utility>

namespace dualpath::net {
namespace {

constexpr std::uint64_t max_chunk_bytes = 16ULL << 20;

constexpr std::size_t max_done_chunks = 64; ///< in one answer: its header must fit one packet

/// The bytes the rows take together, or nothing if one of them leaves the region.
std::optional<std::uint64_t> checked_total(const wire::copy_chunk& chunk) {
  std::uint64_t total = 0;
  for (auto& row : chunk.rows) {
    if (row.offset > chunk.size || row.bytes > chunk.size - row.offset) return std::nullopt;
    total += row.bytes;
    if (total > max_chunk_bytes) return std::nullopt;
  }
  return total;
}

} // namespace

/// The request, if its sender may ask for anything.
std::optional<ucx_lane::copy_question> ucx_lane::read_question(wire::view header) const {
  auto request = wire::decode_copy_request(header);
  if (!request || request->target_instance != own_instance()) return std::nullopt;
  auto peer = host_.find_peer(request->sender_instance);
  if (!peer || !peer->up) return std::nullopt;
  return copy_question{std::move(peer), std::move(request->chunks)};
}

/// The answer to a chunk; its refusal, if any, is set.
ucx_lane::copy_answer ucx_lane::check_chunk(std::shared_ptr<ucx_peer> peer, wire::copy_chunk chunk) const {
  copy_answer answer{std::move(chunk), std::move(peer), {}, nullptr, false, 0};
  auto total = checked_total(answer.chunk);
  answer.memory = host_.find_memory(answer.chunk.base, answer.chunk.size);
  if (!total) {
    answer.refusal = "its rows leave the region";
  } else if (!answer.memory) {
    answer.refusal = "the memory is not registered any more";
  } else if (!answer.memory->host_accessible()) {
    answer.refusal = "GPU memory is reached over an RDMA network only";
  } else {
    answer.total = *total;
  }
  return answer;
}

void ucx_lane::on_put_data(wire::view header, wire::view bytes) {
  auto question = read_question(header);
  if (!question || question->chunks.size() != 1) return;
  auto answer = check_chunk(std::move(question->peer), std::move(question->chunks[0]));
  if (answer.refusal.empty() && answer.total != bytes.size())
    answer.refusal = "its payload and rows differ in size";
  if (answer.refusal.empty()) {
    payload_access here;
    for (auto& row : answer.chunk.rows) {
      std::memcpy(answer.memory->bytes().data() + row.offset, bytes.data(), row.bytes);
      bytes = bytes.subspan(row.bytes);
    }
  }
  answer.memory.reset();
  answers_.push_back(std::move(answer));
}

void ucx_lane::on_get_request(wire::view header) {
  auto question = read_question(header);
  if (!question) return;
  for (auto& chunk : question->chunks) {
    auto& answer = answers_.emplace_back(check_chunk(question->peer, std::move(chunk)));
    answer.get = true;
  }
}

void ucx_lane::on_copy_reply(letter_kind kind, wire::view header, wire::view bytes) {
  auto reply = wire::decode_copy_reply(header);
  if (!reply || reply->target_instance != own_instance()) return;
  auto peer = host_.find_peer(reply->sender_instance);
  if (!peer) return;
  auto& place = slot_of(*peer);
  for (auto end : {place.asking.get(), place.answering.get()}) {
    if (end == nullptr) continue;
    if (kind == letter_kind::put_done) {
      end->put_done(*reply);
    } else {
      end->get_data(*reply, bytes);
    }
  }
}

bool ucx_lane::send_answers() {
  if (answers_.empty()) return false;
  // Puts that are done are told together, as many as come one after another from the same peer.
  std::vector<std::uint64_t> done;
  auto answers = std::exchange(answers_, {});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto& answer = answers[i];
    if (answer.get || !answer.refusal.empty()) {
      send_answer(answer, {answer.chunk.number});
      continue;
    }
    done.push_back(answer.chunk.number);
    bool last = i + 1 == answers.size() || answers[i + 1].get || !answers[i + 1].refusal.empty()
                || answers[i + 1].peer != answer.peer;
    if (last || done.size() == max_done_chunks) send_answer(answer, std::exchange(done, {}));
  }
  return true;
}

void ucx_lane::send_answer(copy_answer& answer, std::vector<std::uint64_t> chunks) {
  if (stopping_ || !answer.peer->up) return;
  auto& place = slot_of(*answer.peer);
  if (place.handshake.empty()) {
    // We closed ours; opening it anew tells the peer to do the same, rather than to wait for its deadline.
    (void)ask(answer.peer);
    return;
  }
  // An answer has no order to keep, but its connection must be one that the peer has taken.
  auto endpoint = place.answering ? place.answering.get() : place.asking.get();
  auto job = std::make_unique<ucx_job>();
  job->what = ucx_job::kind::send;
  job->internal = true;
  job->peer = answer.peer.get();
  job->message_id = static_cast<unsigned>(answer.get ? letter_kind::get_data : letter_kind::put_done);
  job->header = wire::encode(
      wire::copy_reply{own_instance(), answer.peer->who.instance, std::move(chunks), answer.refusal});
  auto& rows = answer.chunk.rows;
  if (answer.get && answer.refusal.empty()) {
    auto memory = answer.memory->bytes();
    if (rows.size() == 1) {
      job->borrowed = memory.subspan(rows[0].offset, rows[0].bytes);
      job->lender = answer.memory;
    } else {
      payload_access here;
      job->payload.reserve(answer.total);
      for (auto& row : rows) {
        auto from = memory.subspan(row.offset, row.bytes);
        job->payload.insert(job->payload.end(), from.begin(), from.end());
      }
    }
  }
  job->bytes = answer.total;
  endpoint->add(std::move(job));
}

} // namespace dualpath::net
