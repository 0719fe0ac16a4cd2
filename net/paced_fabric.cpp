#include "net/paced_fabric.hpp"

#include "net/clock_door.hpp"
#include "net/paced_link.hpp"
#include "net/piece_cursor.hpp"
#include "net/wire.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <unordered_map>
#include <utility>

namespace dualpath::net {
namespace {

constexpr core::instant never{std::numeric_limits<core::instant::rep>::max()};

const char* verb(paced_job::kind what) {
  return what == paced_job::kind::put ? "put" : what == paced_job::kind::get ? "get" : "message";
}

core::error late(const paced_job& job) {
  return {core::errc::timed_out, std::string{verb(job.what)} + " of " + std::to_string(job.bytes)
                                     + " bytes on lane " + to_string(job.transfer.lane)
                                     + " passed its deadline"};
}

core::error closing_error() { return {core::errc::closed, "the fabric is closing"}; }

struct atomic_counters {
  std::atomic<std::uint64_t> put_bytes{0}, get_bytes{0}, messages{0}, failed{0}, timed_out{0};
};

class paced_fabric final : public fabric {
public:
  paced_fabric(std::unique_ptr<fabric> inner, const pacing_options& options,
               const paced_link::lane_numbers& numbers);
  ~paced_fabric() override;

  std::vector<std::byte> address() const override { return inner_->address(); }
  void connect(std::span<const std::byte> address, core::instant deadline, connected on_done) override {
    inner_->connect(address, deadline, std::move(on_done));
  }
  void disconnect(peer_id peer) override;
  void cut(core::engine_id engine, std::function<void()> on_done) override {
    inner_->cut(engine, std::move(on_done)); // it refuses what waits here
  }
  core::result<memory_region> allocate(std::uint64_t bytes) override { return keep(inner_->allocate(bytes)); }
  core::result<memory_region> attach(std::span<std::byte> bytes) override {
    return keep(inner_->attach(bytes));
  }
  void release(core::region_id region) override;
  core::result<std::vector<std::byte>> export_region(core::region_id region) const override {
    return inner_->export_region(region);
  }
  core::result<remote_region_id> import_region(peer_id peer, std::span<const std::byte> exported) override;
  void put(transfer t, done on_done) override {
    move(paced_job::kind::put, std::move(t), std::move(on_done));
  }
  void get(transfer t, done on_done) override {
    move(paced_job::kind::get, std::move(t), std::move(on_done));
  }
  void send(peer_id peer, lane on, message m, core::instant deadline, done on_done) override;
  void on_message(std::function<void(peer_id, lane, message)> handler) override {
    inner_->on_message(std::move(handler));
  }
  void on_peer_down(std::function<void(peer_id, std::string why)> handler) override;
  void quiesce(std::function<void()> on_done) override;
  std::array<lane_counters, lane_count> counters() const override;

private:
  using down_handler = std::function<void(peer_id, std::string)>;
  struct ended_job {
    paced_job_ptr job;
    core::result<void> outcome;
  };

  core::result<memory_region> keep(core::result<memory_region> region);
  void move(paced_job::kind what, transfer t, done on_done);
  std::optional<core::error> admit(paced_job& job);
  bool prepare(paced_job& job);
  void hand_over(const paced_job_ptr& job);
  paced_link& link_of(const paced_job& job) { return job.what == paced_job::kind::get ? inward_ : outward_; }
  std::vector<paced_job_ptr> withdraw(const paced_link::picked& which,
                                      const std::function<core::error(const paced_job&)>& why);
  void pump();
  void report(paced_job& job, core::result<void> outcome);
  void report_later(const paced_job_ptr& job, core::error why);
  bool report_deferred();
  void leave();
  void quiesce_inner();
  void end_quiesce();
  void watch(core::instant deadline);
  void expire();
  void peer_down(peer_id peer, const std::string& why);

  core::clock& clock_;
  clock_door door_;
  std::unique_ptr<fabric> inner_;
  paced_link outward_, inward_;
  std::array<atomic_counters, lane_count> counters_;
  std::atomic<bool> closing_{false};
  std::atomic<core::instant::rep> watched_{never.count()}; ///< when expire() is called next

  mutable std::mutex mutex_;
  std::unordered_map<core::region_id, std::uint64_t> region_bytes_;
  std::unordered_map<remote_region_id, std::uint64_t> remote_bytes_;
  std::shared_ptr<down_handler> on_down_;
  std::vector<ended_job> deferred_;
  std::uint64_t moving_ = 0; ///< puts and gets that have not ended
  bool quiescing_ = false, inner_quiesces_ = false;
  std::vector<std::function<void()>> on_quiet_;
};

paced_fabric::paced_fabric(std::unique_ptr<fabric> inner, const pacing_options& options,
                           const paced_link::lane_numbers& numbers)
    : clock_{*options.clock},
      door_{*options.clock},
      inner_{std::move(inner)},
      outward_{*inner_,
               clock_,
               core::link_pacer{options.qos.tables, options.window},
               numbers,
               options.quantum_bytes,
               [this](paced_job& job, core::result<void> outcome) { report(job, std::move(outcome)); }},
      inward_{*inner_,
              clock_,
              core::link_pacer{options.qos.tables, options.window},
              numbers,
              options.quantum_bytes,
              [this](paced_job& job, core::result<void> outcome) { report(job, std::move(outcome)); }} {
  inner_->on_peer_down([this](peer_id peer, const std::string& why) { peer_down(peer, why); });
}

paced_fabric::~paced_fabric() {
  closing_ = true;
  outward_.stop();
  inward_.stop();
  door_.close();
  inner_.reset(); // ends what is under way
  auto all = [](const paced_job&) { return true; };
  for (auto& job : withdraw(all, [](const paced_job&) { return closing_error(); }))
    report(*job, *job->failure);
  while (report_deferred()) {
  }
  end_quiesce();
}

core::result<memory_region> paced_fabric::keep(core::result<memory_region> region) {
  if (!region) return region;
  std::lock_guard lock{mutex_};
  region_bytes_[region->id] = region->bytes.size();
  return region;
}

void paced_fabric::release(core::region_id region) {
  {
    std::lock_guard lock{mutex_};
    region_bytes_.erase(region);
  }
  inner_->release(region);
}

core::result<remote_region_id> paced_fabric::import_region(peer_id peer,
                                                           std::span<const std::byte> exported) {
  auto imported = inner_->import_region(peer, exported);
  if (!imported) return imported;
  if (auto region = wire::decode_region(exported)) {
    std::lock_guard lock{mutex_};
    remote_bytes_[*imported] = region->size;
  }
  return imported;
}

void paced_fabric::move(paced_job::kind what, transfer t, done on_done) {
  auto job = std::make_shared<paced_job>();
  job->what = what;
  job->transfer = std::move(t);
  job->on_done = std::move(on_done);
  if (auto refused = admit(*job)) return report_later(job, *refused);
  if (prepare(*job)) return hand_over(job);
  // What cannot be moved is refused by the fabric underneath, which knows why.
  auto refused = job->transfer;
  auto told = [this, job](core::result<void> outcome) { report(*job, std::move(outcome)); };
  if (what == paced_job::kind::put) {
    inner_->put(std::move(refused), told);
  } else {
    inner_->get(std::move(refused), told);
  }
}

void paced_fabric::send(peer_id peer, lane on, message m, core::instant deadline, done on_done) {
  auto job = std::make_shared<paced_job>();
  job->what = paced_job::kind::send;
  job->transfer.peer = peer;
  job->transfer.lane = on;
  job->transfer.deadline = deadline;
  job->bytes = m.payload.size();
  job->on_done = std::move(on_done);
  if (closing_) return report_later(job, closing_error());
  if (static_cast<std::size_t>(on) >= lane_count || deadline.count() <= 0) {
    return inner_->send(peer, on, std::move(m), deadline,
                        [this, job](core::result<void> outcome) { report(*job, std::move(outcome)); });
  }
  job->letter = std::move(m);
  hand_over(job);
}

/// Why the transfer may not begin; otherwise it counts as in flight.
std::optional<core::error> paced_fabric::admit(paced_job& job) {
  std::lock_guard lock{mutex_};
  if (closing_) return closing_error();
  if (quiescing_)
    return core::error{core::errc::closed, "the fabric is quiescing: no new transfers until it has"};
  job.admitted = true;
  ++moving_;
  return {};
}

/// False where the fabric underneath is going to refuse the transfer.
bool paced_fabric::prepare(paced_job& job) {
  auto& t = job.transfer;
  if (static_cast<std::size_t>(t.lane) >= lane_count || t.deadline.count() <= 0) return false;
  std::uint64_t local_bytes = 0, remote_bytes = 0;
  {
    std::lock_guard lock{mutex_};
    auto local = region_bytes_.find(t.local);
    auto remote = remote_bytes_.find(t.remote);
    if (local == region_bytes_.end() || remote == remote_bytes_.end()) return false;
    local_bytes = local->second;
    remote_bytes = remote->second;
  }
  if (!check_pieces(t.pieces, local_bytes, remote_bytes)) return false;
  job.rest = piece_cutter{std::move(t.pieces)};
  job.bytes = job.rest.left_bytes();
  return true;
}

void paced_fabric::hand_over(const paced_job_ptr& job) {
  job->submitted = clock_.now();
  if (link_of(*job).submit(job)) watch(job->transfer.deadline);
}

std::vector<paced_job_ptr> paced_fabric::withdraw(const paced_link::picked& which,
                                                  const std::function<core::error(const paced_job&)>& why) {
  auto jobs = outward_.withdraw(which, why);
  for (auto& job : inward_.withdraw(which, why)) jobs.push_back(job);
  return jobs;
}

void paced_fabric::pump() {
  outward_.pump();
  inward_.pump();
}

void paced_fabric::report(paced_job& job, core::result<void> outcome) {
  auto known_lane = static_cast<std::size_t>(job.transfer.lane) < lane_count;
  auto& count = counters_[static_cast<std::size_t>(known_lane ? job.transfer.lane : lane::control)];
  if (!outcome) {
    bool timed_out = outcome.error().code == core::errc::timed_out;
    ++(timed_out ? count.timed_out : count.failed);
    if (timed_out) outcome = late(job); // a part knows only its own size
  } else if (job.what == paced_job::kind::put) {
    count.put_bytes += job.bytes;
  } else if (job.what == paced_job::kind::get) {
    count.get_bytes += job.bytes;
  } else {
    ++count.messages;
  }
  if (job.on_done) std::exchange(job.on_done, nullptr)(std::move(outcome));
  if (job.admitted) leave();
}

void paced_fabric::report_later(const paced_job_ptr& job, core::error why) {
  {
    std::lock_guard lock{mutex_};
    deferred_.push_back({job, std::move(why)});
    if (deferred_.size() > 1 || closing_) return;
  }
  door_.call_at(clock_.now(), [this] { report_deferred(); });
}

bool paced_fabric::report_deferred() {
  std::vector<ended_job> ended;
  {
    std::lock_guard lock{mutex_};
    ended.swap(deferred_);
  }
  for (auto& each : ended) report(*each.job, std::move(each.outcome));
  return !ended.empty();
}

void paced_fabric::leave() {
  {
    std::lock_guard lock{mutex_};
    if (--moving_ != 0 || !quiescing_ || inner_quiesces_ || closing_) return;
    inner_quiesces_ = true;
  }
  quiesce_inner();
}

void paced_fabric::quiesce(std::function<void()> on_done) {
  {
    std::lock_guard lock{mutex_};
    quiescing_ = true;
    on_quiet_.push_back(std::move(on_done));
    if (moving_ != 0 || inner_quiesces_) return;
    inner_quiesces_ = true;
  }
  quiesce_inner();
}

void paced_fabric::quiesce_inner() {
  inner_->quiesce([this] { end_quiesce(); });
}

void paced_fabric::end_quiesce() {
  std::vector<std::function<void()>> ready;
  {
    std::lock_guard lock{mutex_};
    quiescing_ = inner_quiesces_ = false;
    ready.swap(on_quiet_);
  }
  for (auto& each : ready) each();
}

/// Sees to it that what waits here ends at its deadline.
void paced_fabric::watch(core::instant deadline) {
  auto watched = watched_.load();
  do {
    if (deadline.count() >= watched) return;
  } while (!watched_.compare_exchange_weak(watched, deadline.count()));
  door_.call_at(deadline, [this, mine = deadline.count()]() mutable {
    // One of two timers for the same time, or for a time that is not the nearest any more, has nothing to do.
    if (watched_.compare_exchange_strong(mine, never.count())) expire();
  });
}

void paced_fabric::expire() {
  auto now = clock_.now();
  for (auto& job : withdraw([now](const paced_job& job) { return job.transfer.deadline <= now; }, late))
    report(*job, *job->failure);
  pump();
  for (auto* link : {&outward_, &inward_})
    if (auto next = link->next_deadline()) watch(*next);
}

void paced_fabric::disconnect(peer_id peer) {
  core::error why{core::errc::disconnected,
                  "the connection to peer " + std::to_string(peer.value) + " was closed"};
  auto over = withdraw([peer](const paced_job& job) { return job.transfer.peer == peer; },
                       [&](const paced_job&) { return why; });
  inner_->disconnect(peer);
  for (auto& job : over) report_later(job, why);
  pump();
}

void paced_fabric::on_peer_down(std::function<void(peer_id, std::string why)> handler) {
  auto shared = std::make_shared<down_handler>(std::move(handler));
  std::lock_guard lock{mutex_};
  on_down_ = std::move(shared);
}

void paced_fabric::peer_down(peer_id peer, const std::string& why) {
  for (auto& job : withdraw([peer](const paced_job& job) { return job.transfer.peer == peer; },
                            [&](const paced_job&) {
                              return core::error{core::errc::disconnected, why};
                            }))
    report(*job, *job->failure);
  pump();
  std::shared_ptr<down_handler> handler;
  {
    std::lock_guard lock{mutex_};
    handler = on_down_;
  }
  if (handler && *handler) (*handler)(peer, why);
}

std::array<lane_counters, lane_count> paced_fabric::counters() const {
  std::array<lane_counters, lane_count> out;
  for (std::size_t i = 0; i < lane_count; ++i) {
    auto& from = counters_[i];
    auto which = static_cast<lane>(i);
    out[i] = {from.put_bytes, from.get_bytes, from.messages,
              from.failed,    from.timed_out, outward_.waited(which) + inward_.waited(which)};
  }
  return out;
}

} // namespace

core::result<std::unique_ptr<fabric>> pace_lanes(std::unique_ptr<fabric> inner, pacing_options options) {
  auto invalid = [](std::string text) { return core::error{core::errc::invalid_argument, std::move(text)}; };
  if (options.clock == nullptr) return invalid("a paced fabric needs the clock of the fabric underneath");
  if (auto checked = core::check_qos(options.qos); !checked) return checked.error();
  paced_link::lane_numbers numbers{};
  for (std::size_t i = 0; i < lane_count; ++i) {
    auto name = to_string(static_cast<lane>(i));
    auto found = core::find_class(options.qos, name);
    if (found == nullptr) return invalid(std::string{"lane "} + name + " has no traffic class of its name");
    numbers[i] = found->lane;
  }
  return std::unique_ptr<fabric>{std::make_unique<paced_fabric>(std::move(inner), options, numbers)};
}

} // namespace dualpath::net
