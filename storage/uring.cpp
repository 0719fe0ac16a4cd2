#include "storage/uring.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dualpath::storage {
namespace {

core::error setup_error(int code) {
  std::string text = std::string{"io_uring cannot be set up: "} + std::strerror(code) + "; ";
  switch (code) {
  case EPERM:
  case EACCES:
    return {core::errc::unsupported, text
                                         + "set the sysctl kernel.io_uring_disabled to 0 and let the "
                                           "container's seccomp profile allow the io_uring calls"};
  case ENOSYS:
    return {core::errc::unsupported, text + "use a kernel from 5.15 on, with io_uring compiled in"};
  case ENOMEM:
    return {core::errc::unsupported, text + "raise the locked memory limit (ulimit -l) or the memory limit"};
  default:
    return {core::errc::unsupported, text + "check the kernel log"};
  }
}

} // namespace

void uring::operation::await_suspend(std::coroutine_handle<> waiter) noexcept {
  waiter_ = waiter;
  io_uring_sqe_set_data(entry_, this);
}

uring::uring() : ring_{std::make_unique<io_uring>()} {}

core::result<std::unique_ptr<uring>> uring::create(unsigned depth) {
  std::unique_ptr<uring> self{new uring};
  // The ring starts disabled so that the thread that enables it becomes its single issuer. Kernels before 6.1
  // lack the flags that spare interrupts and locks; the ring works without them.
  constexpr std::array flags{IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER
                                 | IORING_SETUP_DEFER_TASKRUN,
                             IORING_SETUP_R_DISABLED};
  int rc = 0;
  for (auto choice : flags) {
    *self->ring_ = {};
    rc = io_uring_queue_init(depth, self->ring_.get(), choice);
    if (rc == 0) return self;
    if (rc != -EINVAL) break;
  }
  self->ring_.reset();
  return setup_error(-rc);
}

uring::~uring() {
  if (ring_) io_uring_queue_exit(ring_.get());
}

void uring::attach() {
  // io_uring_enable_rings() is declared by liburing 2.3 but missing from its shared library.
  if (syscall(__NR_io_uring_register, ring_->ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) < 0)
    std::abort();
}

void uring::submit_and_wait() {
  enter(turns_.empty());
  while (resume_completed() && !turns_.empty()) enter(false);
  if (turns_.empty()) return;
  auto next = turns_.front();
  turns_.pop_front();
  next.resume();
}

void uring::enter(bool wait) {
  int rc = wait ? io_uring_submit_and_wait(ring_.get(), 1) : io_uring_submit_and_get_events(ring_.get());
  // Interrupted, or the kernel is short of memory for a moment: completions that are there free some of it.
  if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) std::abort();
}

/// Whether there were any.
bool uring::resume_completed() {
  bool any = false;
  std::array<io_uring_cqe*, 64> done;
  while (unsigned count = io_uring_peek_batch_cqe(ring_.get(), done.data(), done.size())) {
    std::array<operation*, 64> finished;
    for (unsigned i = 0; i < count; ++i) {
      finished[i] = static_cast<operation*>(io_uring_cqe_get_data(done[i]));
      finished[i]->result_ = done[i]->res;
    }
    io_uring_cq_advance(ring_.get(), count);
    for (unsigned i = 0; i < count; ++i) finished[i]->waiter_.resume();
    any = true;
  }
  return any;
}

io_uring_sqe* uring::next_entry() {
  auto* entry = io_uring_get_sqe(ring_.get());
  while (!entry) {
    io_uring_submit(ring_.get());
    entry = io_uring_get_sqe(ring_.get());
  }
  return entry;
}

uring::operation uring::openat(int directory, const char* path, int flags, mode_t mode) {
  auto* entry = next_entry();
  io_uring_prep_openat(entry, directory, path, flags | O_CLOEXEC, mode);
  return operation{entry};
}

uring::operation uring::close(int file) {
  auto* entry = next_entry();
  io_uring_prep_close(entry, file);
  return operation{entry};
}

uring::operation uring::read(int file, void* data, unsigned bytes) {
  auto* entry = next_entry();
  io_uring_prep_read(entry, file, data, bytes, 0);
  return operation{entry};
}

uring::operation uring::readv(int file, const iovec* parts, unsigned count, std::uint64_t offset) {
  auto* entry = next_entry();
  io_uring_prep_readv(entry, file, parts, count, offset);
  return operation{entry};
}

uring::operation uring::writev(int file, const iovec* parts, unsigned count, std::uint64_t offset) {
  auto* entry = next_entry();
  io_uring_prep_writev(entry, file, parts, count, offset);
  return operation{entry};
}

uring::operation uring::allocate(int file, std::uint64_t bytes) {
  auto* entry = next_entry();
  io_uring_prep_fallocate(entry, file, 0, 0, static_cast<off_t>(bytes));
  return operation{entry};
}

uring::operation uring::datasync(int file) {
  auto* entry = next_entry();
  io_uring_prep_fsync(entry, file, IORING_FSYNC_DATASYNC);
  return operation{entry};
}

uring::operation uring::stat_size(int directory, const char* path, struct statx* to) {
  auto* entry = next_entry();
  io_uring_prep_statx(entry, directory, path, AT_SYMLINK_NOFOLLOW, STATX_SIZE, to);
  return operation{entry};
}

uring::operation uring::renameat(int directory, const char* from, const char* to) {
  auto* entry = next_entry();
  io_uring_prep_renameat(entry, directory, from, directory, to, 0);
  return operation{entry};
}

uring::operation uring::unlinkat(int directory, const char* path) {
  auto* entry = next_entry();
  io_uring_prep_unlinkat(entry, directory, path, 0);
  return operation{entry};
}

uring::operation uring::mkdirat(int directory, const char* path, mode_t mode) {
  auto* entry = next_entry();
  io_uring_prep_mkdirat(entry, directory, path, mode);
  return operation{entry};
}

} // namespace dualpath::storage
