#include "net/bench_raw.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace dualpath::net {
namespace {

struct progress_count {
  std::uint64_t done = 0;
  ucs_status_t status = UCS_OK;
};

void on_done(void* request, ucs_status_t status, void* count) {
  auto& to = *static_cast<progress_count*>(count);
  ++to.done;
  if (status != UCS_OK) to.status = status;
  ucp_request_free(request);
}

ucp_request_param_t counted_by(progress_count& count) {
  ucp_request_param_t out{};
  out.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  out.cb.send = on_done;
  out.user_data = &count;
  return out;
}

/// The segments over TCP that UCX itself is fastest with on loopback. The fabric has others, for its
/// messages.
ucx_settings best_settings(const std::string& transports) {
  if (transports.find("tcp") == std::string::npos) return {};
  return {{"TX_SEG_SIZE", "64k"}, {"RX_SEG_SIZE", "64k"}};
}

} // namespace

core::result<std::unique_ptr<raw_pair>> raw_pair::open(const std::string& transports, std::uint64_t bytes) {
  std::unique_ptr<raw_pair> pair{new raw_pair};
  pair->bytes_ = bytes;
  for (auto& each : pair->ends_) {
    auto context = ucx_context::open(lane::kv, transports, best_settings(transports));
    if (!context) return context.error();
    each.context = std::move(*context);
    auto worker = ucx_worker::open(lane::kv, each.context->handle());
    if (!worker) return worker.error();
    each.worker = std::move(*worker);
    if (auto allocated = pair->allocate(each, bytes); !allocated) return allocated.error();
  }
  for (std::size_t side = 0; side < pair->ends_.size(); ++side) {
    auto connected = pair->connect(pair->ends_[side], pair->ends_[1 - side]);
    if (!connected) return connected.error();
  }
  for (std::size_t side = 0; side < pair->ends_.size(); ++side)
    pair->ends_[side].thread = std::thread{[raw = pair.get(), side] { raw->serve(side); }};
  return pair;
}

core::result<void> raw_pair::allocate(end& on, std::uint64_t bytes) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = bytes;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  auto status = ucp_mem_map(on.context->handle(), &params, &on.memory);
  if (status != UCS_OK) {
    on.memory = nullptr;
    return ucx_failure("allocating memory for the yardstick", status);
  }
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  ucp_mem_query(on.memory, &attributes);
  on.base = static_cast<std::byte*>(attributes.address);
  std::memset(on.base, 0, bytes);
  return {};
}

core::result<void> raw_pair::connect(end& from, const end& to) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(to.worker->address().data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  if (auto status = ucp_ep_create(from.worker->handle(), &params, &from.endpoint); status != UCS_OK) {
    from.endpoint = nullptr;
    return ucx_failure("connecting the yardstick", status);
  }
  void* packed = nullptr;
  std::size_t size = 0;
  ucp_rkey_pack(to.context->handle(), to.memory, &packed, &size);
  auto status = ucp_ep_rkey_unpack(from.endpoint, packed, &from.key);
  ucp_rkey_buffer_release(packed);
  if (status != UCS_OK) {
    from.key = nullptr;
    return ucx_failure("unpacking the yardstick's key", status);
  }
  return {};
}

core::result<bench_run> raw_pair::run(const bench_row& row, std::uint64_t transfers,
                                      std::uint32_t in_flight) {
  work_ = {row, transfers, in_flight};
  for (auto& each : ends_) {
    each.status = UCS_OK;
    each.submitted = 0;
  }
  ends_short_ = row.both_ways ? 2 : 1;
  driving_ = spinning_ = 2;
  auto begin = std::chrono::steady_clock::now();
  ++run_;
  run_.notify_all();
  for (auto left = driving_.load(); left != 0; left = driving_.load()) driving_.wait(left);
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (auto left = spinning_.load(); left != 0; left = spinning_.load()) spinning_.wait(left);
  for (auto& each : ends_)
    if (each.status != UCS_OK) return ucx_failure("the yardstick", each.status);
  return bench_run{seconds, ends_[0].submitted + ends_[1].submitted};
}

/// One end's thread: its own transfers first, then progress for the sake of the other's.
void raw_pair::serve(std::size_t side) {
  auto& own = ends_[side];
  for (std::uint32_t seen = 0;;) {
    run_.wait(seen);
    if (stop_) return;
    seen = run_.load();
    if (side == 0 || work_.row.both_ways) own.status = drive(side);
    if (--driving_ == 0) driving_.notify_one();
    while (driving_ != 0) ucp_worker_progress(own.worker->handle());
    if (--spinning_ == 0) spinning_.notify_one();
  }
}

ucs_status_t raw_pair::drive(std::size_t side) {
  auto& from = ends_[side];
  auto& to = ends_[1 - side];
  auto& [row, transfers, in_flight] = work_;
  progress_count ops, flushes;
  std::uint64_t started = 0;
  auto operation = counted_by(ops), flush = counted_by(flushes);
  operation.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  operation.memh = from.memory;
  auto worker = from.worker->handle();
  auto goes_on = [&](std::uint64_t i) {
    return i < transfers
           || (i < bench_run::most_shares * transfers && ends_short_.load(std::memory_order_relaxed) != 0);
  };
  for (std::uint64_t i = 0; goes_on(i); ++i) {
    auto first = row.offset(side, i, bytes_);
    for (std::uint32_t piece = 0; piece < row.pieces; ++piece) {
      auto offset = first + piece * row.stride_bytes();
      auto remote = reinterpret_cast<std::uint64_t>(to.base) + offset;
      auto request =
          row.put
              ? ucp_put_nbx(from.endpoint, from.base + offset, row.piece_bytes, remote, from.key, &operation)
              : ucp_get_nbx(from.endpoint, from.base + offset, row.piece_bytes, remote, from.key, &operation);
      if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
      started += request != nullptr;
      while (started - ops.done >= std::uint64_t{in_flight} * row.pieces) ucp_worker_progress(worker);
    }
    from.submitted = i + 1;
    if (from.submitted == transfers) --ends_short_;
  }
  auto request = ucp_ep_flush_nbx(from.endpoint, &flush);
  if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
  while (ops.done < started || (request != nullptr && flushes.done == 0)) ucp_worker_progress(worker);
  return ops.status;
}

void raw_pair::close(end& one) {
  if (one.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  if (one.key != nullptr) ucp_rkey_destroy(one.key);
  auto request = ucp_ep_close_nbx(one.endpoint, &param);
  while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
    for (auto& each : ends_) ucp_worker_progress(each.worker->handle());
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

raw_pair::~raw_pair() {
  stop_ = true;
  ++run_;
  run_.notify_all();
  for (auto& each : ends_)
    if (each.thread.joinable()) each.thread.join();
  for (auto& each : ends_) close(each);
  for (auto& each : ends_) {
    each.worker.reset();
    if (each.memory != nullptr) ucp_mem_unmap(each.context->handle(), each.memory);
  }
}

} // namespace dualpath::net
