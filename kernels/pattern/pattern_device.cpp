#include "kernels/pattern/pattern_device.hpp"

#include "kernels/host_memory.hpp"
#include "kernels/pattern/pattern_rows.hpp"

#include <cassert>
#include <cstring>
#include <string>
#include <utility>

namespace dualpath::kernels {

namespace {

using core::errc;

struct pattern_pass final : forward_pass {
  std::vector<batch_entry> entries;
  std::uint32_t next_layer = 0; ///< first layer that was not asked for yet
};

core::model_fingerprint fingerprint_of(const pattern_shape& shape) {
  std::string text = "pattern-1|" + shape.name;
  for (auto number : {shape.layers, shape.token_bytes, shape.vocabulary})
    text += "|" + std::to_string(number);
  return {core::digest128(std::as_bytes(std::span{text}))};
}

core::error invalid(std::string text) { return {errc::invalid_argument, std::move(text)}; }

core::error corrupt_row(std::size_t entry, std::uint32_t position, std::uint32_t layer, std::size_t index,
                        std::byte expected, std::byte found) {
  auto number = [](std::byte b) { return std::to_string(std::to_integer<unsigned>(b)); };
  return {errc::corrupt_kv, "cached KV is wrong at position " + std::to_string(position) + ", layer "
                                + std::to_string(layer) + ", byte " + std::to_string(index)
                                + " of the row (entry " + std::to_string(entry) + " of the batch): found "
                                + number(found) + ", expected " + number(expected)};
}

class pattern_device final : public compute_device {
public:
  explicit pattern_device(pattern_options options)
      : shape_{std::move(options.shape)},
        model_{shape_.name,        fingerprint_of(shape_), shape_.layers,
               shape_.token_bytes, shape_.vocabulary,      shape_.max_tokens},
        block_tokens_{options.block_tokens},
        flops_per_s_{options.flops_per_s},
        queue_{options.clock, options.thread} {
    assert(shape_.layers > 0 && shape_.token_bytes > 0 && shape_.vocabulary > 0 && block_tokens_ > 0);
    std::memcpy(&salt_, model_.fingerprint.bytes.data(), sizeof salt_);
  }

  const model_info& model() const override { return model_; }
  std::uint32_t block_tokens() const override { return block_tokens_; }

  core::result<std::unique_ptr<device_memory>> allocate(std::uint64_t bytes) override {
    return allocate_host_memory(bytes);
  }

  std::unique_ptr<forward_pass> begin(std::vector<batch_entry> entries) override {
    auto pass = std::make_unique<pattern_pass>();
    pass->entries = std::move(entries);
    return pass;
  }

  void run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                  std::vector<kv_view> views, done on_done) override;
  void sample(forward_pass& pass, sampled on_done) override;
  void copy(std::vector<copy_op> copies, done on_done) override;

  double predicted_seconds(std::uint64_t cached_tokens, std::uint64_t computed_tokens) const override {
    if (flops_per_s_ <= 0) return -1;
    return prefill_flops(shape_, cached_tokens, computed_tokens) / flops_per_s_;
  }
  bool verifies_kv() const override { return true; }

private:
  core::result<void> check(const pattern_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                           const std::vector<kv_view>& views) const;
  core::duration modelled(const pattern_pass& pass, std::uint32_t layer_count) const;
  core::result<void> process(const pattern_pass& pass, std::uint32_t layer,
                             const std::vector<kv_view>& views) const;
  core::result<void> verify_rows(std::size_t index, const batch_entry& entry, std::uint32_t layer,
                                 const kv_view& view) const;
  std::span<std::byte> row(const kv_view& view, std::uint32_t layer, std::uint32_t position) const {
    return {view.blocks[position / block_tokens_] + layer * view.layer_stride_bytes
                + std::uint64_t{position % block_tokens_} * shape_.token_bytes,
            shape_.token_bytes};
  }
  core::token_id token_after(const batch_entry& entry) const;
  template <class T>
  void submit(core::duration modelled, bool takes_turn, std::function<core::result<T>()> work,
              std::function<void(core::result<T>)> on_done);

  pattern_shape shape_;
  model_info model_;
  std::uint32_t block_tokens_;
  double flops_per_s_;
  std::uint64_t salt_ = 0;
  paced_queue queue_;
};

template <class T>
void pattern_device::submit(core::duration modelled, bool takes_turn, std::function<core::result<T>()> work,
                            std::function<void(core::result<T>)> on_done) {
  auto outcome = std::make_shared<core::result<T>>(core::error{errc::closed, "the work has not run"});
  paced_operation operation;
  operation.work = [outcome, work = std::move(work)] { *outcome = work(); };
  operation.finish = [outcome, on_done = std::move(on_done)](std::optional<core::error> ended) {
    on_done(ended ? core::result<T>{std::move(*ended)} : std::move(*outcome));
  };
  operation.modelled = modelled;
  operation.takes_turn = takes_turn;
  queue_.submit(std::move(operation));
}

core::result<void> pattern_device::check(const pattern_pass& pass, std::uint32_t first_layer,
                                         std::uint32_t layer_count, const std::vector<kv_view>& views) const {
  if (first_layer != pass.next_layer || layer_count > shape_.layers - pass.next_layer)
    return invalid("layers " + std::to_string(first_layer) + " to "
                   + std::to_string(first_layer + layer_count) + " were asked for where layer "
                   + std::to_string(pass.next_layer) + " of " + std::to_string(shape_.layers)
                   + " is next: run them in order");
  if (views.size() != pass.entries.size())
    return invalid(std::to_string(views.size()) + " KV views for " + std::to_string(pass.entries.size())
                   + " batch entries: pass one each");
  for (std::size_t i = 0; i < views.size(); ++i) {
    auto& entry = pass.entries[i];
    auto name = "entry " + std::to_string(i) + " of the batch ";
    auto end = std::uint64_t{entry.first_position} + entry.token_count;
    if (entry.tokens == nullptr || entry.token_count == 0 || entry.tokens->size() < end)
      return invalid(name + "has fewer than the " + std::to_string(end) + " tokens to compute, or none");
    if (end > shape_.max_tokens)
      return invalid(name + "is " + std::to_string(end) + " tokens long; " + shape_.name + " takes at most "
                     + std::to_string(shape_.max_tokens));
    auto needed = layout().blocks_for(end);
    if (views[i].blocks.size() < needed)
      return invalid(name + "has " + std::to_string(views[i].blocks.size()) + " blocks of KV and needs "
                     + std::to_string(needed));
    for (std::uint64_t block = 0; block < needed; ++block)
      if (views[i].blocks[block] == nullptr)
        return invalid(name + "has no memory for block " + std::to_string(block));
  }
  return {};
}

core::duration pattern_device::modelled(const pattern_pass& pass, std::uint32_t layer_count) const {
  if (flops_per_s_ <= 0) return {};
  double flops = 0;
  for (auto& entry : pass.entries) flops += prefill_flops(shape_, entry.first_position, entry.token_count);
  return core::from_seconds(flops / flops_per_s_ * layer_count / shape_.layers);
}

void pattern_device::run_layers(forward_pass& pass, std::uint32_t first_layer, std::uint32_t layer_count,
                                std::vector<kv_view> views, done on_done) {
  auto& own = static_cast<pattern_pass&>(pass);
  if (auto valid = check(own, first_layer, layer_count, views); !valid)
    return submit<void>(
        {}, true, [valid] { return valid; }, std::move(on_done));
  own.next_layer += layer_count;
  auto work = [this, &own, first_layer, layer_count, views = std::move(views)]() -> core::result<void> {
    for (auto layer = first_layer; layer < first_layer + layer_count; ++layer)
      if (auto processed = process(own, layer, views); !processed) return processed;
    return {};
  };
  submit<void>(modelled(own, layer_count), true, std::move(work), std::move(on_done));
}

core::result<void> pattern_device::process(const pattern_pass& pass, std::uint32_t layer,
                                           const std::vector<kv_view>& views) const {
  auto salt = layer_salt(salt_, layer);
  for (std::size_t i = 0; i < views.size(); ++i) {
    auto& entry = pass.entries[i];
    if (auto verified = verify_rows(i, entry, layer, views[i]); !verified) return verified;
    auto end = entry.first_position + entry.token_count;
    for (auto position = entry.first_position; position < end; ++position)
      fill_row(row_seed(salt, entry.tokens->prefix_hash(position)), row(views[i], layer, position));
  }
  return {};
}

core::result<void> pattern_device::verify_rows(std::size_t index, const batch_entry& entry,
                                               std::uint32_t layer, const kv_view& view) const {
  auto salt = layer_salt(salt_, layer);
  for (auto position = entry.unseen_from; position < entry.first_position; ++position) {
    auto seed = row_seed(salt, entry.tokens->prefix_hash(position));
    auto bytes = row(view, layer, position);
    if (auto at = first_difference(seed, bytes))
      return corrupt_row(index, position, layer, *at, row_byte(seed, *at), bytes[*at]);
  }
  return {};
}

core::token_id pattern_device::token_after(const batch_entry& entry) const {
  auto last = entry.first_position + entry.token_count - 1;
  auto draw = entry.sampling.temperature > 0 ? sequence::mix(entry.sampling.seed + 1) : 0;
  auto hash = sequence::mix(entry.tokens->prefix_hash(last) ^ sequence::mix(salt_ ^ draw));
  return static_cast<core::token_id>(hash % shape_.vocabulary);
}

void pattern_device::sample(forward_pass& pass, sampled on_done) {
  using tokens = std::vector<core::token_id>;
  auto& own = static_cast<pattern_pass&>(pass);
  auto work = [this, &own, ready = own.next_layer == shape_.layers]() -> core::result<tokens> {
    if (!ready) return invalid("a token was asked for before the last layer of the pass ran");
    tokens sampled_tokens;
    for (auto& entry : own.entries)
      if (entry.wants_token) sampled_tokens.push_back(token_after(entry));
    return sampled_tokens;
  };
  submit<tokens>({}, true, std::move(work), std::move(on_done));
}

void pattern_device::copy(std::vector<copy_op> copies, done on_done) {
  auto work = [copies = std::move(copies)]() -> core::result<void> {
    for (auto& op : copies) std::memcpy(op.target, op.source, op.bytes);
    return {};
  };
  submit<void>({}, false, std::move(work), std::move(on_done));
}

} // namespace

std::unique_ptr<compute_device> make_pattern_device(pattern_options options) {
  return std::make_unique<pattern_device>(std::move(options));
}

} // namespace dualpath::kernels
