#include "net/ucx_lane.hpp"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace dualpath::net {
namespace {

/// How long a closing lane waits for its bye to leave.
constexpr core::duration bye_time = std::chrono::milliseconds{200};
constexpr core::duration discard_poll = std::chrono::milliseconds{1};
constexpr core::duration quiet_time = std::chrono::milliseconds{30}, quiet_limit = std::chrono::seconds{1},
                         flush_limit = std::chrono::seconds{3};
constexpr int progress_batch = 64;

core::error closed_error() { return {core::errc::closed, "the fabric is closing"}; }

} // namespace

core::result<std::unique_ptr<ucx_lane>> ucx_lane::open(lane which, ucx_lane_options options,
                                                       core::clock& clock, ucx_lane_host& host) {
  std::unique_ptr<ucx_lane> out{new ucx_lane{which, std::move(options), clock, host}};
  auto context = ucx_context::open(which, out->options_.transports, out->options_.settings);
  if (!context) return context.error();
  out->context_ = std::move(*context);
  for (auto worker : {&ucx_lane::worker_, &ucx_lane::outgoing_}) {
    auto made = ucx_worker::open(which, out->context_->handle());
    if (!made) return made.error();
    (*out).*worker = std::move(*made);
    out->register_letters(((*out).*worker)->handle());
  }
  out->wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (out->wake_fd_ < 0) {
    return core::error{core::errc::unsupported,
                       "no event descriptor for a lane's thread: raise the limit of open files"};
  }
  return out;
}

ucx_lane::ucx_lane(lane which, ucx_lane_options options, core::clock& clock, ucx_lane_host& host)
    : lane_{which}, options_{std::move(options)}, clock_{clock}, host_{host} {}

ucx_lane::~ucx_lane() {
  begin_stop();
  stop();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void ucx_lane::start() {
  thread_ = std::thread{[this] { run(); }};
}

void ucx_lane::post(std::unique_ptr<ucx_job> job) { enqueue(std::move(job)); }
void ucx_lane::post(action act) { enqueue(std::move(act)); }

void ucx_lane::enqueue(command c) {
  {
    std::lock_guard lock{mutex_};
    commands_.push_back(std::move(c));
  }
  // The thread announces its sleep before it looks at the commands for the last time, so one of both sees the
  // other.
  if (sleeping_.load() && sleeping_.exchange(false)) {
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = ::write(wake_fd_, &one, sizeof one);
  }
}

void ucx_lane::run() {
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
    if (std::exchange(untidy_, false) || !corpses_.empty()) reap(now);
    if (stopping_) step_stop();
    if (busy) {
      last_busy_ = now;
    } else if (options_.busy_poll.count() == 0 || now - last_busy_ >= options_.busy_poll) {
      sleep();
    }
  }
  corpses_.clear(); // their keys belong to the worker
  outgoing_.reset();
  worker_.reset();
}

bool ucx_lane::drain() { return take_commands(); }

bool ucx_lane::take_commands() {
  {
    std::lock_guard lock{mutex_};
    std::swap(taken_, commands_);
  }
  bool any = !taken_.empty();
  for (auto& next : taken_) {
    if (auto job = std::get_if<std::unique_ptr<ucx_job>>(&next)) {
      add_job(std::move(*job));
    } else {
      std::get<action>(next)(*this);
    }
  }
  taken_.clear();
  return any;
}

void ucx_lane::add_job(std::unique_ptr<ucx_job> job) {
  if (job->failure) return host_.report(lane_, *job, *job->failure);
  if (stopping_) return host_.report(lane_, *job, closed_error());
  auto& peer = job->peer;
  if (!peer->up) {
    return host_.report(
        lane_, *job,
        core::error{core::errc::disconnected, peer->name() + " is not connected: connect to it again"});
  }
  auto endpoint = slot_of(*peer).endpoint.get();
  if (endpoint == nullptr) {
    auto opened = open_endpoint(peer, nullptr);
    if (!opened) return host_.report(lane_, *job, opened.error());
    endpoint = *opened;
  }
  set_deadline(job->deadline);
  endpoint->add(std::move(job));
}

bool ucx_lane::pump_endpoints() {
  if (to_pump_.empty()) return false;
  auto batch = std::exchange(to_pump_, {});
  for (auto endpoint : batch) endpoint->pump_queued = false;
  for (auto endpoint : batch) {
    if (endpoint->pump()) wants_pump(*endpoint);
  }
  return true;
}

template <class Visit>
void ucx_lane::for_each_worker(Visit visit) {
  visit(*worker_);
  visit(*outgoing_);
  auto visit_own = [&](auto& endpoint) {
    if (endpoint && endpoint->own_worker() != nullptr) visit(*endpoint->own_worker());
  };
  for (auto& place : slots_) visit_own(place.endpoint);
  for (auto& courier : couriers_) visit_own(courier);
  for (auto& corpse : corpses_) visit_own(corpse);
}

bool ucx_lane::progress() {
  bool any = false;
  for_each_worker([&](ucx_worker& worker) {
    int count = 0;
    while (count < progress_batch && ucp_worker_progress(worker.handle()) != 0) ++count;
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
    bool was_current = slot_of(*peer).endpoint.get() == endpoint;
    retire(*endpoint, why);
    if (was_current && lane_ == lane::control) host_.lost(peer, why.text);
  }
  return true;
}

void ucx_lane::check_deadlines(core::instant now) {
  std::vector<ucx_endpoint*> late_endpoints;
  auto visit = [&](ucx_endpoint& endpoint) {
    bool fence = endpoint.expire(now);
    std::vector<ucx_endpoint::waiter> late;
    std::erase_if(endpoint.waiters, [&](auto& waiting) {
      if (waiting.deadline > now) return false;
      late.push_back(std::move(waiting));
      return true;
    });
    auto timed_out = core::error{core::errc::timed_out,
                                 "connecting to " + endpoint.peer()->name() + " passed its deadline"};
    for (auto& waiting : late) waiting.on_done(timed_out);
    auto given_up =
        !late.empty() && endpoint.waiters.empty() && endpoint.status() == ucx_endpoint::state::connecting;
    if (fence || given_up) late_endpoints.push_back(&endpoint);
  };
  for (auto& place : slots_) {
    if (place.endpoint) visit(*place.endpoint);
  }
  for (auto& courier : couriers_) visit(*courier);
  for (auto endpoint : late_endpoints) {
    auto peer = endpoint->peer();
    bool was_ready = endpoint->status() == ucx_endpoint::state::ready && !endpoint->leaving;
    retire(*endpoint,
           {core::errc::disconnected, "lane " + std::string{to_string(lane_)} + " to " + peer->name()
                                          + " was closed because a transfer timed out"});
    if (was_ready) renew(peer);
  }
  reap(now);
  next_deadline_ = no_deadline;
  for (auto& place : slots_) {
    if (place.endpoint) set_deadline(place.endpoint->next_deadline());
  }
  for (auto& courier : couriers_) set_deadline(courier->next_deadline());
  for (auto& corpse : corpses_) {
    // UCX may never let go of one.
    auto next = corpse->next_deadline();
    if (next != no_deadline) set_deadline(std::max(next, now + discard_poll));
  }
}

/// What the jobs of an endpoint that said bye end with.
core::error ucx_lane::parting(const ucx_endpoint& endpoint) const {
  if (stopping_) return closed_error();
  return {core::errc::disconnected, "the connection to " + endpoint.peer()->name() + " was closed"};
}

void ucx_lane::reap(core::instant now) {
  std::erase_if(corpses_, [&](auto& corpse) { return corpse->reap(now); });
  for (std::size_t i = couriers_.size(); i-- > 0;) {
    if (couriers_[i]->idle()) retire(*couriers_[i], closed_error());
  }
  for (auto& place : slots_) {
    if (place.endpoint && place.endpoint->said_bye) retire(*place.endpoint, parting(*place.endpoint));
  }
}

void ucx_lane::begin_stop() {
  post([](ucx_lane& self) {
    if (std::exchange(self.stopping_, true)) return;
    self.stopped_at_ = self.clock_.now();
    for (auto& place : self.slots_) {
      if (!place.endpoint) continue;
      if (self.lane_ == lane::control) {
        self.leave_peer(*place.endpoint->peer(), "closed");
      } else {
        self.retire(*place.endpoint, closed_error());
      }
    }
  });
}

void ucx_lane::stop() {
  if (thread_.joinable()) thread_.join();
}

void ucx_lane::step_stop() {
  reap(clock_.now());
  while (!couriers_.empty()) retire(*couriers_.back(), closed_error());
  bool leaving =
      std::any_of(slots_.begin(), slots_.end(), [](auto& place) { return place.endpoint != nullptr; });
  bool unsettled =
      std::any_of(corpses_.begin(), corpses_.end(), [](auto& corpse) { return corpse->unsettled(); });
  // UCX aborts a process that destroys a worker whose endpoints are still being closed.
  if (leaving || unsettled || (!corpses_.empty() && clock_.now() < stopped_at_ + flush_limit)) return;
  // UCX aborts a process that destroys a worker while a peer is connecting to it, so the last word is
  // silence.
  auto now = clock_.now();
  auto ready_at = std::max(settle_until_, std::min(last_busy_ + quiet_time, stopped_at_ + quiet_limit));
  if (now < ready_at) return set_deadline(ready_at);
  flushing_ = true;
  bool flushed = true;
  for_each_worker([&](ucx_worker& worker) { flushed &= worker.flush(); });
  finished_ = flushed || now >= stopped_at_ + flush_limit;
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
  if (busy || !letters_.empty() || !answers_.empty() || !broken_.empty() || !to_pump_.empty()) return awake();
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
  if (place.endpoint && place.endpoint->leaving) {
    retire(*place.endpoint,
           {core::errc::disconnected, "the connection to " + peer->name() + " is made anew"});
  }
  auto endpoint = place.endpoint.get();
  if (endpoint == nullptr) {
    auto opened = open_endpoint(peer, nullptr);
    if (!opened) return on_done(opened.error());
    endpoint = *opened;
  }
  if (endpoint->status() == ucx_endpoint::state::ready) {
    host_.hands_shaken(peer);
    return on_done(peer->id);
  }
  endpoint->waiters.push_back({deadline, std::move(on_done)});
  set_deadline(deadline);
}

void ucx_lane::close_peer(const std::shared_ptr<ucx_peer>& peer, const core::error& why) {
  auto& place = slot_of(*peer);
  if (!place.endpoint) return;
  retire(*place.endpoint, why);
  renew(peer);
}

/// Opens a lane anew that was closed on this side only: its hello makes the peer give up what it waits for
/// here.
void ucx_lane::renew(const std::shared_ptr<ucx_peer>& peer) {
  auto& place = slot_of(*peer);
  if (!stopping_ && peer->up && place.generation != 0 && !place.endpoint) (void)open_endpoint(peer, nullptr);
}

void ucx_lane::leave_peer(ucx_peer& peer, const std::string& reason) {
  if (!stopping_) peer.up = false; // a handshake may have come in between
  auto& place = slot_of(peer);
  if (!place.endpoint || place.endpoint->leaving) return;
  auto& endpoint = *place.endpoint;
  if (endpoint.status() != ucx_endpoint::state::ready) {
    return retire(endpoint, {core::errc::disconnected, "the connection to " + peer.name() + " was closed"});
  }
  endpoint.leaving = true;
  send_internal(
      endpoint, letter_kind::bye,
      wire::encode(wire::bye{host_.own_address().sender.who.instance, endpoint.generation(), reason}), true,
      clock_.now() + bye_time);
  if (place.endpoint && place.endpoint->said_bye) retire(*place.endpoint, parting(*place.endpoint));
}

ucx_lane::slot& ucx_lane::slot_of(const ucx_peer& peer) {
  if (slots_.size() <= peer.id.value) slots_.resize(peer.id.value + 1);
  return slots_[peer.id.value];
}

/// `answered` is the hello that the endpoint answers; without one, it says hello itself.
core::result<ucx_endpoint*> ucx_lane::open_endpoint(const std::shared_ptr<ucx_peer>& peer,
                                                    const wire::hello* answered) {
  auto& place = slot_of(*peer);
  auto& address = answered ? answered->reply_to : peer->addresses[static_cast<std::size_t>(lane_)];
  auto made = make_endpoint(peer, ++place.generation, address, answered ? worker_.get() : outgoing_.get());
  if (!made) return made.error();
  place.endpoint = std::move(*made);
  auto& out = *place.endpoint;
  out.said_hello = answered == nullptr;
  if (answered == nullptr) {
    auto own = out.own_worker();
    wire::hello hello{host_.own_address(),
                      peer->who.instance,
                      out.generation(),
                      (own ? own : outgoing_.get())->address(),
                      {}};
    hello.proof = host_.prove(hello);
    send_internal(out, letter_kind::hello, wire::encode(hello), false, no_deadline);
  } else {
    out.heard();
    out.become_ready();
  }
  return &out;
}

core::result<std::unique_ptr<ucx_endpoint>> ucx_lane::make_endpoint(const std::shared_ptr<ucx_peer>& peer,
                                                                    std::uint64_t generation,
                                                                    const wire::bytes& address,
                                                                    const ucx_worker* share) {
  // The two shared workers meet different workers: published ones and those that say hello.
  std::string key{reinterpret_cast<const char*>(address.data()), address.size()};
  bool first = share != nullptr && met_.insert(std::move(key)).second;
  auto worker = share != nullptr ? share->handle() : nullptr;
  std::unique_ptr<ucx_worker> own;
  if (!first) {
    auto opened = ucx_worker::open(lane_, context_->handle());
    if (!opened) return opened.error();
    own = std::move(*opened);
    worker = own->handle();
    register_letters(worker);
  }
  auto endpoint = std::make_unique<ucx_endpoint>(static_cast<ucx_endpoint_owner&>(*this), options_.limits,
                                                 lane_, peer, generation);
  if (auto opened = endpoint->open(worker, std::move(own), address, clock_.now()); !opened)
    return opened.error();
  return endpoint;
}

void ucx_lane::retire(ucx_endpoint& endpoint, const core::error& why) {
  auto take_from = [&](std::unique_ptr<ucx_endpoint>& owner) { corpses_.push_back(std::move(owner)); };
  auto& place = slot_of(*endpoint.peer());
  if (place.endpoint.get() == &endpoint) {
    take_from(place.endpoint);
  } else {
    auto courier =
        std::find_if(couriers_.begin(), couriers_.end(), [&](auto& c) { return c.get() == &endpoint; });
    if (courier == couriers_.end()) return; // retired already
    take_from(*courier);
    couriers_.erase(courier);
  }
  std::erase(to_pump_, &endpoint);
  std::erase(broken_, &endpoint);
  endpoint.close(why, clock_.now());
  settle_until_ = std::max(settle_until_, endpoint.settled_at());
  set_deadline(endpoint.next_deadline());
  for (auto& waiting : std::exchange(endpoint.waiters, {})) waiting.on_done(why);
}

void ucx_lane::send_internal(ucx_endpoint& endpoint, letter_kind kind, wire::bytes data, bool flushed,
                             core::instant deadline) {
  auto job = std::make_unique<ucx_job>();
  job->what = ucx_job::kind::send;
  job->internal = true;
  job->needs_flush = flushed;
  job->peer = endpoint.peer();
  job->deadline = deadline;
  job->bytes = data.size();
  job->message_id = static_cast<unsigned>(kind);
  job->payload = std::move(data);
  set_deadline(deadline);
  endpoint.add(std::move(job));
}

void ucx_lane::report(ucx_job& job, core::result<void> outcome) {
  if (job.internal) {
    untidy_ = true; // a courier or a bye has done its work
    if (job.message_id == static_cast<unsigned>(letter_kind::bye)) job.endpoint->said_bye = true;
  } else {
    host_.report(lane_, job, std::move(outcome));
  }
}

void ucx_lane::wants_pump(ucx_endpoint& endpoint) {
  if (endpoint.status() == ucx_endpoint::state::closing || std::exchange(endpoint.pump_queued, true)) return;
  to_pump_.push_back(&endpoint);
}

void ucx_lane::broke(ucx_endpoint& endpoint) { broken_.push_back(&endpoint); }

} // namespace dualpath::net
