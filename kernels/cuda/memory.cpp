#include "kernels/cuda/memory.hpp"

#include "kernels/cuda/cuda_error.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace dualpath::kernels::cuda {
namespace {

class plain_memory final : public device_memory {
public:
  plain_memory(int device, std::span<std::byte> bytes) : device_{device}, bytes_{bytes} {}
  ~plain_memory() override {
    cudaSetDevice(device_);
    cudaFree(bytes_.data());
  }
  plain_memory(const plain_memory&) = delete;
  plain_memory& operator=(const plain_memory&) = delete;
  std::span<std::byte> bytes() override { return bytes_; }

private:
  int device_;
  std::span<std::byte> bytes_;
};

} // namespace

core::result<std::shared_ptr<stream>> stream::make(int device) {
  cudaStream_t handle = nullptr;
  call_sequence calls;
  calls.then("choosing the device", [&] { return cudaSetDevice(device); }).then("making a stream", [&] {
    return cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking);
  });
  if (!calls.outcome()) return calls.outcome().error();
  return std::shared_ptr<stream>{new stream{device, handle}};
}

stream::~stream() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(handle_);
  cudaStreamDestroy(handle_);
}

core::result<stream_buffer> stream_buffer::make(std::shared_ptr<stream> on, std::uint64_t bytes) {
  stream_buffer made;
  void* data = nullptr;
  if (auto outcome = check(cudaMallocAsync(&data, std::max<std::uint64_t>(bytes, 1), on->get()),
                           "allocating " + std::to_string(bytes) + " bytes");
      !outcome)
    return outcome.error();
  made.stream_ = std::move(on);
  made.data_ = static_cast<std::byte*>(data);
  made.bytes_ = bytes;
  return made;
}

stream_buffer::stream_buffer(stream_buffer&& other) noexcept
    : stream_{std::move(other.stream_)},
      data_{std::exchange(other.data_, nullptr)},
      bytes_{std::exchange(other.bytes_, 0)} {}

stream_buffer& stream_buffer::operator=(stream_buffer&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

stream_buffer::~stream_buffer() {
  if (!data_) return;
  cudaSetDevice(stream_->device());
  cudaFreeAsync(data_, stream_->get());
}

core::result<std::unique_ptr<device_memory>> allocate_device_memory(int device, std::uint64_t bytes) {
  if (bytes == 0) return core::error{core::errc::invalid_argument, "device memory of 0 bytes asked for"};
  void* data = nullptr;
  call_sequence calls;
  calls.then("choosing the device", [&] { return cudaSetDevice(device); })
      .then("allocating device memory", [&] { return cudaMalloc(&data, bytes); });
  if (!calls.outcome())
    return core::error{calls.outcome().error().code,
                       std::to_string(bytes)
                           + " bytes of GPU memory cannot be had: " + calls.outcome().error().text};
  std::unique_ptr<device_memory> made = std::make_unique<plain_memory>(
      device, std::span{static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)});
  // Not complete before other streams may use the memory: the default stream is waited for.
  calls.then("zeroing device memory", [&] { return cudaMemset(data, 0, bytes); })
      .then("zeroing device memory", [&] { return cudaStreamSynchronize(nullptr); });
  if (!calls.outcome()) return calls.outcome().error();
  return made;
}

core::result<std::shared_ptr<std::byte>> pinned_pool::acquire(std::uint64_t bytes) {
  buffer found{nullptr, 0};
  {
    std::lock_guard lock{mutex_};
    auto place = std::ranges::find_if(free_, [&](const buffer& b) { return b.bytes >= bytes; });
    if (place != free_.end()) {
      found = *place;
      free_.erase(place);
    }
  }
  if (!found.data) {
    // Powers of two, so that a few buffers serve all sizes.
    found.bytes = std::bit_ceil(std::max<std::uint64_t>(bytes, 4096));
    void* data = nullptr;
    if (auto outcome = check(cudaHostAlloc(&data, found.bytes, cudaHostAllocDefault),
                             "locking " + std::to_string(found.bytes) + " bytes of host memory");
        !outcome)
      return outcome.error();
    found.data = static_cast<std::byte*>(data);
  }
  return std::shared_ptr<std::byte>{
      found.data, [pool = shared_from_this(), found](std::byte*) { pool->give_back(found); }};
}

void pinned_pool::give_back(buffer used) {
  std::lock_guard lock{mutex_};
  free_.insert(std::ranges::find_if(free_, [&](const buffer& b) { return b.bytes >= used.bytes; }), used);
}

pinned_pool::~pinned_pool() {
  for (auto& unused : free_) cudaFreeHost(unused.data);
}

core::result<stream_buffer> upload::send(const std::shared_ptr<stream>& on, pinned_pool& pool,
                                         std::vector<std::shared_ptr<std::byte>>& held) const {
  auto host = pool.acquire(bytes_.size());
  if (!host) return host.error();
  std::memcpy(host->get(), bytes_.data(), bytes_.size());
  auto device = stream_buffer::make(on, bytes_.size());
  if (!device) return device.error();
  auto copied =
      check(cudaMemcpyAsync(device->data(), host->get(), bytes_.size(), cudaMemcpyHostToDevice, on->get()),
            "an upload");
  held.push_back(std::move(*host));
  if (!copied) return copied.error();
  return device;
}

} // namespace dualpath::kernels::cuda
