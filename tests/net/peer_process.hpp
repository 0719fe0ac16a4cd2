// A peer in a process of its own (peer/main.cpp), started, stopped and killed by the test that owns it.
#pragma once

#include "world.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace dualpath::net::testing {

class peer_process {
public:
  peer_process(const std::string& transports, const std::string& memory, std::uint64_t bytes,
               const std::string& secret = cluster_secret) {
    int to[2], from[2];
    REQUIRE(pipe2(to, O_CLOEXEC) == 0);
    REQUIRE(pipe2(from, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    auto size = std::to_string(bytes);
    auto device = transports == "rc_v" ? device_of(core::engine_id{2}) : std::string{};
    const char* arguments[] = {DUALPATH_TEST_PEER, transports.c_str(), memory.c_str(), size.c_str(),
                               device.c_str(),     secret.c_str(),     nullptr};
    auto spawned =
        posix_spawn(&pid_, DUALPATH_TEST_PEER, &actions, nullptr, const_cast<char**>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    in_ = fdopen(to[1], "w");
    out_ = fdopen(from[0], "r");
    REQUIRE(spawned == 0);
    address = from_hex(read_line());
    region = from_hex(read_line());
  }
  ~peer_process() {
    signal(SIGCONT);
    fclose(in_);
    kill();
    fclose(out_);
  }
  peer_process(const peer_process&) = delete;

  std::string ask(const std::string& line) {
    std::fprintf(in_, "%s\n", line.c_str());
    std::fflush(in_);
    return read_line();
  }
  pid_t pid() const { return pid_; }
  void signal(int which) {
    if (pid_ > 0) ::kill(pid_, which);
  }
  /// Kills and reaps it: shared memory does not notice a zombie.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// Stops it; returns once it stands still.
  void stop() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }

  std::vector<std::byte> address, region;

private:
  std::string read_line() {
    std::string line;
    for (int c = std::fgetc(out_); c != EOF && c != '\n'; c = std::fgetc(out_)) line += static_cast<char>(c);
    return line;
  }
  static std::vector<std::byte> from_hex(const std::string& text) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
  }

  pid_t pid_ = -1;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

} // namespace dualpath::net::testing
