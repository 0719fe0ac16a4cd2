// A namespace of a Ceph pool and the few operations a block store needs of it, as values with one owner.
#pragma once

#include "core/result.hpp"
#include "storage/block_header.hpp"
#include "storage/rados_store.hpp"

#include <rados/librados.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dualpath::storage {

/// How an operation ended: 0 or -errno, the bytes a read moved, and the version of the object.
struct rados_outcome {
  int code = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t object_bytes = 0;
  std::uint64_t version = 0;
};

/// Called once on a thread of librados; must be short.
using rados_done = std::function<void(rados_outcome)>;

class rados_pool {
public:
  /// Connects. Errors as open_rados_store().
  static core::result<std::unique_ptr<rados_pool>> open(const rados_store_options& options,
                                                        std::string name_space);
  rados_pool(const rados_pool&) = delete;
  rados_pool& operator=(const rados_pool&) = delete;
  /// Every operation has ended.
  ~rados_pool();

  // Memory must stay until the operation has ended.

  /// Header and, where it is not empty, payload, and the size of the object.
  void read(const std::string& object, header_page page, std::span<std::byte> payload, rados_done on_done);
  /// Ends with -EEXIST, changing nothing, where the object exists.
  void create(const std::string& object, const_header_page page, std::span<const std::byte> payload,
              rados_done on_done);
  void remove(const std::string& object, rados_done on_done);
  /// Ends with -ERANGE or -EOVERFLOW, changing nothing, where the object has another version by now.
  void remove_version(const std::string& object, std::uint64_t version, rados_done on_done);

  /// Visits the name of every object. Blocks. Returns 0 or -errno.
  int list(const std::function<void(std::string_view object)>& visit);

  /// "pool kv of Ceph at /etc/ceph/ceph.conf".
  const std::string& name() const { return name_; }

private:
  rados_pool() = default;

  rados_t cluster_ = nullptr;
  rados_ioctx_t io_ = nullptr;
  std::string name_;
};

} // namespace dualpath::storage
