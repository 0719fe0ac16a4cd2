// Puts and gets by messages, for transports that have none of their own. The peer checks every request
// against the regions it has registered; an answer to a chunk that is no longer waiting is dropped, so
// nothing lands late.
#include "net/payload_access.hpp"
#include "net/ucx_endpoint_chunk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dualpath::net {
namespace {

/// Of a message: bounds its header, which must fit one packet of any transport.
constexpr std::size_t max_rows = 32;

} // namespace

bool ucx_endpoint::issue_messages(ucx_job& job) {
  while (!job.cursor.at_end() && !job.failure) {
    if (chunks_.size() >= limits_.window_chunks) return false;
    if (job.what == ucx_job::kind::put) {
      put_chunk(job);
    } else {
      ask_for_chunk(job);
    }
  }
  job.issued = true;
  return true;
}

/// Takes the next rows of the job, `row_limit` at most.
ucx_endpoint::chunk& ucx_endpoint::take_chunk(ucx_job& job, std::size_t row_limit,
                                              wire::copy_chunk& described) {
  auto owned = std::make_unique<chunk>();
  auto& part = *owned;
  part.job = &job;
  part.number = owner_.next_chunk();
  described = {part.number, job.remote->base, job.remote->size, {}};
  std::uint64_t total = 0;
  while (!job.cursor.at_end() && part.rows.size() < row_limit && total < limits_.chunk_bytes) {
    auto next = job.cursor.next(limits_.chunk_bytes - total);
    described.rows.push_back({next.remote_offset, next.bytes});
    part.rows.push_back(job.local->bytes().subspan(next.local_offset, next.bytes));
    total += next.bytes;
  }
  ++job.outstanding;
  ++outstanding_;
  chunks_.emplace(part.number, std::move(owned));
  return part;
}

void ucx_endpoint::put_chunk(ucx_job& job) {
  wire::copy_request request{owner_.own_instance(), peer_->who.instance, {{}}};
  auto& part = take_chunk(job, max_rows, request.chunks[0]);
  part.message = std::make_shared<carrier>(carrier{this, wire::encode(request), {}, {&part}});
  wire::view payload;
  if (part.rows.size() == 1) {
    payload = part.rows[0];
  } else {
    auto& staged = part.message->staged;
    payload_access here;
    staged.reserve(limits_.chunk_bytes);
    for (auto& row : part.rows) staged.insert(staged.end(), row.begin(), row.end());
    payload = staged;
  }
  send_carrier(part.message, letter_kind::put_data, payload);
}

void ucx_endpoint::ask_for_chunk(ucx_job& job) {
  std::size_t rows = 0;
  for (auto& each : requests_) rows += each.rows.size();
  if (rows >= max_rows) send_requests(), rows = 0;
  auto& part = take_chunk(job, max_rows - rows, requests_.emplace_back());
  if (!asking_) asking_ = std::make_shared<carrier>(carrier{this, {}, {}, {}});
  asking_->chunks.push_back(&part);
  part.message = asking_;
}

/// Requests are small: those that come together go together.
void ucx_endpoint::send_requests() {
  if (!asking_) return;
  auto message = std::exchange(asking_, nullptr);
  message->header = wire::encode(
      wire::copy_request{owner_.own_instance(), peer_->who.instance, std::exchange(requests_, {})});
  send_carrier(message, letter_kind::get_request, {});
}

void ucx_endpoint::send_carrier(std::shared_ptr<carrier> message, letter_kind kind, wire::view payload) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_carrier_sent;
  param.user_data = message.get();
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  auto& header = message->header;
  auto sent = ucp_am_send_nbx(ep_, static_cast<unsigned>(kind), header.data(), header.size(), payload.data(),
                              payload.size(), &param);
  if (UCS_PTR_IS_ERR(sent)) {
    break_down(UCS_PTR_STATUS(sent));
    // Their jobs may be in the caller's hands, so they end when the endpoint is closed.
    for (auto part : message->chunks) {
      failed(*part->job, UCS_PTR_STATUS(sent));
      --part->job->outstanding;
      --outstanding_;
      chunks_.erase(part->number);
    }
  } else if (sent == nullptr) {
    for (auto part : message->chunks) part->sent = true;
  }
}

void ucx_endpoint::on_carrier_sent(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  auto& message = *static_cast<carrier*>(user_data);
  auto& self = *message.endpoint;
  if (status != UCS_OK) self.break_down(status);
  auto chunks = std::move(message.chunks); // the message goes with the last of them
  for (auto part : chunks) {
    part->sent = true;
    if (status != UCS_OK) {
      self.failed(*part->job, status);
      part->answered = true;
    }
    self.settle_chunk(*part);
  }
}

ucx_endpoint::chunk* ucx_endpoint::find_chunk(std::uint64_t number) {
  auto found = chunks_.find(number);
  return found == chunks_.end() || found->second->answered ? nullptr : found->second.get();
}

void ucx_endpoint::put_done(const wire::copy_reply& reply) {
  for (auto number : reply.chunks) {
    auto part = find_chunk(number);
    if (part == nullptr || part->job->what != ucx_job::kind::put) continue;
    part->answered = true;
    if (!reply.refusal.empty() && !part->job->failure) {
      part->job->failure =
          core::error{core::errc::refused, peer_->name() + " refused a put: " + reply.refusal};
    }
    settle_chunk(*part);
  }
}

void ucx_endpoint::get_data(const wire::copy_reply& reply, wire::view bytes) {
  auto part = reply.chunks.size() == 1 ? find_chunk(reply.chunks[0]) : nullptr;
  if (part == nullptr || part->job->what != ucx_job::kind::get) return;
  part->answered = true;
  std::uint64_t wanted = 0;
  for (auto& row : part->rows) wanted += row.size();
  if (part->job->failure) {
    // Somebody else's failure ended the job: its memory is not touched any more.
  } else if (!reply.refusal.empty()) {
    part->job->failure = core::error{core::errc::refused, peer_->name() + " refused a get: " + reply.refusal};
  } else if (bytes.size() != wanted) {
    part->job->failure =
        core::error{core::errc::disconnected, peer_->name() + " sent " + std::to_string(bytes.size())
                                                  + " bytes for a get of " + std::to_string(wanted)};
  } else {
    payload_access here;
    for (auto& row : part->rows) {
      std::memcpy(row.data(), bytes.data(), row.size());
      bytes = bytes.subspan(row.size());
    }
  }
  settle_chunk(*part);
}

/// Ends the chunk once UCX has let go of its bytes and the peer has answered.
void ucx_endpoint::settle_chunk(chunk& part) {
  if (!part.sent || !part.answered) return;
  auto& job = *part.job;
  chunks_.erase(part.number);
  --outstanding_;
  --job.outstanding;
  settle(job);
  if (!queue_.empty() && state_ == state::ready) owner_.wants_pump(*this);
}

} // namespace dualpath::net
