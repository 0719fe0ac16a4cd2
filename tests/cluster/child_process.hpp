// A process that a test starts, listens to line by line, signals and reaps.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace dualpath::testing {

class child_process {
public:
  /// Runs argv[0] with its standard output and error joined.
  explicit child_process(std::vector<std::string> argv);
  /// Kills and reaps it if it still runs.
  ~child_process();
  child_process(const child_process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int which);
  /// Blocks until it ends; its exit status, or 128 + the signal that ended it.
  int wait();

  /// Blocks until a line with `text` has come, at or after the `from`-th; its number. -1: it ended, or 180 s
  /// passed, without one.
  long await_line(const std::string& text, long from = 0);
  std::string line(long number);
  /// All that it has said.
  std::string output();

private:
  void read(int fd);

  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
  std::thread reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  bool ended_ = false;
};

/// A process of this program that has a variable in its environment, "NAME=value", and, where it is given,
/// that parent; -1: there is none.
pid_t process_with(const std::string& variable, pid_t parent = 0);

} // namespace dualpath::testing
