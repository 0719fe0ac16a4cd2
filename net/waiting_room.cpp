#include "net/waiting_room.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

namespace dualpath::net {
namespace {

/// Few, since each costs a descriptor: a peer's first bytes come a round trip after its connection.
constexpr std::size_t seats = 32;

bool watch(int door, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(door, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

std::shared_ptr<waiting_room> waiting_room::open(int listener) noexcept {
  auto door = ::epoll_create1(EPOLL_CLOEXEC);
  if (door < 0) return nullptr;
  auto* made = new (std::nothrow) waiting_room{door};
  if (made == nullptr) {
    ::close(door);
    return nullptr;
  }
  try {
    std::shared_ptr<waiting_room> room{made};
    return watch(door, listener) ? room : nullptr;
  } catch (const std::bad_alloc&) { // the room is gone, and its door with it
    return nullptr;
  }
}

waiting_room::~waiting_room() {
  for (auto each : waiting_) ::close(each);
  ::close(door_);
}

int waiting_room::admit(int connection) noexcept {
  std::lock_guard lock{mutex_};
  try {
    waiting_.push_back(connection);
  } catch (const std::bad_alloc&) {
    return connection;
  }
  if (!watch(door_, connection)) {
    waiting_.pop_back();
    return connection;
  }
  if (waiting_.size() <= seats) return -1;
  auto oldest = waiting_.front();
  waiting_.pop_front();
  return oldest;
}

int waiting_room::next_to_speak() noexcept {
  std::lock_guard lock{mutex_};
  std::array<epoll_event, seats + 1> ready; // the listener is among them
  auto count = ::epoll_wait(door_, ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto found = std::find(waiting_.begin(), waiting_.end(), ready[static_cast<std::size_t>(i)].data.fd);
    if (found == waiting_.end()) continue;
    auto speaking = *found;
    waiting_.erase(found);
    ::epoll_ctl(door_, EPOLL_CTL_DEL, speaking, nullptr);
    return speaking;
  }
  return -1;
}

} // namespace dualpath::net
