// The stores every machine has.
#include "contract_subject.hpp"

#include "storage/file_store.hpp"
#include "storage/sim_store.hpp"

namespace dualpath::storage::testing {
namespace {

subject files(std::string name, const std::filesystem::path& where, bool direct, durability keep) {
  auto folder = std::make_shared<temp_folder>(where);
  return {std::move(name),
          [=, path = folder->path()] {
            return take(open_file_store({.directory = path,
                                         .model = model(1),
                                         .layout = layout,
                                         .queue_depth = 8,
                                         .keep = keep,
                                         .direct_io = direct}));
          },
          folder};
}

subject simulated(std::string name, sim_timing timing) {
  auto shelf = make_sim_shelf();
  return {std::move(name),
          [=] {
            return take(open_sim_store({.payload_bytes = payload_bytes, .shelf = shelf, .timing = timing}));
          },
          shelf};
}

/// Room for all a test stores, so that nothing may be given up.
subject bounded() {
  auto folder = std::make_shared<temp_folder>("/dev/shm");
  return {"tmpfs, bounded",
          [path = folder->path()] {
            return take(open_file_store({.directory = path,
                                         .model = model(1),
                                         .layout = layout,
                                         .queue_depth = 8,
                                         .capacity_bytes = 200 * (4096 + padded_bytes(payload_bytes))}));
          },
          folder};
}

} // namespace

subject any_store() {
  switch (GENERATE(0, 1, 2, 3, 4, 5)) {
  case 0:
    return files("disk, direct", std::filesystem::temp_directory_path(), true, durability::process);
  case 1:
    return files("disk, through the page cache", std::filesystem::temp_directory_path(), false,
                 durability::power);
  case 2:
    return files("tmpfs", "/dev/shm", true, durability::process);
  case 3:
    return simulated("memory", {});
  case 4:
    return bounded();
  default:
    return simulated(
        "simulated",
        {.latency = std::chrono::microseconds{50}, .read_bytes_per_s = 4e9, .write_bytes_per_s = 2e9});
  }
}

} // namespace dualpath::storage::testing
