// What the tests of the pattern device share: seeds, sequences, and passes run to their end.
#pragma once

#include "core/clock.hpp"
#include "kernels/pattern/pattern_device.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <future>
#include <optional>
#include <random>

namespace dualpath::kernels::pattern_test {

inline std::uint64_t test_seed() {
  if (auto text = std::getenv("DUALPATH_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device{}();
}

inline std::vector<core::token_id> random_tokens(std::mt19937_64& random, std::size_t count,
                                                 std::uint32_t vocabulary) {
  std::vector<core::token_id> tokens(count);
  for (auto& token : tokens) token = static_cast<core::token_id>(random() % vocabulary);
  return tokens;
}

/// Small, with rows that are no multiple of eight bytes.
inline pattern_shape small_shape() {
  auto shape = *parse_pattern_shape("3x45");
  shape.vocabulary = 997;
  return shape;
}

/// The KV of one sequence in Full Blocks, in scattered memory.
class full_blocks {
public:
  full_blocks(core::block_layout layout, std::uint64_t tokens)
      : layout_{layout}, memory_(layout.blocks_for(tokens)) {
    for (auto& block : memory_) block.resize(layout.full_block_bytes());
  }
  kv_view view() {
    kv_view view{{}, layout_.layer_block_bytes()};
    for (auto& block : memory_) view.blocks.push_back(block.data());
    return view;
  }
  std::span<std::byte> row(std::uint32_t layer, std::uint64_t position) {
    auto offset = layout_.layer_offset(layer) + layout_.row_offset(position);
    return std::span{memory_[layout_.block_of(position)]}.subspan(offset, layout_.token_bytes);
  }
  friend bool operator==(const full_blocks& a, const full_blocks& b) { return a.memory_ == b.memory_; }

private:
  core::block_layout layout_;
  std::vector<std::vector<std::byte>> memory_;
};

inline core::result<void> run(compute_device& device, forward_pass& pass, std::uint32_t first,
                              std::uint32_t count, std::vector<kv_view> views) {
  std::promise<core::result<void>> promise;
  device.run_layers(pass, first, count, std::move(views),
                    [&](auto outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

/// All layers of one entry at once; the error where there is one.
inline core::result<void> compute(compute_device& device, const sequence& tokens, full_blocks& kv,
                                  std::uint32_t first, std::uint32_t count, std::uint32_t unseen_from) {
  auto pass = device.begin({batch_entry{&tokens, first, count, unseen_from, false, {}}});
  return run(device, *pass, 0, device.model().layers, {kv.view()});
}

inline core::result<std::vector<core::token_id>> sample(compute_device& device, forward_pass& pass) {
  std::promise<core::result<std::vector<core::token_id>>> promise;
  device.sample(pass, [&](auto outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

} // namespace dualpath::kernels::pattern_test
