#include "apps/interrupts.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dualpath::apps {

namespace {

constexpr std::array caught{SIGINT, SIGTERM};
constexpr unsigned char stop = 0; // no signal has this number
std::array<struct sigaction, caught.size()> before;
// Made once and never closed: a signal handler may be about to write whenever this object goes away.
int pipe_ends[2] = {-1, -1};

void forward(int signal) {
  auto saved = errno;
  auto byte = static_cast<unsigned char>(signal);
  // A pipe that is full holds more signals than anybody counts.
  [[maybe_unused]] auto ignored = ::write(pipe_ends[1], &byte, 1);
  errno = saved;
}

void listen(const interrupts::handler& on_signal) {
  unsigned count = 0;
  for (;;) {
    unsigned char byte = stop;
    auto got = ::read(pipe_ends[0], &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (byte == stop) return;
    on_signal(byte, ++count);
  }
}

} // namespace

interrupts::interrupts(handler on_signal) {
  if (pipe_ends[0] < 0) {
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0)
      throw std::system_error{errno, std::generic_category(), "cannot make a pipe for signals"};
    ::fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK);
  }
  thread_ = std::thread{[on_signal = std::move(on_signal)] { listen(on_signal); }};
  for (std::size_t i = 0; i < caught.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = forward;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(caught[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) ::sigaction(caught[i], &action, nullptr);
  }
}

interrupts::~interrupts() {
  for (std::size_t i = 0; i < caught.size(); ++i) ::sigaction(caught[i], &before[i], nullptr);
  while (::write(pipe_ends[1], &stop, 1) != 1) std::this_thread::yield(); // full: it is being read
  thread_.join();
}

} // namespace dualpath::apps
