#include "net/bench_processes.hpp"

#include "net/ucx_fabric.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace dualpath::net {
namespace {

constexpr auto patience = std::chrono::seconds{60};

/// Both ends of a pipe; messages are their length and their bytes.
class channel {
public:
  channel() {
    if (pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
  }
  channel(const channel&) = delete;
  ~channel() {
    close_end(0);
    close_end(1);
  }
  void close_end(int which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }
  bool send(std::span<const std::byte> bytes) {
    std::uint64_t size = bytes.size();
    return all(std::as_writable_bytes(std::span{&size, 1}), true)
           && all({const_cast<std::byte*>(bytes.data()), bytes.size()}, true);
  }
  std::optional<std::vector<std::byte>> receive() {
    std::uint64_t size = 0;
    if (!all(std::as_writable_bytes(std::span{&size, 1}), false)) return {};
    std::vector<std::byte> bytes(size);
    if (!all(bytes, false)) return {};
    return bytes;
  }

private:
  bool all(std::span<std::byte> bytes, bool out) {
    while (!bytes.empty()) {
      auto moved =
          out ? ::write(ends_[1], bytes.data(), bytes.size()) : ::read(ends_[0], bytes.data(), bytes.size());
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(moved));
    }
    return true;
  }
  int ends_[2];
};

core::result<std::unique_ptr<fabric>> open_side(core::clock& clock, std::uint32_t side,
                                                const std::string& transports) {
  ucx_fabric_options options;
  options.clock = &clock;
  options.self.engine = core::engine_id{side};
  options.transports = transports;
  return open_ucx_fabric(std::move(options));
}

/// A byte that follows from its place, so that a block in the wrong one is noticed.
std::byte pattern(std::uint64_t offset, std::uint8_t seed) {
  return static_cast<std::byte>((offset * 131 + (offset >> 12) * 17 + seed) & 0xff);
}
void fill(std::span<std::byte> bytes, std::uint8_t seed) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i, seed);
}
bool holds(std::span<const std::byte> bytes, std::uint8_t seed) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern(i, seed)) return false;
  return true;
}
constexpr std::uint8_t put_seed = 1, get_seed = 2;

/// The other process: lends its memory, and when asked says whether all of it was written, then fills it to
/// be read.
int serve(const process_bench_options& options, channel& in, channel& out) {
  core::steady_clock clock;
  auto opened = open_side(clock, 1, options.transports);
  if (!opened) return 1;
  auto memory = (*opened)->allocate(options.block_bytes * options.blocks);
  if (!memory) return 1;
  auto exported = (*opened)->export_region(memory->id);
  if (!exported || !out.send((*opened)->address()) || !out.send(*exported)) return 1;
  if (!in.receive()) return 1;
  std::byte equal{holds(memory->bytes, put_seed)};
  fill(memory->bytes, get_seed);
  if (!out.send({&equal, 1})) return 1;
  (void)in.receive(); // until the pipe is closed
  return 0;
}

class caller {
public:
  core::result<void> open(const process_bench_options& options, std::span<const std::byte> address,
                          std::span<const std::byte> exported) {
    options_ = options;
    auto opened = open_side(clock_, 0, options.transports);
    if (!opened) return opened.error();
    fabric_ = std::move(*opened);
    auto memory = fabric_->allocate(options.block_bytes * options.blocks);
    if (!memory) return memory.error();
    memory_ = *memory;
    std::promise<core::result<peer_id>> connected;
    fabric_->connect(address, clock_.now() + patience,
                     [&](core::result<peer_id> peer) { connected.set_value(std::move(peer)); });
    auto peer = connected.get_future().get();
    if (!peer) return peer.error();
    peer_ = *peer;
    auto imported = fabric_->import_region(peer_, exported);
    if (!imported) return imported.error();
    remote_ = *imported;
    return {};
  }
  std::span<std::byte> bytes() const { return memory_.bytes; }

  core::result<double> median_gb_per_s(bool put) {
    constexpr std::uint32_t warm_ups = 2;
    std::vector<double> seconds;
    for (std::uint32_t round = 0; round < warm_ups + options_.rounds; ++round) {
      transfer batch{peer_, lane::kv, memory_.id, remote_, {}, clock_.now() + patience};
      for (std::uint64_t i = 0; i < options_.blocks; ++i)
        batch.pieces.push_back(
            {i * options_.block_bytes, 0, i * options_.block_bytes, 0, options_.block_bytes, 1});
      std::promise<core::result<void>> done;
      auto on_done = [&](core::result<void> outcome) { done.set_value(std::move(outcome)); };
      auto begin = clock_.now();
      if (put)
        fabric_->put(std::move(batch), on_done);
      else
        fabric_->get(std::move(batch), on_done);
      if (auto outcome = done.get_future().get(); !outcome) return outcome.error();
      if (round >= warm_ups) seconds.push_back(core::to_seconds(clock_.now() - begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<long>(seconds.size() / 2), seconds.end());
    return static_cast<double>(memory_.bytes.size()) * 1e-9 / seconds[seconds.size() / 2];
  }

private:
  process_bench_options options_;
  core::steady_clock clock_;
  std::unique_ptr<fabric> fabric_;
  memory_region memory_;
  peer_id peer_;
  remote_region_id remote_;
};

core::error lost_peer() { return {core::errc::disconnected, "the bench's other process ended early"}; }

core::result<process_bench_result> measure(const process_bench_options& options, channel& to, channel& from) {
  auto address = from.receive();
  auto exported = address ? from.receive() : std::nullopt;
  if (!exported) return lost_peer();
  caller near;
  if (auto opened = near.open(options, *address, *exported); !opened) return opened.error();
  fill(near.bytes(), put_seed);
  auto put = near.median_gb_per_s(true);
  if (!put) return put.error();
  std::byte next{0};
  if (!to.send({&next, 1})) return lost_peer();
  auto equal = from.receive();
  if (!equal) return lost_peer();
  auto get = near.median_gb_per_s(false);
  if (!get) return get.error();
  if (equal->front() == std::byte{0} || !holds(near.bytes(), get_seed))
    return core::error{core::errc::corrupt, "bytes that were moved between the processes differ"};
  return process_bench_result{*put, *get};
}

} // namespace

core::result<process_bench_result> bench_processes(const process_bench_options& options) {
  if (options.block_bytes == 0 || options.blocks == 0 || options.rounds == 0)
    return core::error{core::errc::invalid_argument,
                       "the bench between processes needs blocks of at least a byte, and a round"};
  channel to, from;
  auto child = fork();
  if (child < 0)
    return core::error{core::errc::io, std::string{"cannot start a second process: "} + std::strerror(errno)};
  if (child == 0) {
    to.close_end(1);
    from.close_end(0);
    _exit(serve(options, to, from));
  }
  to.close_end(0);
  from.close_end(1);
  auto result = measure(options, to, from);
  to.close_end(1);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return result;
}

} // namespace dualpath::net
