#include "net/bench_fabric.hpp"

#include "net/ucx_fabric.hpp"

#include <algorithm>
#include <future>

namespace dualpath::net {

core::result<std::unique_ptr<fabric_pair>> fabric_pair::open(const bench_options& options,
                                                             std::uint64_t bytes) {
  std::unique_ptr<fabric_pair> pair{new fabric_pair};
  if (auto connected = pair->connect(options, bytes); !connected) return connected.error();
  return pair;
}

core::result<void> fabric_pair::connect(const bench_options& options, std::uint64_t bytes) {
  region_bytes_ = bytes;
  for (std::uint32_t side = 0; side < ends_.size(); ++side) {
    ucx_fabric_options settings;
    settings.clock = &clock_;
    settings.self.engine = core::engine_id{side};
    settings.transports = options.transports;
    settings.busy_poll = options.busy_poll;
    auto opened = open_ucx_fabric(std::move(settings));
    if (!opened) return opened.error();
    ends_[side].fabric = std::move(*opened);
    auto memory = ends_[side].fabric->allocate(bytes);
    if (!memory) return memory.error();
    ends_[side].memory = *memory;
  }
  for (std::size_t side = 0; side < ends_.size(); ++side) {
    auto &from = ends_[side], &to = ends_[1 - side];
    auto peer = meet(from, to);
    if (!peer) return peer.error();
    from.peer = *peer;
    auto exported = to.fabric->export_region(to.memory.id);
    if (!exported) return exported.error();
    auto imported = from.fabric->import_region(from.peer, *exported);
    if (!imported) return imported.error();
    from.remote = *imported;
  }
  return {};
}

core::result<peer_id> fabric_pair::meet(end& from, const end& to) {
  std::promise<core::result<peer_id>> connected;
  from.fabric->connect(to.fabric->address(), soon(),
                       [&](core::result<peer_id> peer) { connected.set_value(std::move(peer)); });
  return connected.get_future().get();
}

fabric_pair::~fabric_pair() {
  for (auto& each : ends_) each.fabric.reset(); // completions touch both ends
}

core::result<double> fabric_pair::run(const bench_row& row, std::uint64_t transfers,
                                      std::uint32_t in_flight) {
  row_ = row;
  transfers_ = transfers;
  failure_.reset();
  std::size_t active = row.both_ways ? 2 : 1;
  for (auto& each : ends_) each.submitted = each.finished = 0;
  running_ = static_cast<std::uint32_t>(active);
  auto begin = clock_.now();
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    for (std::size_t side = 0; side < active; ++side) submit(ends_[side]);
  }
  for (auto left = running_.load(); left != 0; left = running_.load()) running_.wait(left);
  auto seconds = core::to_seconds(clock_.now() - begin);
  std::lock_guard lock{mutex_};
  if (failure_) return *failure_;
  return seconds;
}

void fabric_pair::submit(end& from) {
  auto number = from.submitted.fetch_add(1, std::memory_order_relaxed);
  if (number >= transfers_) return;
  auto stride = 2 * row_.piece_bytes;
  auto slots = std::max<std::uint64_t>(1, region_bytes_ / (stride * row_.pieces));
  auto offset = number % slots * row_.pieces * stride;
  transfer t{from.peer,
             lane::kv,
             from.memory.id,
             from.remote,
             {{offset, stride, offset, stride, row_.piece_bytes, row_.pieces}},
             soon()};
  auto on_done = [this, &from](core::result<void> outcome) { finish(from, std::move(outcome)); };
  if (row_.put) {
    from.fabric->put(std::move(t), on_done);
  } else {
    from.fabric->get(std::move(t), on_done);
  }
}

void fabric_pair::finish(end& from, core::result<void> outcome) {
  if (!outcome) {
    std::lock_guard lock{mutex_};
    failure_ = outcome.error();
  }
  submit(from);
  if (from.finished.fetch_add(1) + 1 != transfers_) return;
  if (--running_ == 0) running_.notify_one();
}

} // namespace dualpath::net
