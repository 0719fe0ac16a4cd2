// Memory of a CUDA device and the page-locked host memory that feeds it. Everything here frees itself.
#pragma once

#include "core/result.hpp"
#include "kernels/compute.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dualpath::kernels::cuda {

/// A stream of its own; waits for it when it ends.
class stream {
public:
  static core::result<std::shared_ptr<stream>> make(int device);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  cudaStream_t get() const { return handle_; }
  int device() const { return device_; }

private:
  stream(int device, cudaStream_t handle) : device_{device}, handle_{handle} {}

  int device_;
  cudaStream_t handle_;
};

/// Memory in stream order: usable by what is queued after make(), until what is queued before its end.
/// Move-only.
class stream_buffer {
public:
  stream_buffer() = default;
  static core::result<stream_buffer> make(std::shared_ptr<stream> on, std::uint64_t bytes);
  stream_buffer(stream_buffer&& other) noexcept;
  stream_buffer& operator=(stream_buffer&& other) noexcept;
  ~stream_buffer();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return bytes_; }
  template <class T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

private:
  std::shared_ptr<stream> stream_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Memory until further notice, zeroed.
core::result<std::unique_ptr<device_memory>> allocate_device_memory(int device, std::uint64_t bytes);

/// Page-locked host buffers, used again and again because locking pages is slow. Thread-safe.
class pinned_pool : public std::enable_shared_from_this<pinned_pool> {
public:
  /// At least `bytes` long; goes back to the pool with its last owner.
  core::result<std::shared_ptr<std::byte>> acquire(std::uint64_t bytes);
  ~pinned_pool();

private:
  struct buffer {
    std::byte* data;
    std::uint64_t bytes;
  };
  void give_back(buffer used);

  std::mutex mutex_;
  std::vector<buffer> free_;
};

/// Bytes collected on the host, then brought to the device in one copy.
class upload {
public:
  /// Where the values will lie in the device buffer.
  template <class T>
  std::uint64_t add(std::span<const T> values) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    auto offset = bytes_.size();
    auto raw = std::as_bytes(values);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return offset;
  }
  /// Queues the copy; `held` keeps the host side until the copy is over.
  core::result<stream_buffer> send(const std::shared_ptr<stream>& on, pinned_pool& pool,
                                   std::vector<std::shared_ptr<std::byte>>& held) const;

private:
  static constexpr std::uint64_t alignment = 256;
  std::vector<std::byte> bytes_;
};

} // namespace dualpath::kernels::cuda
