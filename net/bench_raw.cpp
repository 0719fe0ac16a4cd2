#include "net/bench_raw.hpp"

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

} // namespace

core::result<std::unique_ptr<raw_pair>> raw_pair::open(const std::string& transports, std::uint64_t bytes) {
  std::unique_ptr<raw_pair> pair{new raw_pair};
  for (int side = 0; side < 2; ++side) {
    auto context = ucx_context::open(lane::kv, transports, {});
    if (!context) return context.error();
    pair->contexts_[side] = std::move(*context);
    auto worker = ucx_worker::open(lane::kv, pair->contexts_[side]->handle());
    if (!worker) return worker.error();
    pair->workers_[side] = std::move(*worker);
  }
  if (auto connected = pair->connect(bytes); !connected) return connected.error();
  return pair;
}

core::result<void> raw_pair::connect(std::uint64_t bytes) {
  bytes_ = bytes;
  for (int side = 0; side < 2; ++side) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = bytes;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    auto status = ucp_mem_map(contexts_[side]->handle(), &params, &memory_[side]);
    if (status != UCS_OK) return ucx_failure("allocating memory for the yardstick", status);
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    ucp_mem_query(memory_[side], &attributes);
    base_[side] = static_cast<std::byte*>(attributes.address);
    std::memset(base_[side], side, bytes);
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(workers_[1]->address().data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  if (auto status = ucp_ep_create(workers_[0]->handle(), &params, &endpoint_); status != UCS_OK) {
    endpoint_ = nullptr;
    return ucx_failure("connecting the yardstick", status);
  }
  void* packed = nullptr;
  std::size_t size = 0;
  ucp_rkey_pack(contexts_[1]->handle(), memory_[1], &packed, &size);
  auto status = ucp_ep_rkey_unpack(endpoint_, packed, &key_);
  ucp_rkey_buffer_release(packed);
  if (status != UCS_OK) return ucx_failure("unpacking the yardstick's key", status);
  target_ = std::thread{[this] {
    while (!stop_) ucp_worker_progress(workers_[1]->handle());
  }};
  return {};
}

core::result<double> raw_pair::run(const bench_row& row, std::uint64_t transfers, std::uint32_t in_flight) {
  progress_count ops, flushes;
  std::uint64_t started = 0;
  auto param = [](progress_count& count) {
    ucp_request_param_t out{};
    out.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    out.cb.send = on_done;
    out.user_data = &count;
    return out;
  };
  auto operation = param(ops), flush = param(flushes);
  operation.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  operation.memh = memory_[0];
  auto worker = workers_[0]->handle();
  auto begin = std::chrono::steady_clock::now();
  auto stride = 2 * row.piece_bytes;
  auto slots = std::max<std::uint64_t>(1, bytes_ / (stride * row.pieces));
  for (std::uint64_t i = 0; i < transfers; ++i) {
    for (std::uint32_t piece = 0; piece < row.pieces; ++piece) {
      auto offset = (i % slots * row.pieces + piece) * stride;
      auto remote = reinterpret_cast<std::uint64_t>(base_[1]) + offset;
      auto request =
          row.put ? ucp_put_nbx(endpoint_, base_[0] + offset, row.piece_bytes, remote, key_, &operation)
                  : ucp_get_nbx(endpoint_, base_[0] + offset, row.piece_bytes, remote, key_, &operation);
      if (UCS_PTR_IS_ERR(request)) return ucx_failure("the yardstick", UCS_PTR_STATUS(request));
      started += request != nullptr;
      while (started - ops.done >= std::uint64_t{in_flight} * row.pieces) ucp_worker_progress(worker);
    }
  }
  auto request = ucp_ep_flush_nbx(endpoint_, &flush);
  if (UCS_PTR_IS_ERR(request)) return ucx_failure("flushing the yardstick", UCS_PTR_STATUS(request));
  while (ops.done < started || (request != nullptr && flushes.done == 0)) ucp_worker_progress(worker);
  if (ops.status != UCS_OK) return ucx_failure("the yardstick", ops.status);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

raw_pair::~raw_pair() {
  if (endpoint_ != nullptr) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (key_ != nullptr) ucp_rkey_destroy(key_);
    auto request = ucp_ep_close_nbx(endpoint_, &param);
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
      ucp_worker_progress(workers_[0]->handle());
    }
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }
  stop_ = true;
  if (target_.joinable()) target_.join();
  for (int side = 0; side < 2; ++side) {
    workers_[side].reset();
    if (memory_[side] != nullptr) ucp_mem_unmap(contexts_[side]->handle(), memory_[side]);
  }
}

} // namespace dualpath::net
