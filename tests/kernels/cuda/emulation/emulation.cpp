#include "cuda_runtime.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <ucontext.h>
#include <vector>

uint3 threadIdx, blockIdx;

namespace {

constexpr std::size_t stack_bytes = 256 * 1024;

/// A thread of a block: a stack of its own, entered and left at barriers. Serves one block after another.
struct fiber {
  ucontext_t first_entry;
  jmp_buf resume;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  bool started = false;
  bool done = false;
};

std::mutex grid_mutex; ///< static variables stand for shared memory: one grid at a time
std::vector<fiber> fibers;
ucontext_t first_return;
jmp_buf scheduler;
fiber* current = nullptr;
const std::function<void()>* body = nullptr;

/// Back to the scheduler, until it lets this thread go on.
void leave(fiber& self) {
  if (_setjmp(self.resume) == 0) _longjmp(scheduler, 1);
}

void fiber_main() {
  auto* self = current;
  while (true) {
    (*body)();
    self->done = true;
    leave(*self);
  }
}

/// Lets a thread run to its next barrier or its end. Unlike swapcontext, jumps need no system call.
void enter(fiber& thread) {
  current = &thread;
  if (_setjmp(scheduler) != 0) return;
  if (thread.started) _longjmp(thread.resume, 1);
  thread.started = true;
  getcontext(&thread.first_entry);
  thread.first_entry.uc_stack.ss_sp = thread.stack.get();
  thread.first_entry.uc_stack.ss_size = stack_bytes;
  thread.first_entry.uc_link = nullptr;
  makecontext(&thread.first_entry, fiber_main, 0);
  swapcontext(&first_return, &thread.first_entry);
}

/// Lets every thread run to the next barrier or its end; returns how many ended.
unsigned run_to_barrier(unsigned threads, bool backwards) {
  unsigned ended = 0;
  for (unsigned i = 0; i < threads; ++i) {
    auto index = backwards ? threads - 1 - i : i;
    threadIdx = {index, 0, 0};
    enter(fibers[index]);
    ended += fibers[index].done;
  }
  return ended;
}

void run_block(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) fibers[i].done = false;
  for (bool backwards = false;; backwards = !backwards) {
    auto ended = run_to_barrier(threads, backwards);
    if (ended == threads) return;
    if (ended == 0) continue;
    std::fprintf(stderr, "%u of %u threads reached a barrier that the others did not\n", threads - ended,
                 threads);
    std::abort();
  }
}

// ---- memory of the device

std::mutex memory_mutex;
std::map<const char*, std::size_t> allocations;

cudaError_t allocate(void** data, std::size_t bytes) {
  if (bytes > std::size_t{1} << 40) return cudaErrorMemoryAllocation;
  auto* made = static_cast<char*>(std::malloc(bytes));
  if (!made) return cudaErrorMemoryAllocation;
  std::memset(made, 0xff, bytes); // NaN where something is read that was never written
  std::lock_guard lock{memory_mutex};
  allocations.emplace(made, bytes);
  *data = made;
  return cudaSuccess;
}

cudaError_t release(void* data) {
  std::lock_guard lock{memory_mutex};
  if (data && allocations.erase(static_cast<char*>(data)) == 0) return cudaErrorInvalidValue;
  std::free(data);
  return cudaSuccess;
}

} // namespace

void __syncthreads() { leave(*current); }

void cuda_emulation::run_grid(dim3 grid, unsigned threads, const std::function<void()>& thread) {
  std::lock_guard lock{grid_mutex};
  if (fibers.size() < threads) fibers = std::vector<fiber>(threads);
  body = &thread;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block(threads);
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess                 ? "no error"
         : code == cudaErrorMemoryAllocation ? "out of memory"
                                             : "invalid argument";
}
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaMalloc(void** data, std::size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return release(data); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return (*data = std::malloc(bytes)) ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* data) { return std::free(data), cudaSuccess; }
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return std::memset(data, value, bytes), cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  std::lock_guard lock{memory_mutex};
  auto after = allocations.upper_bound(static_cast<const char*>(data));
  bool known = after != allocations.begin();
  if (known) {
    --after;
    known = static_cast<const char*>(data) < after->first + after->second;
  }
  *attributes = {known ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, 0};
  return cudaSuccess;
}
