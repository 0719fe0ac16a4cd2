#include "net/ucx_endpoint.hpp"

#include "net/ucx_context.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::net {
namespace {

constexpr std::uint32_t max_flushes = 8;

ucp_request_param_t callback_param(ucp_send_nbx_callback_t callback, void* user_data) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = callback;
  param.user_data = user_data;
  return param;
}

} // namespace

/// One flush and the jobs it makes visible to the peer.
struct ucx_endpoint::flush {
  ucx_endpoint* endpoint;
  std::vector<ucx_job*> jobs;
};

ucx_endpoint::ucx_endpoint(ucx_endpoint_owner& owner, ucp_worker_h worker, const ucx_endpoint_limits& limits,
                           lane which, std::shared_ptr<ucx_peer> peer, std::uint64_t generation)
    : owner_{owner},
      worker_{worker},
      limits_{limits},
      lane_{which},
      peer_{std::move(peer)},
      generation_{generation} {}

ucx_endpoint::~ucx_endpoint() {
  for (auto& [region, key] : keys_) ucp_rkey_destroy(key.first);
}

core::result<void> ucx_endpoint::open(const wire::bytes& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                      | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = this;
  if (auto status = ucp_ep_create(worker_, &params, &ep_); status != UCS_OK) {
    ep_ = nullptr;
    break_status_ = status;
    return ucx_failure(std::string{"no connection to "} + peer_->name() + " on lane " + to_string(lane_),
                       status);
  }
  return {};
}

void ucx_endpoint::add(std::unique_ptr<ucx_job> job) {
  auto& added = *job;
  added.endpoint = this;
  added.slot = jobs_.size();
  jobs_.push_back(std::move(job));
  ++unreported_;
  if (added.internal) {
    added.started = true;
    issue_send(added);
    if (added.needs_flush && !added.failure) {
      unflushed_.push_back(&added);
      owner_.wants_pump(*this);
    }
    settle(added);
    return;
  }
  queue_.push_back(&added);
  if (state_ == state::ready) owner_.wants_pump(*this);
}

void ucx_endpoint::become_ready() {
  if (state_ != state::connecting) return;
  state_ = state::ready;
  if (!queue_.empty()) owner_.wants_pump(*this);
}

bool ucx_endpoint::pump() {
  if (state_ == state::closing || break_status_ != UCS_OK) return false;
  std::uint64_t issued_bytes = 0;
  while (state_ == state::ready && !queue_.empty() && issued_bytes < limits_.pump_bytes) {
    auto& job = *queue_.front();
    if (!job.started) issued_bytes += std::min(job.bytes, limits_.pump_bytes);
    job.started = true;
    if (!issue(job)) break;
    queue_.pop_front();
    if (job.needs_flush && !job.failure) unflushed_.push_back(&job);
    settle(job);
  }
  if (!unflushed_.empty() && flushes_ < max_flushes) start_flush();
  return break_status_ == UCS_OK && state_ == state::ready && !queue_.empty()
         && outstanding_ < limits_.window_operations;
}

/// True once nothing of the job is left to issue, or it has failed.
bool ucx_endpoint::issue(ucx_job& job) {
  if (job.what == ucx_job::kind::send) {
    issue_send(job);
    return true;
  }
  auto key = key_of(job);
  if (!key) {
    job.failure = key.error();
    return true;
  }
  auto param = callback_param(on_operation, &job);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  param.memh = job.local_handle;
  auto base = job.local->bytes().data();
  while (!job.cursor.at_end() && !job.failure) {
    if (outstanding_ >= limits_.window_operations) return false;
    auto next = job.cursor.next();
    auto remote = job.remote->base + next.remote_offset;
    started(job, job.what == ucx_job::kind::put
                     ? ucp_put_nbx(ep_, base + next.local_offset, next.bytes, remote, *key, &param)
                     : ucp_get_nbx(ep_, base + next.local_offset, next.bytes, remote, *key, &param));
  }
  job.issued = true;
  return true;
}

void ucx_endpoint::issue_send(ucx_job& job) {
  auto param = callback_param(on_operation, &job);
  // Eager only: a rendezvous with a peer that dies may never complete.
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  job.issued = true;
  started(job, ucp_am_send_nbx(ep_, job.message_id, job.header.data(), job.header.size(), job.payload.data(),
                               job.payload.size(), &param));
}

core::result<ucp_rkey_h> ucx_endpoint::key_of(const ucx_job& job) {
  auto found = keys_.find(job.remote.get());
  if (found != keys_.end()) return found->second.first;
  auto& packed = job.remote->keys[static_cast<std::size_t>(lane_)];
  ucp_rkey_h key = nullptr;
  if (auto status = ucp_ep_rkey_unpack(ep_, packed.data(), &key); status != UCS_OK) {
    return ucx_failure("cannot reach the memory of " + peer_->name() + " on lane " + to_string(lane_),
                       status);
  }
  keys_.emplace(job.remote.get(), std::pair{key, job.remote});
  return key;
}

void ucx_endpoint::start_flush() {
  auto record = std::make_unique<flush>(flush{this, std::exchange(unflushed_, {})});
  auto param = callback_param(on_flushed, record.get());
  auto request = ucp_ep_flush_nbx(ep_, &param);
  if (UCS_PTR_IS_ERR(request)) {
    auto status = UCS_PTR_STATUS(request);
    for (auto job : record->jobs) failed(*job, status);
    for (auto job : record->jobs) settle(*job);
    break_down(status);
    return;
  }
  if (request == nullptr) {
    for (auto job : record->jobs) {
      job->flushed = true;
      settle(*job);
    }
    return;
  }
  for (auto job : record->jobs) ++job->outstanding;
  ++outstanding_;
  ++flushes_;
  record.release();
}

void ucx_endpoint::started(ucx_job& job, ucs_status_ptr_t request) {
  if (UCS_PTR_IS_ERR(request)) {
    failed(job, UCS_PTR_STATUS(request));
    break_down(UCS_PTR_STATUS(request));
  } else if (request != nullptr) {
    ++job.outstanding;
    ++outstanding_;
  }
}

void ucx_endpoint::failed(ucx_job& job, ucs_status_t status) {
  if (job.failure) return;
  job.failure = ucx_failure(
      std::string{job.verb()} + " with " + peer_->name() + " on lane " + to_string(lane_), status);
}

void ucx_endpoint::break_down(ucs_status_t status) {
  if (break_status_ != UCS_OK || state_ == state::closing) return;
  break_status_ = status;
  owner_.broke(*this);
}

void ucx_endpoint::on_operation(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  auto& job = *static_cast<ucx_job*>(user_data);
  auto& self = *job.endpoint;
  --job.outstanding;
  --self.outstanding_;
  if (status != UCS_OK) {
    self.failed(job, status);
    self.break_down(status);
  }
  self.settle(job);
  if (!self.queue_.empty() && self.state_ == state::ready) self.owner_.wants_pump(self);
}

void ucx_endpoint::on_flushed(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  std::unique_ptr<flush> record{static_cast<flush*>(user_data)};
  auto& self = *record->endpoint;
  --self.outstanding_;
  --self.flushes_;
  for (auto job : record->jobs) {
    --job->outstanding;
    if (status == UCS_OK) {
      job->flushed = true;
    } else {
      self.failed(*job, status);
    }
    self.settle(*job);
  }
  if (status != UCS_OK) self.break_down(status);
  if (self.state_ == state::ready && (!self.unflushed_.empty() || !self.queue_.empty()))
    self.owner_.wants_pump(self);
}

void ucx_endpoint::on_error(void* endpoint, ucp_ep_h, ucs_status_t status) {
  static_cast<ucx_endpoint*>(endpoint)->break_down(status == UCS_OK ? UCS_ERR_CONNECTION_RESET : status);
}

/// Ends the job if nothing more can happen to it.
void ucx_endpoint::settle(ucx_job& job) {
  if (job.outstanding != 0) return;
  if (job.failure) {
    // A failed job that was not wholly issued is still queued; it may also wait for a flush.
    if (!job.reported) {
      drop_queued(job);
      job.reported = true;
      --unreported_;
      owner_.report(job, *job.failure);
    }
  } else if (job.issued && (!job.needs_flush || job.flushed)) {
    job.reported = true;
    --unreported_;
    owner_.report(job, {});
  } else {
    return;
  }
  remove(job);
}

void ucx_endpoint::drop_queued(const ucx_job& job) {
  if (!job.issued) std::erase(queue_, &job);
  if (job.needs_flush && !job.flushed) std::erase(unflushed_, &job);
}

void ucx_endpoint::remove(ucx_job& job) {
  auto slot = job.slot;
  if (slot + 1 != jobs_.size()) {
    std::swap(jobs_[slot], jobs_.back());
    jobs_[slot]->slot = slot;
  }
  jobs_.pop_back();
}

void ucx_endpoint::close(const core::error& why, core::instant now) {
  if (state_ == state::closing) return;
  state_ = state::closing;
  fence_until_ = now + limits_.fence_grace;
  queue_.clear();
  unflushed_.clear();
  for (auto& job : jobs_) {
    if (!job->failure) job->failure = why;
  }
  if (ep_ != nullptr) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    auto request = ucp_ep_close_nbx(ep_, &param);
    if (UCS_PTR_IS_PTR(request)) close_request_ = request;
  }
  for (auto i = jobs_.size(); i-- > 0;) {
    if (i < jobs_.size()) settle(*jobs_[i]);
  }
}

bool ucx_endpoint::expire(core::instant now) {
  if (state_ == state::closing) return false;
  bool fence = false;
  std::vector<ucx_job*> ended;
  for (auto& job : jobs_) {
    if (job->deadline > now || job->failure) continue;
    job->failure = core::error{core::errc::timed_out,
                               std::string{job->verb()} + " of " + std::to_string(job->bytes) + " bytes with "
                                   + peer_->name() + " on lane " + to_string(lane_) + " passed its deadline"};
    if (job->started || state_ == state::connecting) fence = true;
    if (!job->started) ended.push_back(job.get());
  }
  for (auto job : ended) settle(*job);
  return fence;
}

core::instant ucx_endpoint::next_deadline() const {
  if (state_ == state::closing)
    return unreported_ != 0 || close_request_ != nullptr ? fence_until_ : no_deadline;
  auto next = no_deadline;
  for (auto& job : jobs_) next = std::min(next, job->deadline);
  for (auto& waiting : waiters) next = std::min(next, waiting.deadline);
  return next;
}

bool ucx_endpoint::reap(core::instant now) {
  if (state_ != state::closing) return false;
  if (close_request_ != nullptr && ucp_request_check_status(close_request_) != UCS_INPROGRESS) {
    ucp_request_free(std::exchange(close_request_, nullptr));
  }
  if (unreported_ != 0 && now >= fence_until_) {
    // UCX has closed the endpoint and will not complete these; they stay here in case it still does.
    for (auto& job : jobs_) {
      if (std::exchange(job->reported, true)) continue;
      --unreported_;
      owner_.report(*job, *job->failure);
    }
  }
  return jobs_.empty() && outstanding_ == 0 && close_request_ == nullptr;
}

} // namespace dualpath::net
