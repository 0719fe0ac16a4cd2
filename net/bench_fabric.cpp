#include "net/bench_fabric.hpp"

#include "net/ucx_fabric.hpp"

#include <future>
#include <utility>

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

core::result<bench_run> fabric_pair::run(const bench_row& row, std::uint64_t transfers,
                                         std::uint32_t in_flight) {
  row_ = row;
  transfers_ = transfers;
  deadline_ = soon();
  failure_.reset();
  chains_.clear();
  ends_short_ = row.both_ways ? 2 : 1;
  for (std::size_t side = 0; side < ends_short_; ++side) {
    ends_[side].short_of_share = in_flight;
    for (std::uint32_t i = 0; i < in_flight; ++i) chains_.push_back({this, side, i, in_flight});
  }
  running_ = static_cast<std::uint32_t>(chains_.size());
  auto begin = clock_.now();
  for (auto& each : chains_) submit(each);
  for (auto left = running_.load(); left != 0; left = running_.load()) running_.wait(left);
  auto seconds = core::to_seconds(clock_.now() - begin);
  std::lock_guard lock{mutex_};
  if (failure_) return *failure_;
  bench_run done{seconds, 0};
  for (auto& each : chains_) done.transfers += each.submitted;
  return done;
}

void fabric_pair::submit(chain& of) {
  auto& from = ends_[of.side];
  if (of.next >= transfers_ && !std::exchange(of.has_share, true) && --from.short_of_share == 0)
    --ends_short_;
  if (ends_short_.load(std::memory_order_relaxed) == 0 || of.next >= bench_run::most_shares * transfers_) {
    if (--running_ == 0) running_.notify_one();
    return;
  }
  auto stride = row_.stride_bytes();
  auto offset = row_.offset(of.side, of.next, region_bytes_);
  of.next += of.step;
  ++of.submitted;
  transfer t{from.peer,
             lane::kv,
             from.memory.id,
             from.remote,
             {{offset, stride, offset, stride, row_.piece_bytes, row_.pieces}},
             deadline_};
  auto on_done = [&of](core::result<void> outcome) { of.pair->finish(of, std::move(outcome)); };
  if (row_.put) {
    from.fabric->put(std::move(t), on_done);
  } else {
    from.fabric->get(std::move(t), on_done);
  }
}

void fabric_pair::finish(chain& of, core::result<void> outcome) {
  if (!outcome) {
    std::lock_guard lock{mutex_};
    failure_ = outcome.error();
  }
  submit(of);
}

} // namespace dualpath::net
