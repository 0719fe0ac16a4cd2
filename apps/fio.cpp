#include "apps/fio.hpp"

#include "core/page_memory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dualpath::apps {

namespace {

/// What a program printed; nothing where it cannot be started or fails.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  std::vector<char*> words;
  for (auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  int rc = posix_spawnp(&child, words.front(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    auto got = read(ends[0], part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (rc != 0) return {};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return {};
  return text;
}

core::result<double> interpret(const std::string& text, bool write) {
  // fio may print notes before the document.
  auto start = std::min(text.find('{'), text.size());
  auto document =
      nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(), nullptr, false);
  if (!document.is_object() || !document.contains("jobs") || document["jobs"].empty())
    return core::error{core::errc::io, "fio's output is no JSON report: " + text.substr(0, 200)};
  auto rate = document["jobs"][0][write ? "write" : "read"].value("bw_bytes", 0.0) * 1e-9;
  if (!(rate > 0)) return core::error{core::errc::io, "fio reports that it moved nothing"};
  return rate;
}

} // namespace

bool fio_job::on_huge_pages() const {
  if (!direct_io) return false;
  // Twice as many: those of the job before come back with a delay, and fio crashes where there are too few.
  return core::free_huge_pages().value_or(0) * core::huge_page_bytes
         >= 2 * (block_bytes * depth + core::huge_page_bytes);
}

std::string fio_version() {
  auto text = output_of({"fio", "--version"}).value_or("");
  return text.substr(0, text.find('\n'));
}

core::result<double> run_fio(const fio_job& job) {
  constexpr std::uint32_t most_open_files = 512;
  std::error_code failed;
  std::filesystem::create_directories(job.folder, failed);
  auto text = output_of({"fio", "--name=dualpath", "--output-format=json", "--ioengine=io_uring",
                         "--directory=" + job.folder.string(), "--filename_format=$filenum",
                         std::string{"--rw="} + (job.write ? "write" : "randread"),
                         std::string{"--direct="} + (job.direct_io ? "1" : "0"), "--invalidate=0",
                         "--bs=" + std::to_string(job.block_bytes),
                         "--size=" + std::to_string(job.block_bytes * job.blocks),
                         "--nrfiles=" + std::to_string(job.blocks),
                         "--openfiles=" + std::to_string(std::min(job.blocks, most_open_files)),
                         "--iodepth=" + std::to_string(job.depth),
                         // Whole files in random order: one after the other they lie so on the disk.
                         std::string{"--file_service_type="} + (job.write ? "roundrobin" : "random"),
                         std::string{"--iomem="} + (job.on_huge_pages() ? "mmaphuge" : "malloc")});
  if (!text) return core::error{core::errc::io, "fio failed in " + job.folder.string()};
  return interpret(*text, job.write);
}

} // namespace dualpath::apps
