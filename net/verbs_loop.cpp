#include "net/verbs_loop.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace dualpath::net {
namespace {

/// The address whose packets carry a traffic class, where there is one.
int gid_index_of(const std::string& device, std::uint8_t port, const ibv_port_attr& attributes) {
  auto folder = "/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/types/";
  int found = 0;
  for (int i = 0; i < attributes.gid_tbl_len; ++i) {
    std::ifstream file{folder + std::to_string(i)};
    std::string type;
    if (std::getline(file, type) && type == "RoCE v2") found = i;
  }
  return found;
}

} // namespace

core::error verbs_loop::refused(const std::string& what, int code) const {
  return {core::errc::io, "RDMA device " + name_ + " cannot " + what + ": " + std::strerror(code)};
}

core::result<std::unique_ptr<verbs_loop>> verbs_loop::open(const verbs_copy_options& options) {
  std::unique_ptr<verbs_loop> loop{new verbs_loop};
  loop->service_level_ = options.service_level;
  loop->ip_traffic_class_ = options.ip_traffic_class;
  if (auto opened = loop->open_device(options.device); !opened) return opened.error();
  if (auto created = loop->create_queue(std::max(options.queue_depth, 2U)); !created) return created.error();
  if (auto connected = loop->connect(); !connected) return connected.error();
  loop->arm();
  return loop;
}

verbs_loop::~verbs_loop() = default;

core::result<void> verbs_loop::open_device(const std::string& wanted) {
  int count = 0;
  std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> devices{ibv_get_device_list(&count),
                                                                        ibv_free_device_list};
  bool seen = false;
  for (int i = 0; devices && i < count && !context_; ++i) {
    name_ = ibv_get_device_name(devices.get()[i]);
    if (!wanted.empty() && name_ != wanted) continue;
    seen = true;
    std::shared_ptr<ibv_context> opened{ibv_open_device(devices.get()[i]),
                                        [](ibv_context* c) { c&& ibv_close_device(c); }};
    ibv_device_attr attributes{};
    if (!opened || ibv_query_device(opened.get(), &attributes) != 0) continue;
    for (port_ = 1; port_ <= attributes.phys_port_cnt && !context_; ++port_)
      if (ibv_query_port(opened.get(), port_, &port_attributes_) == 0
          && port_attributes_.state == IBV_PORT_ACTIVE)
        context_ = opened;
    --port_;
  }
  if (context_) {
    if (port_attributes_.link_layer == IBV_LINK_LAYER_ETHERNET)
      gid_index_ = gid_index_of(name_, port_, port_attributes_);
    return {};
  }
  if (!wanted.empty() && !seen)
    return core::error{core::errc::invalid_argument, "there is no RDMA device " + wanted};
  return core::error{core::errc::unsupported,
                     seen ? "no RDMA device has an active port" : "this machine has no RDMA device"};
}

core::result<void> verbs_loop::create_queue(std::uint32_t wanted_depth) {
  auto* domain = ibv_alloc_pd(context_.get());
  if (!domain) return refused("make a protection domain", errno);
  domain_ = {domain, [context = context_](ibv_pd* d) { ibv_dealloc_pd(d); }};
  ibv_device_attr limits{};
  ibv_query_device(context_.get(), &limits);
  depth_ = std::min({wanted_depth, static_cast<std::uint32_t>(limits.max_qp_wr),
                     static_cast<std::uint32_t>(limits.max_cqe)});
  max_write_bytes_ = std::min<std::uint64_t>(port_attributes_.max_msg_sz, 1ULL << 30);
  channel_.reset(ibv_create_comp_channel(context_.get()));
  if (!channel_) return refused("make a completion channel", errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  completions_.reset(ibv_create_cq(context_.get(), static_cast<int>(depth_), nullptr, channel_.get(), 0));
  if (!completions_) return refused("make a completion queue of " + std::to_string(depth_), errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = completions_.get();
  attributes.cap = {
      .max_send_wr = depth_, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  queue_.reset(ibv_create_qp(domain_.get(), &attributes));
  if (!queue_) return refused("make a queue pair of " + std::to_string(depth_), errno);
  requests_.resize(depth_);
  ranges_.resize(depth_);
  return {};
}

core::result<void> verbs_loop::connect() {
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_INIT;
  ready.port_num = port_;
  ready.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (int rc = ibv_modify_qp(queue_.get(), &ready,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return refused("initialise its queue pair", rc);

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = port_attributes_.active_mtu;
  receive.dest_qp_num = queue_->qp_num;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = 12;
  receive.ah_attr.sl = service_level_;
  receive.ah_attr.port_num = port_;
  receive.ah_attr.dlid = port_attributes_.lid;
  if (port_attributes_.link_layer == IBV_LINK_LAYER_ETHERNET) {
    receive.ah_attr.is_global = 1;
    receive.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    receive.ah_attr.grh.hop_limit = 4;
    receive.ah_attr.grh.traffic_class = ip_traffic_class_;
    if (ibv_query_gid(context_.get(), port_, gid_index_, &receive.ah_attr.grh.dgid) != 0)
      return refused("tell its address", errno);
  }
  if (int rc = ibv_modify_qp(queue_.get(), &receive,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                                 | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return refused("connect its queue pair to itself", rc);

  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = 14; // 67 ms
  send.retry_cnt = 6;
  send.rnr_retry = 6;
  send.max_rd_atomic = 1;
  if (int rc = ibv_modify_qp(queue_.get(), &send,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                                 | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    return refused("start its queue pair", rc);
  return {};
}

core::result<std::shared_ptr<verbs_memory>> verbs_loop::attach(std::span<std::byte> bytes, bool writable) {
  int access = writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  auto* handle = ibv_reg_mr(domain_.get(), bytes.data(), bytes.size(), access);
  if (!handle)
    return core::error{
        core::errc::unsupported,
        "RDMA device " + name_ + " cannot register " + std::to_string(bytes.size())
            + " bytes of memory: " + std::strerror(errno)
            + "; raise the limit of locked memory (ulimit -l), or load nvidia-peermem for a GPU"};
  return std::make_shared<verbs_memory>(domain_, handle, bytes);
}

std::size_t verbs_loop::post(std::span<const loop_write> chain) {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto& one = chain[i];
    bool last = i + 1 == chain.size();
    ranges_[i] = {reinterpret_cast<std::uintptr_t>(one.from), one.bytes, one.from_key};
    auto& request = requests_[i];
    request = {};
    request.wr_id = one.number;
    request.sg_list = &ranges_[i];
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = last ? IBV_SEND_SIGNALED : 0;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(one.to);
    request.wr.rdma.rkey = one.to_key;
    request.next = last ? nullptr : &requests_[i + 1];
  }
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(queue_.get(), requests_.data(), &refused) == 0) return chain.size();
  return refused ? static_cast<std::size_t>(refused - requests_.data()) : 0;
}

void verbs_loop::arm() {
  ibv_cq* which = nullptr;
  void* unused = nullptr;
  while (ibv_get_cq_event(channel_.get(), &which, &unused) == 0) ibv_ack_cq_events(which, 1);
  ibv_req_notify_cq(completions_.get(), 0);
}

std::size_t verbs_loop::poll(std::span<ibv_wc> into) {
  return static_cast<std::size_t>(
      std::max(ibv_poll_cq(completions_.get(), static_cast<int>(into.size()), into.data()), 0));
}

void verbs_loop::fail() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(queue_.get(), &attributes, IBV_QP_STATE);
}

core::result<void> verbs_loop::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  if (int rc = ibv_modify_qp(queue_.get(), &attributes, IBV_QP_STATE))
    return refused("reset its queue pair", rc);
  return connect();
}

} // namespace dualpath::net
