#include "net/payload_access.hpp"
#include "net/stream_copy.hpp"
#include "net/ucx_endpoint_chunk.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
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

/// The next bytes of a transfer whose other side is mapped here.
copy_part next_copy(ucx_job& job, std::byte* remote, std::uint64_t most = ~std::uint64_t{0}) {
  auto next = job.cursor.next(most);
  auto near = job.local->bytes().data() + next.local_offset, far = remote + next.remote_offset;
  return job.what == ucx_job::kind::put ? copy_part{far, near, next.bytes} : copy_part{near, far, next.bytes};
}

} // namespace

/// One flush and the jobs it makes visible to the peer.
struct ucx_endpoint::flush {
  ucx_endpoint* endpoint;
  std::vector<ucx_job*> jobs;
};

ucx_endpoint::ucx_endpoint(ucx_endpoint_owner& owner, const ucx_endpoint_limits& limits, lane which,
                           std::shared_ptr<ucx_peer> peer, std::uint64_t generation)
    : owner_{owner}, limits_{limits}, lane_{which}, peer_{std::move(peer)}, generation_{generation} {}

ucx_endpoint::~ucx_endpoint() { let_go_of_worker(); }

std::shared_ptr<ucx_worker> ucx_endpoint::let_go_of_worker() {
  for (auto& [region, access] : access_) {
    if (access.key != nullptr) ucp_rkey_destroy(access.key);
  }
  access_.clear();
  last_access_ = {};
  return std::move(worker_);
}

core::result<void> ucx_endpoint::open(ucp_worker_h worker, std::shared_ptr<ucx_worker> kept,
                                      const wire::bytes& address, core::instant now) {
  worker_ = std::move(kept);
  opened_at_ = now;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                      | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = this;
  if (auto status = ucp_ep_create(worker, &params, &ep_); status != UCS_OK) {
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
    if (!std::exchange(watches_wire_up_, true)) watch_wire_up();
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

std::vector<std::unique_ptr<ucx_job>> ucx_endpoint::take_waiting() {
  std::vector<std::unique_ptr<ucx_job>> taken;
  std::erase_if(queue_, [&](ucx_job* job) {
    if (job->started || job->failure) return false;
    --unreported_;
    auto slot = job->slot;
    taken.push_back(std::move(jobs_[slot]));
    if (slot + 1 != jobs_.size()) {
      jobs_[slot] = std::move(jobs_.back());
      jobs_[slot]->slot = slot;
    }
    jobs_.pop_back();
    return true;
  });
  return taken;
}

void ucx_endpoint::become_ready(core::instant now) {
  if (state_ != state::connecting) return;
  state_ = state::ready;
  if (lane_ == lane::control && network_has_puts()) alive_at_ = now + limits_.alive_interval;
  if (!queue_.empty()) owner_.wants_pump(*this);
}

bool ucx_endpoint::wants_alive(core::instant now) {
  if (state_ != state::ready || now < alive_at_) return false;
  alive_at_ = now + limits_.alive_interval;
  return jobs_.empty() && wired_up(); // what is in flight tells as well
}

bool ucx_endpoint::pump() {
  if (state_ == state::closing || break_status_ != UCS_OK) return false;
  std::uint64_t issued_bytes = 0, unsettled_bytes = 0;
  while (state_ == state::ready && !queue_.empty() && issued_bytes < limits_.pump_bytes) {
    auto& job = *queue_.front();
    if (!job.started) issued_bytes += std::min(job.bytes, limits_.pump_bytes);
    job.started = true;
    if (!issue(job)) break;
    queue_.pop_front();
    if (job.needs_flush && !job.flushed && !job.failure) unflushed_.push_back(&job);
    issued_.push_back(&job);
    unsettled_bytes += job.bytes;
    if (unsettled_bytes >= limits_.settle_bytes) {
      settle_issued();
      unsettled_bytes = 0;
    }
  }
  settle_issued();
  send_requests();
  if (!unflushed_.empty() && flushes_ < max_flushes) start_flush();
  return break_status_ == UCS_OK && state_ == state::ready && !queue_.empty()
         && outstanding_ < limits_.window_operations;
}

void ucx_endpoint::settle_issued() {
  for (auto job : issued_) settle(*job);
  issued_.clear();
}

/// True once nothing of the job is left to issue, or it has failed.
bool ucx_endpoint::issue(ucx_job& job) {
  if (job.what == ucx_job::kind::send) {
    issue_send(job);
    return true;
  }
  auto& access = access_of(job);
  if (access.how != reach::native) {
    job.flushed = true; // by other means
    if (!job.local->host_accessible()) {
      job.failure =
          core::error{core::errc::unsupported, "GPU memory cannot be moved to " + peer_->name() + " on lane "
                                                   + to_string(lane_) + ": it takes an RDMA network"};
      return true;
    }
  }
  switch (access.how) {
  case reach::mapped:
    return issue_mapped(job, access.mapped);
  case reach::native:
    return issue_native(job, access.key);
  case reach::messages:
    return issue_messages(job);
  }
  return true;
}

bool ucx_endpoint::issue_mapped(ucx_job& job, std::byte* remote) {
  if (job.bytes >= streamed_bytes) {
    copy_past_caches(job, remote);
  } else {
    payload_access here;
    while (!job.cursor.at_end()) {
      auto next = next_copy(job, remote);
      std::memcpy(next.to, next.from, next.bytes);
    }
  }
  // Whoever is told that the job is done sees its bytes. A full fence would wait for them to reach memory.
  std::atomic_thread_fence(std::memory_order_release);
  job.issued = true;
  return true;
}

void ucx_endpoint::copy_past_caches(ucx_job& job, std::byte* remote) {
  std::vector<copy_part> parts;
  while (!job.cursor.at_end()) parts.push_back(next_copy(job, remote, copy_crew::share_bytes));
  owner_.crew().copy(parts);
}

bool ucx_endpoint::issue_native(ucx_job& job, ucp_rkey_h key) {
  auto param = callback_param(on_operation, &job);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  param.memh = job.local_handle;
  auto base = job.local->bytes().data();
  network_writes_ = true;
  while (!job.cursor.at_end() && !job.failure) {
    if (outstanding_ >= limits_.window_operations) return false;
    auto next = job.cursor.next();
    auto remote = job.remote->base + next.remote_offset;
    started(job, job.what == ucx_job::kind::put
                     ? ucp_put_nbx(ep_, base + next.local_offset, next.bytes, remote, key, &param)
                     : ucp_get_nbx(ep_, base + next.local_offset, next.bytes, remote, key, &param));
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
  auto payload = job.borrowed.empty() ? wire::view{job.payload} : job.borrowed;
  started(job, ucp_am_send_nbx(ep_, job.message_id, job.header.data(), job.header.size(), payload.data(),
                               payload.size(), &param));
}

const ucx_endpoint::remote_access& ucx_endpoint::access_of(const ucx_job& job) {
  if (last_access_.first == job.remote) return *last_access_.second;
  auto found = access_.find(job.remote);
  if (found == access_.end()) found = access_.emplace(job.remote, reach_for(job)).first;
  last_access_ = {job.remote, &found->second};
  return found->second;
}

ucx_endpoint::remote_access ucx_endpoint::reach_for(const ucx_job& job) {
  remote_access access{reach::messages, nullptr, nullptr};
  auto& packed = job.remote->keys[static_cast<std::size_t>(lane_)];
  if (ucp_ep_rkey_unpack(ep_, packed.data(), &access.key) == UCS_OK) {
    void* mapped = nullptr;
    if (ucp_rkey_ptr(access.key, job.remote->base, &mapped) == UCS_OK) {
      access.how = reach::mapped;
      access.mapped = static_cast<std::byte*>(mapped);
    } else if (network_has_puts()) {
      access.how = reach::native;
    }
  } else {
    access.key = nullptr;
  }
  return access;
}

/// Whether the network itself does puts and gets. UCX 1.13 tells which transports an endpoint uses only in
/// print.
bool ucx_endpoint::network_has_puts() {
  if (network_has_puts_ < 0) {
    char* text = nullptr;
    std::size_t size = 0;
    auto stream = open_memstream(&text, &size);
    if (stream == nullptr) return false;
    ucp_ep_print_info(ep_, stream);
    std::fclose(stream);
    std::string_view info{text, size};
    network_has_puts_ = info.find(":rc_") != info.npos || info.find(":dc_") != info.npos;
    std::free(text);
  }
  return network_has_puts_ != 0;
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

/// A flush ends after what UCX itself had to send to wire up.
void ucx_endpoint::watch_wire_up() {
  auto param = callback_param(on_wired_up, this);
  auto request = ucp_ep_flush_nbx(ep_, &param);
  if (UCS_PTR_IS_ERR(request)) {
    break_down(UCS_PTR_STATUS(request));
  } else if (request != nullptr) {
    ++wire_up_flushes_;
  }
}

void ucx_endpoint::on_wired_up(void* request, ucs_status_t status, void* endpoint) {
  ucp_request_free(request);
  auto& self = *static_cast<ucx_endpoint*>(endpoint);
  --self.wire_up_flushes_;
  if (status != UCS_OK) self.break_down(status);
}

bool ucx_endpoint::wired_up() const {
  return ep_ == nullptr || break_status_ != UCS_OK || (heard_ && wire_up_flushes_ == 0);
}

void ucx_endpoint::say_late(letter_kind kind, wire::bytes data) {
  if (!lingers_ || break_status_ != UCS_OK || !late_message_.empty()) return;
  late_message_ = std::move(data);
  auto param = callback_param(on_wired_up, this);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  auto request = ucp_am_send_nbx(ep_, static_cast<unsigned>(kind), nullptr, 0, late_message_.data(),
                                 late_message_.size(), &param);
  if (UCS_PTR_IS_ERR(request)) return break_down(UCS_PTR_STATUS(request));
  if (request != nullptr) ++wire_up_flushes_;
  watch_wire_up();
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
  if (break_status_ != UCS_OK) return;
  break_status_ = status;
  if (state_ != state::closing) owner_.broke(*this);
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
  queue_.clear();
  unflushed_.clear();
  for (auto& job : jobs_) {
    if (!job->failure) job->failure = why;
  }
  // Answers that come now find no chunk waiting and touch nothing.
  for (auto& [number, waiting] : chunks_) waiting->answered = true;
  lingers_ = !wired_up();
  if (lingers_) {
    fence_until_ = now + limits_.wire_up_patience;
  } else {
    cut(now);
  }
  std::vector<chunk*> sent; // the others end when UCX lets go of their bytes
  for (auto& [number, waiting] : chunks_) {
    if (waiting->sent) sent.push_back(waiting.get());
  }
  for (auto waiting : sent) settle_chunk(*waiting);
  settle_all();
}

void ucx_endpoint::cut(core::instant now) {
  lingers_ = false;
  fence_until_ = now + (network_writes_ ? limits_.network_grace : limits_.fence_grace);
  if (ep_ == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  auto request = ucp_ep_close_nbx(ep_, &param);
  if (UCS_PTR_IS_PTR(request)) close_request_ = request;
  ep_ = nullptr;
}

void ucx_endpoint::settle_all() {
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
    if (job->started || (state_ == state::connecting && now > opened_at_ + limits_.patience)) fence = true;
    if (!job->started) ended.push_back(job.get());
  }
  for (auto job : ended) settle(*job);
  return fence;
}

core::instant ucx_endpoint::next_deadline() const {
  if (state_ == state::closing) {
    if (stuck()) return no_deadline; // UCX raises an event when that ends
    if (lingers_ || unreported_ != 0 || close_request_ != nullptr) return fence_until_;
    return owns_worker() ? opened_at_ : no_deadline; // its worker may have gone quiet by now
  }
  auto next = leaving ? no_deadline : alive_at_;
  for (auto& job : jobs_) next = std::min(next, job->deadline);
  return next;
}

void ucx_endpoint::give_up() {
  if (unreported_ == 0) return;
  for (auto& job : jobs_) {
    if (std::exchange(job->reported, true)) continue;
    --unreported_;
    owner_.report(*job, *job->failure);
    job->on_done = nullptr;
  }
}

bool ucx_endpoint::reap(core::instant now) {
  if (state_ != state::closing) return false;
  if (lingers_ && (wired_up() || (now >= fence_until_ && !stuck()))) cut(now);
  if (lingers_) return false;
  if (close_request_ != nullptr && ucp_request_check_status(close_request_) != UCS_INPROGRESS) {
    ucp_request_free(std::exchange(close_request_, nullptr));
  }
  if (now >= fence_until_) give_up();
  if (owns_worker() && !worker_->flush(now, limits_.fence_grace)) return false;
  return jobs_.empty() && outstanding_ == 0 && wire_up_flushes_ == 0 && close_request_ == nullptr;
}

} // namespace dualpath::net
