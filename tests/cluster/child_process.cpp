#include "child_process.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dualpath::testing {

child_process::child_process(std::vector<std::string> argv) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  std::vector<char*> arguments;
  for (auto& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  auto spawned = ::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  INFO("starting " << argv[0]);
  REQUIRE(spawned == 0);
  reader_ = std::thread{[this, fd = ends[0]] { read(fd); }};
}

child_process::~child_process() {
  if (!reaped_) {
    signal(SIGCONT);
    signal(SIGKILL);
    wait();
  }
  reader_.join();
}

void child_process::signal(int which) {
  if (!reaped_) ::kill(pid_, which);
}

int child_process::wait() {
  if (!reaped_) ::waitpid(pid_, &status_, 0);
  reaped_ = true;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

void child_process::read(int fd) {
  auto* in = ::fdopen(fd, "r");
  char* text = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length; (length = ::getline(&text, &capacity, in)) > 0;) {
    while (length > 0 && text[length - 1] == '\n') --length;
    std::lock_guard lock{mutex_};
    lines_.emplace_back(text, static_cast<std::size_t>(length));
    changed_.notify_all();
  }
  std::free(text);
  std::fclose(in);
  std::lock_guard lock{mutex_};
  ended_ = true;
  changed_.notify_all();
}

long child_process::await_line(const std::string& text, long from) {
  std::unique_lock lock{mutex_};
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{180};
  for (auto next = static_cast<std::size_t>(from);;) {
    for (; next < lines_.size(); ++next)
      if (lines_[next].find(text) != std::string::npos) return static_cast<long>(next);
    if (ended_) return -1;
    if (changed_.wait_until(lock, give_up) == std::cv_status::timeout) return -1;
  }
}

std::string child_process::line(long number) {
  std::lock_guard lock{mutex_};
  return number >= 0 && static_cast<std::size_t>(number) < lines_.size()
             ? lines_[static_cast<std::size_t>(number)]
             : std::string{};
}

std::string child_process::output() {
  std::lock_guard lock{mutex_};
  std::string all;
  for (auto& each : lines_) all += each + "\n";
  return all;
}

pid_t process_with(const std::string& variable, pid_t wanted_parent) {
  std::error_code gone;
  for (auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    if (std::filesystem::read_symlink(entry.path() / "exe", gone) != DUALPATH_PROGRAM) continue;
    std::ifstream stat{entry.path() / "stat"}, environment{entry.path() / "environ"};
    pid_t pid = 0, parent = 0;
    std::string name, state, each;
    if (!(stat >> pid >> name >> state >> parent) || (wanted_parent != 0 && parent != wanted_parent))
      continue;
    while (std::getline(environment, each, '\0'))
      if (each == variable) return pid;
  }
  return -1;
}

} // namespace dualpath::testing
