#include "apps/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace dualpath::apps {

namespace {

constexpr auto redraw_after = std::chrono::milliseconds{100};

unsigned terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80U;
}

std::string clock_text(double seconds) {
  char text[32];
  auto whole = static_cast<unsigned long>(std::max(seconds, 0.0));
  std::snprintf(text, sizeof text, "%lu:%02lu", whole / 60, whole % 60);
  return text;
}

} // namespace

progress::progress(std::string title, bool enabled)
    : title_{std::move(title)},
      enabled_{enabled && isatty(STDERR_FILENO) == 1},
      start_{std::chrono::steady_clock::now()},
      last_{start_ - redraw_after} {}

progress::~progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void progress::update(std::uint64_t done, std::uint64_t total, const std::string& extra) {
  if (!enabled_) return;
  std::lock_guard lock{mutex_};
  auto now = std::chrono::steady_clock::now();
  if (now - last_ < redraw_after && done < total) return;
  last_ = now;
  drawn_ = true;
  auto elapsed_s = std::chrono::duration<double>(now - start_).count();
  auto line = progress_line(title_, done, total, extra, elapsed_s, terminal_width() - 1);
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
}

std::string progress_line(const std::string& title, std::uint64_t done, std::uint64_t total,
                          const std::string& extra, double elapsed_s, unsigned width) {
  constexpr std::size_t bar_columns = 24;
  auto share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
  auto filled = static_cast<std::size_t>(share * bar_columns);
  auto line = title + " [" + std::string(filled, '#') + std::string(bar_columns - filled, '.') + "] "
              + std::to_string(done) + "/" + std::to_string(total) + "  " + clock_text(elapsed_s);
  if (share > 0 && share < 1) line += " left " + clock_text(elapsed_s / share - elapsed_s);
  if (!extra.empty()) line += "  " + extra;
  if (line.size() > width) line.resize(width);
  return line;
}

} // namespace dualpath::apps
