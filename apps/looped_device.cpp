#include "apps/looped_device.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace dualpath::apps {

namespace {

struct registered_memory {
  std::span<std::byte> bytes;
  core::region_id id;
};

/// Where a range lies in registered memory.
struct place {
  core::region_id region;
  std::uint64_t offset = 0;
};

/// Ends a copy when the last of its parts has ended, with the first failure among them.
class joint_end {
public:
  joint_end(std::size_t parts, kernels::compute_device::done on_done)
      : open_{parts}, on_done_{std::move(on_done)} {}
  void part_ended(core::result<void> outcome) {
    {
      std::lock_guard lock{mutex_};
      if (!outcome && outcome_) outcome_ = std::move(outcome);
      if (--open_ > 0) return;
    }
    on_done_(std::move(outcome_));
  }

private:
  std::mutex mutex_;
  std::size_t open_;
  core::result<void> outcome_;
  kernels::compute_device::done on_done_;
};

class looped_device final : public kernels::compute_device {
public:
  looped_device(std::unique_ptr<compute_device> inner, std::vector<registered_memory> memory,
                std::unique_ptr<net::verbs_copy> copies)
      : inner_{std::move(inner)}, memory_{std::move(memory)}, copies_{std::move(copies)} {}

  const kernels::model_info& model() const override { return inner_->model(); }
  std::uint32_t block_tokens() const override { return inner_->block_tokens(); }
  core::result<std::unique_ptr<kernels::device_memory>> allocate(std::uint64_t bytes) override {
    return inner_->allocate(bytes);
  }
  std::unique_ptr<kernels::forward_pass> begin(std::vector<kernels::batch_entry> entries) override {
    return inner_->begin(std::move(entries));
  }
  void run_layers(kernels::forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                  std::vector<kernels::kv_view> views, done on_done) override {
    inner_->run_layers(pass, first_layer, layer_count, std::move(views), std::move(on_done));
  }
  void sample(kernels::forward_pass& pass, sampled on_done) override {
    inner_->sample(pass, std::move(on_done));
  }
  void copy(std::vector<kernels::copy_op> copies, done on_done) override;
  double predicted_seconds(std::uint64_t cached_tokens, std::uint64_t computed_tokens) const override {
    return inner_->predicted_seconds(cached_tokens, computed_tokens);
  }
  bool verifies_kv() const override { return inner_->verifies_kv(); }

private:
  /// Pieces by the memory they leave and enter.
  using routes = std::map<std::pair<core::region_id, core::region_id>, std::vector<core::strided_piece>>;

  std::optional<place> find(const std::byte* start, std::uint64_t bytes) const;
  std::optional<routes> route(const std::vector<kernels::copy_op>& copies) const;

  std::unique_ptr<compute_device> inner_;
  std::vector<registered_memory> memory_;
  std::unique_ptr<net::verbs_copy> copies_; ///< last: ends first, and with it all that is under way
};

std::optional<place> looped_device::find(const std::byte* start, std::uint64_t bytes) const {
  auto address = reinterpret_cast<std::uintptr_t>(start);
  for (auto& each : memory_) {
    auto first = reinterpret_cast<std::uintptr_t>(each.bytes.data());
    if (address < first || address - first > each.bytes.size()) continue;
    if (bytes <= each.bytes.size() - (address - first)) return place{each.id, address - first};
  }
  return {};
}

std::optional<looped_device::routes> looped_device::route(const std::vector<kernels::copy_op>& copies) const {
  routes found;
  for (auto& op : copies) {
    auto from = find(op.source, op.bytes), to = find(op.target, op.bytes);
    if (!from || !to) return {};
    found[{from->region, to->region}].push_back({from->offset, 0, to->offset, 0, op.bytes, 1});
  }
  return found;
}

void looped_device::copy(std::vector<kernels::copy_op> copies, done on_done) {
  auto found = route(copies);
  if (!found || found->empty()) return inner_->copy(std::move(copies), std::move(on_done));
  auto end = std::make_shared<joint_end>(found->size(), std::move(on_done));
  for (auto& [way, pieces] : *found)
    copies_->copy(way.first, way.second, std::move(pieces),
                  [end](core::result<void> outcome) { end->part_ended(std::move(outcome)); });
}

} // namespace

core::result<std::unique_ptr<kernels::compute_device>>
make_looped_device(std::unique_ptr<kernels::compute_device>& inner, std::unique_ptr<net::verbs_copy> copies,
                   std::span<const std::span<std::byte>> memory) {
  std::vector<registered_memory> registered;
  for (auto bytes : memory) {
    if (bytes.empty()) continue;
    auto region = copies->attach(bytes);
    if (!region) return region.error();
    registered.push_back({bytes, *region});
  }
  return std::unique_ptr<kernels::compute_device>{
      std::make_unique<looped_device>(std::move(inner), std::move(registered), std::move(copies))};
}

} // namespace dualpath::apps
