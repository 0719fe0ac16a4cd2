// A peer in a process of its own (peer/main.cpp), started, stopped and killed by the test that owns it.
#pragma once

#include "peer/hexadecimal.hpp"
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
               const std::string& secret = cluster_secret)
      : peer_process{DUALPATH_TEST_PEER,
                     {transports, memory, std::to_string(bytes),
                      transports == "rc_v" ? device_of(core::engine_id{2}) : std::string{}, secret}} {}
  /// Another program that prints two lines in hexadecimal.
  peer_process(const char* program, const std::vector<std::string>& arguments) {
    int to[2], from[2];
    REQUIRE(pipe2(to, O_CLOEXEC) == 0);
    REQUIRE(pipe2(from, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    std::vector<char*> words{const_cast<char*>(program)};
    for (auto& each : arguments) words.push_back(const_cast<char*>(each.c_str()));
    words.push_back(nullptr);
    auto spawned = posix_spawn(&pid_, program, &actions, nullptr, words.data(), environ);
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

  pid_t pid_ = -1;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

} // namespace dualpath::net::testing
