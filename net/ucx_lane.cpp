#include "net/ucx_lane.hpp"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dualpath::net {
namespace {

/// How long a closing lane waits for its bye to leave.
constexpr core::duration bye_time = std::chrono::milliseconds{200};
/// Completions start the next transfers, which go out before the lane looks after anything else; but not for
/// ever.
constexpr int pump_turns = 8;
constexpr core::duration discard_poll = std::chrono::milliseconds{1};
constexpr core::duration quiet_time = std::chrono::milliseconds{30}, quiet_limit = std::chrono::seconds{1},
                         flush_limit = std::chrono::seconds{3};
constexpr int progress_batch = 64;

} // namespace

core::result<std::unique_ptr<ucx_lane>> ucx_lane::open(lane which, ucx_lane_options options,
                                                       core::clock& clock, ucx_lane_host& host) {
  std::unique_ptr<ucx_lane> out{new ucx_lane{which, std::move(options), clock, host}};
  auto context = ucx_context::open(which, out->options_.transports, out->options_.settings);
  if (!context) return context.error();
  out->context_ = std::move(*context);
  auto published = out->open_worker();
  if (!published) return published.error();
  out->worker_ = std::move(*published);
  out->wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (out->wake_fd_ < 0) {
    return core::error{core::errc::unsupported,
                       "no event descriptor for a lane's thread: raise the limit of open files"};
  }
  return out;
}

ucx_lane::ucx_lane(lane which, ucx_lane_options options, core::clock& clock, ucx_lane_host& host)
    : lane_{which}, options_{std::move(options)}, clock_{clock}, host_{host}, crew_{options_.copy_helpers} {}

ucx_lane::~ucx_lane() {
  begin_stop();
  stop();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void ucx_lane::start() {
  thread_ = std::thread{[this] { run(); }};
}

void ucx_lane::run() {
  running_ = this;
  // Linux keeps it by thread. Where it is not permitted, lanes share the CPU evenly.
  if (auto self = static_cast<id_t>(gettid()); options_.niceness != 0)
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + options_.niceness);
  while (!finished_) {
    bool busy = take_commands();
    auto now = clock_.now();
    if (now >= next_deadline_) check_deadlines(now);
    busy |= pump_endpoints();
    busy |= progress();
    busy |= take_commands(); // what another lane posted before the peer was answered comes before what it
                             // says next
    busy |= read_letters();
    busy |= send_answers();
    busy |= retire_broken();
    if (std::exchange(untidy_, false) || !corpses_.empty() || !spent_.empty()) reap(now);
    if (stopping_) step_stop();
    if (busy) {
      last_busy_ = now;
    } else if (options_.busy_poll.count() == 0 || now - last_busy_ >= options_.busy_poll) {
      sleep();
    }
  }
  running_ = nullptr;
  for (auto& left : std::exchange(own_, {})) enqueue(std::move(left));
  release_all();
}

void ucx_lane::release_all() {
  struct leftovers {
    std::unique_ptr<ucx_context> context;
    std::vector<std::unique_ptr<ucx_endpoint>> endpoints; ///< with their workers
  };
  auto stuck =
      std::partition(corpses_.begin(), corpses_.end(), [](auto& corpse) { return !corpse->stuck(); });
  if (stuck != corpses_.end()) {
    // UCX would abort the process: they stay, with what they stand on, until it ends.
    static std::mutex mutex;
    static auto& kept = *new std::vector<leftovers>;
    leftovers here{std::move(context_), {std::move_iterator{stuck}, std::move_iterator{corpses_.end()}}};
    std::lock_guard lock{mutex};
    kept.push_back(std::move(here));
    corpses_.erase(stuck, corpses_.end());
  }
  for (auto& corpse : corpses_) corpse->let_go_of_worker();
  spent_.clear();
  outgoing_.reset();
  worker_.reset();
  for (auto& corpse : corpses_) corpse->give_up();
  corpses_.clear();
  regions_.clear();
}

bool ucx_lane::pump_endpoints() {
  if (to_pump_.empty()) return false;
  for (int turn = 0; turn < pump_turns && !to_pump_.empty(); ++turn) {
    std::swap(pumping_, to_pump_);
    for (auto endpoint : pumping_) endpoint->pump_queued = false;
    for (auto endpoint : pumping_) {
      if (endpoint->pump()) wants_pump(*endpoint);
    }
    pumping_.clear();
    if (!own_.empty()) take_commands();
  }
  return true;
}

template <class Visit>
void ucx_lane::for_each_worker(Visit visit) {
  visit(*worker_);
  if (outgoing_) visit(*outgoing_);
  for (auto& worker : spent_) visit(*worker);
  auto visit_own = [&](auto& endpoint) {
    if (endpoint && endpoint->owns_worker()) visit(*endpoint->kept_worker());
  };
  for (auto& place : slots_) {
    visit_own(place.asking);
    visit_own(place.answering);
  }
  for (auto& each : couriers_) visit_own(each.endpoint);
  for (auto& corpse : corpses_) visit_own(corpse);
}

/// Whether something came up that the lane has to do itself. The peer waits for it: while bytes keep coming,
/// it must not wait until there are none.
bool ucx_lane::has_work() const {
  return posted_.load(std::memory_order_acquire) || !own_.empty() || !letters_.empty() || !answers_.empty()
         || !to_pump_.empty() || !broken_.empty();
}

bool ucx_lane::progress() {
  bool any = false;
  for_each_worker([&](ucx_worker& worker) {
    int count = 0;
    while (count < progress_batch && ucp_worker_progress(worker.handle()) != 0) {
      ++count;
      if (has_work()) break;
    }
    any |= count != 0;
  });
  return any;
}

bool ucx_lane::retire_broken() {
  if (broken_.empty()) return false;
  for (auto endpoint : std::exchange(broken_, {})) {
    auto peer = endpoint->peer();
    auto why = ucx_failure("the connection to " + peer->name() + " on lane " + to_string(lane_) + " broke",
                           endpoint->break_status());
    bool held = slot_of(*peer).holds(*endpoint);
    retire(*endpoint, why);
    if (held) lost_end(peer, why.text);
  }
  return true;
}

/// The peer closed an end on this lane, or it broke. On the control lane the peer is gone with the last one.
void ucx_lane::lost_end(const std::shared_ptr<ucx_peer>& peer, const std::string& why) {
  if (lane_ != lane::control) return;
  if (slot_of(*peer).handshake.empty()) {
    host_.lost(peer, why);
  } else {
    host_.reconnected(peer);
  }
}

void ucx_lane::check_deadlines(core::instant now) {
  for (auto& place : slots_) {
    if (!place.handshake.empty()) check_slot(place, now);
  }
  for (auto& each : couriers_) (void)each.endpoint->expire(now);
  reap(now);
  next_deadline_ = no_deadline;
  for (auto& place : slots_) {
    for (auto end : {place.asking.get(), place.answering.get()}) {
      if (end != nullptr) set_deadline(end->next_deadline());
    }
    for (auto& waiting : place.waiters) set_deadline(waiting.deadline);
  }
  for (auto& each : couriers_) set_deadline(std::min(each.until, each.endpoint->next_deadline()));
  for (auto& corpse : corpses_) {
    // UCX may never let go of one.
    auto next = corpse->next_deadline();
    if (next != no_deadline) set_deadline(std::max(next, now + discard_poll));
  }
  for (auto& worker : spent_) {
    if (worker.use_count() == 1) set_deadline(now + discard_poll);
  }
}

void ucx_lane::check_slot(slot& place, core::instant now) {
  auto peer = place.current()->peer();
  bool was_open = place.handshake.open();
  bool fence = false;
  for (auto end : {place.asking.get(), place.answering.get()}) {
    if (end == nullptr) continue;
    fence |= end->expire(now);
    if (end->wants_alive(now)) send_internal(*end, letter_kind::alive, {}, false, no_deadline);
  }
  std::vector<waiter> late;
  std::erase_if(place.waiters, [&](auto& waiting) {
    if (waiting.deadline > now) return false;
    late.push_back(std::move(waiting));
    return true;
  });
  for (auto& waiting : late) {
    waiting.on_done(
        core::error{core::errc::timed_out, "connecting to " + peer->name() + " passed its deadline"});
  }
  bool given_up = !late.empty() && place.waiters.empty() && !was_open;
  if (!fence && !given_up) return;
  close_slot(place, {core::errc::disconnected, "lane " + std::string{to_string(lane_)} + " to " + peer->name()
                                                   + " was closed because a transfer timed out"});
  if (was_open) renew(peer);
}

/// What the jobs of an endpoint that said bye end with.
core::error ucx_lane::parting(const ucx_endpoint& endpoint) const {
  if (stopping_) return closed_error();
  return {core::errc::disconnected, "the connection to " + endpoint.peer()->name() + " was closed"};
}

void ucx_lane::reap(core::instant now) {
  std::erase_if(corpses_, [&](auto& corpse) { return corpse->reap(now); });
  std::erase_if(spent_, [&](auto& worker) {
    if (worker.use_count() != 1) return false;
    set_deadline(now + discard_poll);
    return worker->flush(now, options_.limits.fence_grace);
  });
  for (std::size_t i = couriers_.size(); i-- > 0;) {
    auto& endpoint = *couriers_[i].endpoint;
    if (endpoint.said_bye || now >= couriers_[i].until) retire(endpoint, parting(endpoint));
  }
}

void ucx_lane::begin_stop() {
  post([](ucx_lane& self) {
    if (std::exchange(self.stopping_, true)) return;
    self.stopped_at_ = self.clock_.now();
    for (auto& place : self.slots_) {
      if (place.handshake.empty()) continue;
      if (self.lane_ == lane::control) {
        self.leave_peer(*place.current()->peer(), "closed");
      } else {
        self.close_slot(place, closed_error());
      }
    }
  });
}

void ucx_lane::stop() {
  if (thread_.joinable()) thread_.join();
}

void ucx_lane::step_stop() {
  reap(clock_.now());
  for (std::size_t i = couriers_.size(); i-- > 0;) {
    if (!couriers_[i].endpoint->leaving) retire(*couriers_[i].endpoint, closed_error());
  }
  // UCX aborts a process that destroys a worker whose endpoints are still being closed. What is still under
  // way after that ends with its worker.
  if (!couriers_.empty() || (!corpses_.empty() && clock_.now() < retired_at_ + flush_limit)) return;
  // UCX aborts a process that destroys a worker while a peer is connecting to it, so the last word is
  // silence.
  auto now = clock_.now();
  auto ready_at = std::min(last_busy_ + quiet_time, stopped_at_ + quiet_limit);
  if (now < ready_at) return set_deadline(ready_at);
  flushing_ = true;
  bool flushed = true;
  for_each_worker([&](ucx_worker& worker) { flushed &= worker.flush(now, options_.limits.fence_grace); });
  finished_ = flushed;
}

void ucx_lane::sleep() {
  sleeping_ = true;
  auto awake = [&] { sleeping_ = false; };
  {
    std::lock_guard lock{mutex_};
    if (!commands_.empty()) return awake();
  }
  bool busy = finished_;
  descriptors_.assign(1, {wake_fd_, POLLIN, 0});
  for_each_worker([&](ucx_worker& worker) {
    if (busy || ucp_worker_arm(worker.handle()) == UCS_ERR_BUSY) {
      busy = true;
    } else {
      descriptors_.push_back({worker.event_fd(), POLLIN, 0});
    }
  });
  if (busy) return awake();
  for_each_worker([&](ucx_worker& worker) { busy |= ucp_worker_progress(worker.handle()) != 0; });
  if (busy || has_work()) return awake();
  auto left = no_deadline;
  if (next_deadline_ != no_deadline) left = std::max(core::duration{0}, next_deadline_ - clock_.now());
  // UCX raises no event for what it still has to discard of a closed endpoint, nor for the end of a flush.
  if (flushing_ || (stopping_ && !corpses_.empty())
      || std::any_of(corpses_.begin(), corpses_.end(), [](auto& corpse) { return corpse->unsettled(); })) {
    left = std::min(left, discard_poll);
  }
  timespec wait{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  ppoll(descriptors_.data(), descriptors_.size(), left == no_deadline ? nullptr : &wait, nullptr);
  awake();
  wake_ups_.fetch_add(1, std::memory_order_relaxed);
  if ((descriptors_[0].revents & POLLIN) != 0) {
    std::uint64_t count;
    [[maybe_unused]] auto got = ::read(wake_fd_, &count, sizeof count);
  }
}

void ucx_lane::connect(const std::shared_ptr<ucx_peer>& peer, core::instant deadline,
                       fabric::connected on_done) {
  if (stopping_) return on_done(closed_error());
  auto& place = slot_of(*peer);
  if (place.handshake.open()) {
    host_.hands_shaken(peer);
    return on_done(peer->id);
  }
  if (place.handshake.empty()) {
    if (auto asked = ask(peer); !asked) return on_done(asked.error());
  }
  place.waiters.push_back({deadline, std::move(on_done)});
  set_deadline(deadline);
}

void ucx_lane::close_peer(const std::shared_ptr<ucx_peer>& peer, const core::error& why) {
  auto& place = slot_of(*peer);
  if (place.handshake.empty()) return;
  close_slot(place, why);
  renew(peer);
}

void ucx_lane::close_slot(slot& place, const core::error& why) {
  // What waits on the first goes over to the second, and ends with it.
  if (place.asking) retire(*place.asking, why);
  if (place.answering) retire(*place.answering, why);
}

void ucx_lane::renew(const std::shared_ptr<ucx_peer>& peer) {
  if (!stopping_ && peer->up && slot_of(*peer).handshake.empty()) (void)ask(peer);
}

void ucx_lane::leave_peer(ucx_peer& peer, const std::string& reason) {
  if (!stopping_) peer.up = false; // a handshake may have come in between
  auto& place = slot_of(peer);
  bool open = place.handshake.open();
  if (place.asking && place.asking->status() != ucx_endpoint::state::ready)
    retire(*place.asking, {core::errc::disconnected, "the connection to " + peer.name() + " was closed"});
  if (!open) return;
  for (auto end : {place.asking.get(), place.answering.get()}) {
    if (end == nullptr) continue;
    end->leaving = true;
    couriers_.push_back({take_out(*end), clock_.now() + bye_time});
    send_internal(*end, letter_kind::bye, wire::encode(wire::bye{own_instance(), end->generation(), reason}),
                  true, no_deadline);
    set_deadline(couriers_.back().until);
  }
}

ucx_lane::slot& ucx_lane::slot_of(const ucx_peer& peer) {
  if (slots_.size() <= peer.id.value) slots_.resize(peer.id.value + 1);
  return slots_[peer.id.value];
}

core::result<ucx_endpoint*> ucx_lane::ask(const std::shared_ptr<ucx_peer>& peer) {
  auto& place = slot_of(*peer);
  auto greeting = place.handshake.ask();
  auto& address = peer->addresses[static_cast<std::size_t>(lane_)];
  auto worker = worker_towards(address);
  auto made = worker ? make_endpoint(peer, greeting.generation, address, *worker)
                     : core::result<std::unique_ptr<ucx_endpoint>>{worker.error()};
  if (!made) {
    place.handshake.closed(greeting.generation);
    return made.error();
  }
  place.asking = std::move(*made);
  auto& out = *place.asking;
  if (lane_ == lane::control) peer->asked = true;
  wire::hello hello{host_.own_address(), peer->who.instance,   greeting.generation,
                    greeting.heard,      (*worker)->address(), {}};
  hello.proof = host_.prove(hello);
  send_internal(out, letter_kind::hello, wire::encode(hello), false, no_deadline);
  return &out;
}

core::result<ucx_endpoint*> ucx_lane::answer(const std::shared_ptr<ucx_peer>& peer, const wire::hello& hello,
                                             std::uint64_t generation) {
  auto& place = slot_of(*peer);
  // The worker that the hello reached holds the other end already. UCX keeps it, with all that is mapped,
  // until somebody takes and closes it.
  auto made = make_endpoint(peer, generation, hello.reply_to, nullptr);
  if (!made) {
    place.handshake.closed(generation);
    return made.error();
  }
  place.answering = std::move(*made);
  place.answering->heard();
  return place.answering.get();
}

core::result<std::shared_ptr<ucx_worker>> ucx_lane::open_worker() {
  auto opened = ucx_worker::open(lane_, context_->handle());
  if (!opened) return opened.error();
  register_letters((*opened)->handle());
  return std::shared_ptr<ucx_worker>{std::move(*opened)};
}

core::result<std::shared_ptr<ucx_worker>> ucx_lane::worker_towards(const wire::bytes& address) {
  // A worker that has had an end of a connection with another would not be understood if it made one anew.
  bool first = met_.emplace(reinterpret_cast<const char*>(address.data()), address.size()).second;
  if (!first) return open_worker();
  if (!outgoing_) {
    auto opened = open_worker();
    if (!opened) return opened.error();
    outgoing_ = std::move(*opened);
  }
  return outgoing_;
}

core::result<std::unique_ptr<ucx_endpoint>> ucx_lane::make_endpoint(const std::shared_ptr<ucx_peer>& peer,
                                                                    std::uint64_t generation,
                                                                    const wire::bytes& address,
                                                                    std::shared_ptr<ucx_worker> worker) {
  auto endpoint = std::make_unique<ucx_endpoint>(static_cast<ucx_endpoint_owner&>(*this), options_.limits,
                                                 lane_, peer, generation);
  auto handle = worker ? worker->handle() : worker_->handle();
  if (auto opened = endpoint->open(handle, std::move(worker), address, clock_.now()); !opened)
    return opened.error();
  return endpoint;
}

/// From its slot or from the couriers; null if it was taken out already.
std::unique_ptr<ucx_endpoint> ucx_lane::take_out(ucx_endpoint& endpoint) {
  auto& place = slot_of(*endpoint.peer());
  if (place.holds(endpoint)) {
    place.handshake.closed(endpoint.generation());
    return std::move(place.asking.get() == &endpoint ? place.asking : place.answering);
  }
  auto found = std::find_if(couriers_.begin(), couriers_.end(),
                            [&](auto& each) { return each.endpoint.get() == &endpoint; });
  if (found == couriers_.end()) return nullptr;
  auto out = std::move(found->endpoint);
  couriers_.erase(found);
  return out;
}

void ucx_lane::retire(ucx_endpoint& endpoint, const core::error& why) {
  auto& place = slot_of(*endpoint.peer());
  bool held = place.holds(endpoint);
  bool asked = place.asking.get() == &endpoint;
  auto taken = take_out(endpoint);
  if (!taken) return;
  corpses_.push_back(std::move(taken));
  std::erase(to_pump_, &endpoint);
  std::erase(broken_, &endpoint);
  if (auto other = held ? place.current() : nullptr) {
    for (auto& job : endpoint.take_waiting()) other->add(std::move(job));
  }
  if (outgoing_ && endpoint.kept_worker() == outgoing_) spent_.push_back(std::exchange(outgoing_, nullptr));
  retired_at_ = clock_.now();
  endpoint.close(why, retired_at_);
  set_deadline(endpoint.next_deadline());
  if (asked && lane_ == lane::control) host_.handshake_over(endpoint.peer());
  if (!held || place.current() != nullptr) return;
  for (auto& waiting : std::exchange(place.waiters, {})) waiting.on_done(why);
}

void ucx_lane::send_internal(ucx_endpoint& endpoint, letter_kind kind, wire::bytes data, bool flushed,
                             core::instant deadline) {
  auto job = std::make_unique<ucx_job>();
  job->what = ucx_job::kind::send;
  job->internal = true;
  job->needs_flush = flushed;
  job->peer = endpoint.peer().get();
  job->deadline = deadline;
  job->bytes = data.size();
  job->message_id = static_cast<unsigned>(kind);
  job->payload = std::move(data);
  set_deadline(deadline);
  endpoint.add(std::move(job));
}

void ucx_lane::wants_pump(ucx_endpoint& endpoint) {
  if (endpoint.status() == ucx_endpoint::state::closing || std::exchange(endpoint.pump_queued, true)) return;
  to_pump_.push_back(&endpoint);
}

void ucx_lane::broke(ucx_endpoint& endpoint) { broken_.push_back(&endpoint); }

} // namespace dualpath::net
