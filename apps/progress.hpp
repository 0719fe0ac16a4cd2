// A progress bar on stderr, shown only where stderr is a terminal. Thread-safe; redraws at most some ten
// times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace dualpath::apps {

class progress {
public:
  /// `enabled` false, or stderr not a terminal: update() does nothing.
  explicit progress(std::string title, bool enabled = true);
  ~progress(); ///< clears the line
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void update(std::uint64_t done, std::uint64_t total, const std::string& extra = {});

private:
  std::mutex mutex_;
  std::string title_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

/// One line of at most `width` columns.
std::string progress_line(const std::string& title, std::uint64_t done, std::uint64_t total,
                          const std::string& extra, double elapsed_s, unsigned width);

} // namespace dualpath::apps
