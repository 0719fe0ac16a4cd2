#include "kernels/faulty_device.hpp"

#include <deque>
#include <mutex>
#include <utility>

namespace dualpath::kernels {

namespace {

using core::fault_kind;

const core::error injected{core::errc::io, "an injected error of the compute device"};

/// Completions of computations on their way out, in order.
class exit_line {
public:
  /// `end` is called at once, unless something before it is held.
  void pass(std::function<void()> end) {
    {
      std::lock_guard lock{mutex_};
      if (holding_) {
        behind_.push_back(std::move(end));
        return;
      }
    }
    end();
  }
  /// `end`, and whatever comes after it, waits for release().
  void hold(std::function<void()> end) {
    std::lock_guard lock{mutex_};
    holding_ = true;
    behind_.push_back(std::move(end));
  }
  void release() {
    for (;;) {
      std::function<void()> next;
      {
        std::lock_guard lock{mutex_};
        if (behind_.empty()) {
          holding_ = false;
          return;
        }
        next = std::move(behind_.front());
        behind_.pop_front();
      }
      next();
    }
  }

private:
  std::mutex mutex_;
  std::deque<std::function<void()>> behind_;
  bool holding_ = false;
};

class faulty_device final : public compute_device {
public:
  faulty_device(std::shared_ptr<compute_device> inner, core::fault_plan plan, core::engine_role role,
                core::clock& clock, lateness late_by)
      : inner_{std::move(inner)},
        plan_{std::move(plan)},
        clock_{clock},
        late_by_{late_by},
        compute_leg_{role == core::engine_role::prefill ? core::leg::prefill_compute
                                                        : core::leg::decode_compute},
        copy_leg_{role == core::engine_role::prefill ? core::leg::prefill_copy : core::leg::decode_copy} {}

  const model_info& model() const override { return inner_->model(); }
  std::uint32_t block_tokens() const override { return inner_->block_tokens(); }
  core::result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes) override {
    return inner_->allocate(bytes);
  }
  std::unique_ptr<forward_pass> begin(std::vector<batch_entry> entries) override {
    return inner_->begin(std::move(entries));
  }
  void run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                  std::vector<kv_view> views, done on_done) override {
    inner_->run_layers(pass, first_layer, layer_count, std::move(views),
                       in_order<core::result<void>>(std::move(on_done)));
  }
  void sample(forward_pass& pass, sampled on_done) override {
    inner_->sample(pass, in_order<core::result<std::vector<core::token_id>>>(std::move(on_done)));
  }
  void copy(std::vector<copy_op> copies, done on_done) override {
    auto kind = plan_.next(copy_leg_);
    if (kind == fault_kind::none) return inner_->copy(std::move(copies), std::move(on_done));
    inner_->copy(std::move(copies), [plan = plan_, kind, &clock = clock_, late_by = late_by_.copy,
                                     on_done = std::move(on_done)](core::result<void> r) mutable {
      if (kind == fault_kind::error) {
        on_done(injected);
        return;
      }
      hold(plan, kind, clock, late_by,
           [on_done = std::move(on_done), r = std::move(r)]() mutable { on_done(std::move(r)); });
    });
  }
  double predicted_seconds(std::uint64_t cached_tokens, std::uint64_t computed_tokens) const override {
    return inner_->predicted_seconds(cached_tokens, computed_tokens);
  }
  bool verifies_kv() const override { return inner_->verifies_kv(); }

private:
  static void hold(core::fault_plan& plan, fault_kind kind, core::clock& clock, core::duration late_by,
                   std::function<void()> end) {
    if (kind == fault_kind::late) {
      plan.held().hold(clock, late_by, std::move(end));
    } else {
      plan.held().hold(std::move(end));
    }
  }

  template <class Result>
  std::function<void(Result)> in_order(std::function<void(Result)> on_done) {
    auto kind = plan_.next(compute_leg_);
    return [plan = plan_, kind, &clock = clock_, late_by = late_by_.computation, line = line_,
            on_done = std::move(on_done)](Result r) mutable {
      if (kind == fault_kind::error) r = injected;
      auto end = [on_done = std::move(on_done), r = std::move(r)]() mutable { on_done(std::move(r)); };
      if (kind != fault_kind::late && kind != fault_kind::lost) {
        line->pass(std::move(end));
        return;
      }
      line->hold(std::move(end));
      hold(plan, kind, clock, late_by, [line] { line->release(); });
    };
  }

  // What the device's last completions still use stands above it.
  std::shared_ptr<exit_line> line_ = std::make_shared<exit_line>();
  std::shared_ptr<compute_device> inner_;
  core::fault_plan plan_;
  core::clock& clock_;
  lateness late_by_;
  core::leg compute_leg_, copy_leg_;
};

} // namespace

std::shared_ptr<compute_device> make_faulty_device(std::shared_ptr<compute_device> inner,
                                                   core::fault_plan plan, core::engine_role role,
                                                   core::clock& clock, lateness late_by) {
  return std::make_shared<faulty_device>(std::move(inner), std::move(plan), role, clock, late_by);
}

} // namespace dualpath::kernels
