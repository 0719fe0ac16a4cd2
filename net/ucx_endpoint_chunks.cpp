// Puts and gets by messages, for transports that have none of their own. The peer checks every request
// against the regions it has registered; an answer to a chunk that is no longer waiting is dropped, so
// nothing lands late.
#include "net/ucx_endpoint_chunk.hpp"

#include <algorithm>
#include <cstring>

namespace dualpath::net {
namespace {

/// Bounds the header, which must fit one packet of any transport.
constexpr std::size_t max_rows = 32;

} // namespace

bool ucx_endpoint::issue_messages(ucx_job& job) {
  while (!job.cursor.at_end() && !job.failure) {
    if (chunks_.size() >= limits_.window_chunks) return false;
    send_chunk(job);
  }
  job.issued = true;
  return true;
}

void ucx_endpoint::send_chunk(ucx_job& job) {
  auto owned = std::make_unique<chunk>();
  auto& part = *owned;
  part.endpoint = this;
  part.job = &job;
  part.number = owner_.next_chunk();
  wire::copy_request request{owner_.own_instance(), peer_->who.instance, part.number,
                             job.remote->base,      job.remote->size,    {}};
  std::uint64_t total = 0;
  while (!job.cursor.at_end() && request.rows.size() < max_rows && total < limits_.chunk_bytes) {
    auto next = job.cursor.next(limits_.chunk_bytes - total);
    request.rows.push_back({next.remote_offset, next.bytes});
    part.rows.push_back(job.local->bytes().subspan(next.local_offset, next.bytes));
    total += next.bytes;
  }
  part.header = wire::encode(request);

  wire::view payload;
  bool put = job.what == ucx_job::kind::put;
  if (put && part.rows.size() == 1) {
    payload = part.rows[0];
  } else if (put) {
    part.staged.reserve(total);
    for (auto& row : part.rows) part.staged.insert(part.staged.end(), row.begin(), row.end());
    payload = part.staged;
  }
  ++job.outstanding;
  ++outstanding_;
  chunks_.emplace(part.number, std::move(owned));

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_chunk_sent;
  param.user_data = &part;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  auto id = static_cast<unsigned>(put ? letter_kind::put_data : letter_kind::get_request);
  auto sent = ucp_am_send_nbx(ep_, id, part.header.data(), part.header.size(), payload.data(), payload.size(),
                              &param);
  if (UCS_PTR_IS_ERR(sent)) {
    failed(job, UCS_PTR_STATUS(sent));
    break_down(UCS_PTR_STATUS(sent));
    // The caller settles the job, which it still holds.
    --job.outstanding;
    --outstanding_;
    chunks_.erase(part.number);
  } else if (sent == nullptr) {
    part.sent = true;
  }
}

void ucx_endpoint::on_chunk_sent(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  auto& part = *static_cast<chunk*>(user_data);
  auto& self = *part.endpoint;
  part.sent = true;
  if (status != UCS_OK) {
    self.failed(*part.job, status);
    self.break_down(status);
    part.answered = true;
  }
  self.settle_chunk(part);
}

ucx_endpoint::chunk* ucx_endpoint::find_chunk(std::uint64_t number) {
  auto found = chunks_.find(number);
  return found == chunks_.end() || found->second->answered ? nullptr : found->second.get();
}

void ucx_endpoint::put_done(const wire::copy_reply& reply) {
  auto part = find_chunk(reply.chunk);
  if (part == nullptr || part->job->what != ucx_job::kind::put) return;
  part->answered = true;
  if (!reply.refusal.empty() && !part->job->failure) {
    part->job->failure = core::error{core::errc::refused, peer_->name() + " refused a put: " + reply.refusal};
  }
  settle_chunk(*part);
}

void ucx_endpoint::get_data(const wire::copy_reply& reply, wire::view bytes) {
  auto part = find_chunk(reply.chunk);
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
