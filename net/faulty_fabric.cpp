#include "net/faulty_fabric.hpp"

#include "core/gate.hpp"

#include <algorithm>
#include <utility>

namespace dualpath::net {

namespace {

using core::fault_kind;

class faulty_fabric final : public fabric {
public:
  faulty_fabric(std::shared_ptr<fabric> inner, core::fault_plan plan, core::clock& clock,
                core::duration late_by)
      : inner_{std::move(inner)}, plan_{std::move(plan)}, clock_{clock}, late_by_{late_by} {}

  std::vector<std::byte> address() const override { return inner_->address(); }
  void connect(std::span<const std::byte> address, core::instant deadline, connected on_done) override {
    inner_->connect(address, deadline, std::move(on_done));
  }
  void disconnect(peer_id peer) override { inner_->disconnect(peer); }
  void cut(core::engine_id engine, std::function<void()> on_done) override {
    inner_->cut(engine, std::move(on_done));
  }
  core::result<memory_region> allocate(std::uint64_t bytes) override { return inner_->allocate(bytes); }
  core::result<memory_region> attach(std::span<std::byte> bytes) override { return inner_->attach(bytes); }
  void release(core::region_id region) override { inner_->release(region); }
  core::result<std::vector<std::byte>> export_region(core::region_id region) const override {
    return inner_->export_region(region);
  }
  core::result<remote_region_id> import_region(peer_id peer, std::span<const std::byte> exported) override {
    return inner_->import_region(peer, exported);
  }
  void put(transfer t, done on_done) override {
    auto faulty = wrap(core::leg::put, t, std::move(on_done));
    inner_->put(std::move(t), std::move(faulty));
  }
  void get(transfer t, done on_done) override {
    auto faulty = wrap(core::leg::get, t, std::move(on_done));
    inner_->get(std::move(t), std::move(faulty));
  }
  void send(peer_id peer, lane on, message m, core::instant deadline, done on_done) override {
    inner_->send(peer, on, std::move(m), deadline, std::move(on_done));
  }
  void on_message(std::function<void(peer_id, lane, message)> handler) override {
    inner_->on_message(std::move(handler));
  }
  void on_peer_down(std::function<void(peer_id, std::string)> handler) override {
    inner_->on_peer_down(std::move(handler));
  }
  void quiesce(std::function<void()> on_done) override {
    inner_->quiesce(
        [held = held_, on_done = std::move(on_done)]() mutable { held.when_empty(std::move(on_done)); });
  }
  std::array<lane_counters, lane_count> counters() const override { return inner_->counters(); }

private:
  done wrap(core::leg which, const transfer& t, done on_done) {
    auto kind = plan_.next(which);
    if (kind == fault_kind::none) return on_done;
    return [plan = plan_, &clock = clock_, late_by = late_by_, kind, deadline = t.deadline,
            inside = held_.enter(), on_done = std::move(on_done)](core::result<void> r) mutable {
      if (kind == fault_kind::error) {
        on_done(core::error{core::errc::disconnected, "an injected error of a transfer"});
        return;
      }
      auto until = deadline + (kind == fault_kind::late ? late_by : core::duration{0});
      if (kind == fault_kind::lost && r)
        r = core::error{core::errc::timed_out, "an injected loss of a transfer's completion"};
      plan.held().hold(clock, std::max(until - clock.now(), core::duration{0}),
                       [on_done = std::move(on_done), inside = std::move(inside),
                        r = std::move(r)]() mutable { on_done(std::move(r)); });
    };
  }

  std::shared_ptr<fabric> inner_;
  core::fault_plan plan_;
  core::clock& clock_;
  core::duration late_by_;
  core::gate held_;
};

} // namespace

std::shared_ptr<fabric> make_faulty_fabric(std::shared_ptr<fabric> inner, core::fault_plan plan,
                                           core::clock& clock, core::duration late_by) {
  return std::make_shared<faulty_fabric>(std::move(inner), std::move(plan), clock, late_by);
}

} // namespace dualpath::net
