#include "net/lane_traffic.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::net {
namespace {

constexpr core::duration patience = std::chrono::seconds{30};
constexpr std::size_t message_bytes = 64;

/// What ping and pong share. Completions of a rally that was given up may still come.
struct rally : std::enable_shared_from_this<rally> {
  rally(lane_pair& of, core::instant end_of_game) : pair{of}, until{end_of_game} {}

  lane_pair& pair;
  core::instant until;
  core::instant sent{};
  std::vector<core::duration> times;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<core::error> failure;
  bool over = false;

  void serve(std::size_t side) {
    if (side == 0) sent = pair.clock().now();
    pair.at(side).send(pair.peer(side), lane::collective, {1, std::vector<std::byte>(message_bytes)},
                       pair.clock().now() + patience, [self = shared_from_this()](core::result<void> how) {
                         if (!how) self->end(how.error());
                       });
  }
  void returned() {
    auto now = pair.clock().now();
    times.push_back(now - sent);
    if (now < until) return serve(0);
    end({});
  }
  void end(std::optional<core::error> why) {
    std::lock_guard lock{mutex};
    failure = std::move(why);
    over = true;
    changed.notify_one();
  }
};

} // namespace

core::result<void> lane_pair::open(const opener& open_side, std::uint64_t region_bytes) {
  for (std::uint32_t side = 0; side < 2; ++side) {
    auto opened = open_side(side);
    if (!opened) return opened.error();
    ends_[side].own = std::move(*opened);
    auto memory = ends_[side].own->allocate(region_bytes);
    if (!memory) return memory.error();
    ends_[side].memory = *memory;
  }
  for (std::size_t side = 0; side < 2; ++side)
    if (auto joined = join(side); !joined) return joined;
  return {};
}

core::result<void> lane_pair::join(std::size_t side) {
  auto& self = ends_[side];
  auto& other = ends_[1 - side];
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<core::result<peer_id>> peer;
  self.own->connect(other.own->address(), clock_.now() + patience, [&](core::result<peer_id> connected) {
    std::lock_guard lock{mutex};
    peer = std::move(connected);
    changed.notify_one();
  });
  std::unique_lock lock{mutex};
  changed.wait(lock, [&] { return peer.has_value(); });
  if (!*peer) return peer->error();
  self.peer = **peer;
  auto exported = other.own->export_region(other.memory.id);
  if (!exported) return exported.error();
  auto imported = self.own->import_region(self.peer, *exported);
  if (!imported) return imported.error();
  self.remote = *imported;
  return {};
}

transfer lane_pair::moving(std::size_t side, lane on, std::vector<strided_piece> pieces) const {
  auto& self = ends_[side];
  return {self.peer, on, self.memory.id, self.remote, std::move(pieces), clock_.now() + patience};
}

flood::flood(lane_pair& pair, lane on, std::vector<strided_piece> pieces, std::uint32_t in_flight)
    : pair_{pair}, lane_{on}, pieces_{std::move(pieces)}, in_flight_{2 * in_flight} {
  for (std::uint32_t i = 0; i < in_flight; ++i)
    for (std::size_t side = 0; side < 2; ++side) put(side);
}

void flood::put(std::size_t side) {
  pair_.at(side).put(pair_.moving(side, lane_, pieces_), [this, side](core::result<void> how) {
    if (how) bytes_ += total_bytes(pieces_);
    if (how && !stopping_) return put(side);
    std::lock_guard lock{mutex_};
    if (!how && !failure_) failure_ = how.error();
    --in_flight_;
    changed_.notify_one();
  });
}

core::result<void> flood::stop() {
  stopping_ = true;
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return in_flight_ == 0; });
  if (failure_) return *failure_;
  return {};
}

core::result<std::vector<core::duration>> ping_pong(lane_pair& pair, core::duration time) {
  auto game = std::make_shared<rally>(pair, pair.clock().now() + time);
  pair.at(0).on_message([game](peer_id, lane, const message&) { game->returned(); });
  pair.at(1).on_message([game](peer_id, lane, const message&) { game->serve(1); });
  game->serve(0);
  std::unique_lock lock{game->mutex};
  bool over = game->changed.wait_for(lock, time + patience, [&] { return game->over; });
  for (std::size_t side = 0; side < 2; ++side) pair.at(side).on_message({});
  if (!over) return core::error{core::errc::timed_out, "a message on lane collective did not come back"};
  if (game->failure) return *game->failure;
  std::sort(game->times.begin(), game->times.end());
  return std::move(game->times);
}

} // namespace dualpath::net
