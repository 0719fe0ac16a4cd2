#include "net/verbs_copy.hpp"

#include "net/piece_cursor.hpp"
#include "net/verbs_loop.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace dualpath::net {
namespace {

constexpr int most_starts = 3; ///< of a copy that others made start over

struct job {
  std::shared_ptr<verbs_memory> from, to;
  std::vector<core::strided_piece> pieces;
  verbs_copy::done on_done;
  piece_cursor rest{};         ///< what is not posted
  std::uint64_t posted_to = 0; ///< number after its last posted write
  bool started = false;
  int starts = 0;
  std::optional<core::error> failure{}; ///< of its own
};

/// A copy that has ended, to be told outside the lock.
struct ending {
  verbs_copy::done on_done;
  core::result<void> outcome;
};

/// The copies of one device; shared with the thread that ends them, which may outlive its owner.
class copy_queue {
public:
  using done = verbs_copy::done;

  copy_queue(std::unique_ptr<verbs_loop> loop, int wake_fd) : loop_{std::move(loop)}, wake_fd_{wake_fd} {}
  ~copy_queue() { close(wake_fd_); }
  copy_queue(const copy_queue&) = delete;

  const std::string& device() const { return loop_->device(); }
  core::result<core::region_id> attach(std::span<std::byte> bytes, bool writable);
  void release(core::region_id region);
  void copy(core::region_id from, core::region_id to, std::vector<core::strided_piece> pieces, done on_done);
  verbs_copy_counters counters() const {
    std::lock_guard lock{mutex_};
    return counters_;
  }
  /// Begins to end what is under way.
  void begin_closing();
  /// Ends copies until closed, and every one of them has ended.
  void run();
  /// Registered memory is its owner's again.
  void forget_memory();

private:
  std::optional<core::error> prepare(core::region_id from, core::region_id to, job& one);
  void wake() {
    std::uint64_t one = 1;
    while (::write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  bool serve();
  std::optional<ending> next_ending();

  // Under the lock.
  void post_ready();
  bool gather(std::size_t room);
  void take_completion(const ibv_wc& completion);
  void end_front(core::result<void> outcome);
  void end_finished();
  void start_over();

  std::unique_ptr<verbs_loop> loop_;
  const int wake_fd_;

  mutable std::mutex mutex_;
  std::map<core::region_id, std::shared_ptr<verbs_memory>> regions_;
  std::uint32_t last_region_ = 0;
  std::deque<job> jobs_;       ///< in the order of their writes
  std::deque<ending> endings_; ///< to be told
  std::vector<loop_write> chain_;
  std::uint64_t next_number_ = 1; ///< of the next write
  std::uint64_t retired_ = 1;     ///< writes below it are over
  bool broken_ = false;           ///< nothing is posted until start_over()
  bool flushing_ = false;         ///< every write from retired_ on fails
  bool post_failed_ = false;      ///< writes may be under way that will not tell when they are over
  bool closing_ = false;
  verbs_copy_counters counters_;
};

class looped_copy final : public verbs_copy {
public:
  looped_copy(std::unique_ptr<verbs_loop> loop, int wake_fd)
      : queue_{std::make_shared<copy_queue>(std::move(loop), wake_fd)}, thread_{[queue = queue_] {
          queue->run();
        }} {}
  ~looped_copy() override;

  const std::string& device() const override { return queue_->device(); }
  core::result<core::region_id> attach(std::span<std::byte> bytes) override {
    return queue_->attach(bytes, true);
  }
  core::result<core::region_id> attach_source(std::span<const std::byte> bytes) override {
    return queue_->attach({const_cast<std::byte*>(bytes.data()), bytes.size()}, false);
  }
  void release(core::region_id region) override { queue_->release(region); }
  void copy(core::region_id from, core::region_id to, std::vector<core::strided_piece> pieces,
            done on_done) override {
    queue_->copy(from, to, std::move(pieces), std::move(on_done));
  }
  verbs_copy_counters counters() const override { return queue_->counters(); }

private:
  std::shared_ptr<copy_queue> queue_;
  std::thread thread_;
};

looped_copy::~looped_copy() {
  queue_->begin_closing();
  if (thread_.get_id() != std::this_thread::get_id()) {
    thread_.join();
    return;
  }
  // Inside a completion: the thread cannot wait for itself, so the rest ends here.
  thread_.detach();
  queue_->run();
  queue_->forget_memory();
}

void copy_queue::begin_closing() {
  {
    std::lock_guard lock{mutex_};
    closing_ = broken_ = true;
    loop_->fail();
  }
  wake();
}

core::result<core::region_id> copy_queue::attach(std::span<std::byte> bytes, bool writable) {
  if (bytes.empty()) return core::error{core::errc::invalid_argument, "a memory region cannot have 0 bytes"};
  auto memory = loop_->attach(bytes, writable);
  if (!memory) return memory.error();
  std::lock_guard lock{mutex_};
  core::region_id id{++last_region_};
  regions_.emplace(id, std::move(*memory));
  return id;
}

void copy_queue::release(core::region_id region) {
  std::shared_ptr<verbs_memory> freed; // outside the lock; copies under way hold theirs
  std::lock_guard lock{mutex_};
  if (auto found = regions_.find(region); found != regions_.end()) {
    freed = std::move(found->second);
    regions_.erase(found);
  }
}

std::optional<core::error> copy_queue::prepare(core::region_id from, core::region_id to, job& one) {
  if (closing_) return core::error{core::errc::closed, "the copies of " + loop_->device() + " are closing"};
  for (auto [id, memory] : {std::pair{from, &one.from}, std::pair{to, &one.to}}) {
    auto found = regions_.find(id);
    if (found == regions_.end())
      return core::error{core::errc::invalid_argument,
                         "there is no memory region " + std::to_string(id.value)};
    *memory = found->second;
  }
  auto checked = check_pieces(one.pieces, one.from->bytes().size(), one.to->bytes().size());
  if (!checked) return checked.error();
  one.rest = piece_cursor{one.pieces, loop_->max_write_bytes()};
  return {};
}

void copy_queue::copy(core::region_id from, core::region_id to, std::vector<core::strided_piece> pieces,
                      done on_done) {
  job one{.from = {}, .to = {}, .pieces = std::move(pieces), .on_done = std::move(on_done)};
  std::lock_guard lock{mutex_};
  if (auto refused = prepare(from, to, one)) {
    endings_.push_back({std::move(one.on_done), std::move(*refused)});
    return wake();
  }
  jobs_.push_back(std::move(one));
  post_ready();
  if (jobs_.back().started && jobs_.back().posted_to == 0) wake(); // it had no bytes
}

/// Fills the chain with what comes next, at most `room` writes. False where nothing does.
bool copy_queue::gather(std::size_t room) {
  chain_.clear();
  for (auto& one : jobs_) {
    if (one.started && one.rest.at_end()) continue;
    if (chain_.size() == room) break;
    one.started = true;
    while (!one.rest.at_end() && chain_.size() < room) {
      auto next = one.rest.next();
      chain_.push_back({one.from->bytes().data() + next.local_offset,
                        one.to->bytes().data() + next.remote_offset, one.from->local_key(),
                        one.to->remote_key(), static_cast<std::uint32_t>(next.bytes),
                        next_number_ + chain_.size()});
      one.posted_to = chain_.back().number + 1;
    }
  }
  return !chain_.empty();
}

void copy_queue::post_ready() {
  while (!broken_) {
    // Two chains fill the queue, so that one is under way while the room of the other is filled again.
    auto under_way = next_number_ - retired_;
    auto half = std::max<std::uint64_t>(loop_->queue_depth() / 2, 1);
    if (under_way + half > loop_->queue_depth() || !gather(half)) return;
    auto posted = loop_->post(chain_);
    ++counters_.doorbells;
    counters_.work_requests += posted;
    next_number_ += posted;
    if (posted == chain_.size()) continue;
    broken_ = post_failed_ = true;
    wake();
  }
}

void copy_queue::take_completion(const ibv_wc& completion) {
  auto number = completion.wr_id;
  if (number < retired_) return; // of before a reset
  if (completion.status == IBV_WC_SUCCESS) {
    retired_ = number + 1;
    return end_finished();
  }
  if (!flushing_) { // those before the first failure are done, and those behind it are not
    retired_ = number;
    end_finished();
    broken_ = flushing_ = true;
  }
  retired_ = number + 1;
  if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
  for (auto& one : jobs_) {
    if (!one.started || one.posted_to <= number) continue;
    one.failure = core::error{core::errc::io, "RDMA device " + loop_->device() + " refused a copy: "
                                                  + ibv_wc_status_str(completion.status)};
    return;
  }
}

void copy_queue::end_front(core::result<void> outcome) {
  auto& one = jobs_.front();
  if (outcome) {
    ++counters_.copies;
    counters_.bytes += core::total_bytes(one.pieces);
  } else {
    ++counters_.failed;
  }
  endings_.push_back({std::move(one.on_done), std::move(outcome)});
  jobs_.pop_front();
}

/// Writes end in order, so copies do.
void copy_queue::end_finished() {
  while (!flushing_ && !post_failed_ && !jobs_.empty()) {
    auto& one = jobs_.front();
    if (!one.started || !one.rest.at_end() || one.posted_to > retired_) return;
    end_front({});
  }
}

/// Everything posted is over, some of it failed; or nobody knows, and the reset ends it.
void copy_queue::start_over() {
  auto reset = loop_->reset();
  retired_ = next_number_;
  flushing_ = post_failed_ = false;
  std::deque<job> again;
  while (!jobs_.empty()) {
    auto& one = jobs_.front();
    if (one.failure) {
      end_front(*one.failure);
    } else if (closing_) {
      end_front(core::error{core::errc::closed, "the copies of " + loop_->device() + " are closing"});
    } else if (!reset) {
      end_front(reset.error());
    } else if (one.started && ++one.starts == most_starts) {
      end_front(core::error{core::errc::io, "RDMA device " + loop_->device() + " failed a copy "
                                                + std::to_string(most_starts) + " times"});
    } else {
      one.rest = piece_cursor{one.pieces, loop_->max_write_bytes()};
      one.started = false;
      one.posted_to = 0;
      again.push_back(std::move(one));
      jobs_.pop_front();
    }
  }
  jobs_ = std::move(again);
  // A device that could not be reset refuses the next post, and is reset again.
  broken_ = closing_;
}

/// Waits for what ended, and posts what there is room for. False when it is all over.
bool copy_queue::serve() {
  pollfd waits[] = {{loop_->event_fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  ::poll(waits, 2, -1);
  std::uint64_t count = 0;
  if (waits[1].revents != 0 && ::read(wake_fd_, &count, sizeof count) < 0 && errno != EAGAIN) return false;
  std::array<ibv_wc, 64> completions;
  std::lock_guard lock{mutex_};
  ++counters_.wake_ups;
  loop_->arm();
  // Polled after arming, so that nothing that ended in between is slept over.
  while (auto ready = loop_->poll(completions)) {
    for (std::size_t i = 0; i < ready; ++i) take_completion(completions[i]);
  }
  end_finished();
  if (broken_ && (post_failed_ || retired_ == next_number_)) start_over();
  post_ready();
  end_finished();
  return true;
}

std::optional<ending> copy_queue::next_ending() {
  std::lock_guard lock{mutex_};
  if (endings_.empty()) return {};
  auto next = std::move(endings_.front());
  endings_.pop_front();
  return next;
}

void copy_queue::run() {
  for (;;) {
    // Taken one by one: a completion may close the queue, which tells the rest.
    while (auto next = next_ending()) next->on_done(std::move(next->outcome));
    {
      std::lock_guard lock{mutex_};
      if (closing_ && jobs_.empty() && endings_.empty()) return;
    }
    if (!serve()) return;
  }
}

void copy_queue::forget_memory() {
  std::map<core::region_id, std::shared_ptr<verbs_memory>> freed; // outside the lock
  std::lock_guard lock{mutex_};
  freed.swap(regions_);
}

} // namespace

core::result<std::unique_ptr<verbs_copy>> open_verbs_copy(const verbs_copy_options& options) {
  auto loop = verbs_loop::open(options);
  if (!loop) return loop.error();
  alignas(4096) static std::array<std::byte, 4096> trial;
  if (auto registered = (*loop)->attach(trial, true); !registered) return registered.error();
  int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0)
    return core::error{core::errc::io, std::string{"cannot make an eventfd for copies: "}
                                           + std::strerror(errno)
                                           + "; raise the limit of open files (ulimit -n)"};
  return std::unique_ptr<verbs_copy>{std::make_unique<looped_copy>(std::move(*loop), wake_fd)};
}

} // namespace dualpath::net
