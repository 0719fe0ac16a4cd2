// Files that are being written, in the folder `tmp` beside the blocks, until a rename makes them blocks. A
// rename works and is atomic on every file system, where O_TMPFILE with linkat lacks NFS and older overlays.
//
// Each store owns a random id and holds a lock (flock) on the file `tmp/<id>.lock`; its temporary files begin
// with the id. The kernel frees the lock with the process, in every way a process can end, so the next store
// to open finds out whose files are leftovers without trusting process ids, which mean nothing across
// containers and machines. Where a file system has no locks, and for files without an owner, an age of one
// hour decides.
#pragma once

#include "core/result.hpp"
#include "storage/block_paths.hpp"
#include "storage/descriptor.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace dualpath::storage {

class temp_files {
public:
  /// Claims an id in the model folder open as `folder` and removes the leftovers of stores that are gone.
  /// `shown` names the folder in errors.
  static core::result<temp_files> claim(int folder, const std::string& shown);

  temp_files(temp_files&&) = default;
  temp_files& operator=(temp_files&&) = delete;
  ~temp_files();

  /// A path nobody else uses, relative to the model folder. Thread-safe.
  path_text next();
  static constexpr const char* folder_name = "tmp";

private:
  temp_files(int folder, std::string id, descriptor lock)
      : folder_{folder},
        id_{std::move(id)},
        lock_{std::move(lock)},
        count_{std::make_unique<std::atomic<std::uint64_t>>(0)} {}
  void remove_leftovers() const;

  int folder_;
  std::string id_;
  descriptor lock_;
  std::unique_ptr<std::atomic<std::uint64_t>> count_; ///< on the heap, so that this can move
};

} // namespace dualpath::storage
