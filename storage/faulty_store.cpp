#include "storage/faulty_store.hpp"

#include <utility>

namespace dualpath::storage {

namespace {

using core::fault_kind;

class faulty_store final : public block_store {
public:
  faulty_store(std::shared_ptr<block_store> inner, core::fault_plan plan, core::engine_role role,
               core::clock& clock, core::duration late_by)
      : inner_{std::move(inner)},
        plan_{std::move(plan)},
        clock_{clock},
        late_by_{late_by},
        read_leg_{role == core::engine_role::prefill ? core::leg::prefill_read : core::leg::decode_read} {}

  std::uint64_t payload_bytes() const override { return inner_->payload_bytes(); }
  void read(const core::block_key& key, std::span<std::byte> payload, done on_done) override {
    inner_->read(key, payload, wrap(read_leg_, std::move(on_done)));
  }
  void write(const block_name& name, std::span<const std::byte> payload, done on_done) override {
    inner_->write(name, payload, wrap(core::leg::write, std::move(on_done)));
  }
  void remove(const core::block_key& key, done on_done) override { inner_->remove(key, std::move(on_done)); }
  core::result<void> scan(const std::function<void(const block_name&)>& visit) override {
    return inner_->scan(visit);
  }
  void on_evicted(std::function<void(const core::block_key&)> tell) override {
    inner_->on_evicted(std::move(tell));
  }
  store_counters counters() const override { return inner_->counters(); }
  std::string describe() const override { return inner_->describe(); }

private:
  done wrap(core::leg which, done on_done) {
    auto kind = plan_.next(which);
    if (kind == fault_kind::none) return on_done;
    return [plan = plan_, kind, &clock = clock_, late_by = late_by_,
            on_done = std::move(on_done)](core::result<void> r) mutable {
      if (kind == fault_kind::error) {
        on_done(core::error{core::errc::io, "an injected error of the block store"});
        return;
      }
      auto end = [on_done = std::move(on_done), r = std::move(r)]() mutable { on_done(std::move(r)); };
      if (kind == fault_kind::late) {
        plan.held().hold(clock, late_by, std::move(end));
      } else {
        plan.held().hold(std::move(end));
      }
    };
  }

  std::shared_ptr<block_store> inner_;
  core::fault_plan plan_;
  core::clock& clock_;
  core::duration late_by_;
  core::leg read_leg_;
};

} // namespace

std::shared_ptr<block_store> make_faulty_store(std::shared_ptr<block_store> inner, core::fault_plan plan,
                                               core::engine_role role, core::clock& clock,
                                               core::duration late_by) {
  return std::make_shared<faulty_store>(std::move(inner), std::move(plan), role, clock, late_by);
}

} // namespace dualpath::storage
