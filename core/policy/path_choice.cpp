#include "core/policy/path_choice.hpp"

#include <algorithm>
#include <cmath>

namespace dualpath::core {

namespace {

read_split whole(read_path side, std::uint32_t blocks) {
  return side == read_path::decode ? read_split{blocks, 0} : read_split{0, blocks};
}

read_path by_turn(std::uint64_t turn) { return turn % 2 == 0 ? read_path::prefill : read_path::decode; }

read_path by_queue(const path_inputs& inputs) {
  if (inputs.same_node) return read_path::decode;
  if (inputs.prefill.tokens < inputs.decode.tokens) return read_path::prefill;
  if (inputs.decode.tokens < inputs.prefill.tokens) return read_path::decode;
  return by_turn(inputs.turn);
}

/// `wished`, or the other side where it would move the share of decode-side reads out of its limits.
read_path within_share(read_path wished, const read_share& share, std::uint64_t hit_tokens) {
  auto all = static_cast<double>(share.all_tokens + hit_tokens);
  auto if_decode = static_cast<double>(share.decode_tokens + hit_tokens) / all;
  auto if_prefill = static_cast<double>(share.decode_tokens) / all;
  if (wished == read_path::decode && if_decode > share.highest) return read_path::prefill;
  if (wished == read_path::prefill && if_prefill < share.lowest) return read_path::decode;
  return wished;
}

/// A hit to be divided, in tokens and seconds.
class division {
public:
  division(const path_inputs& inputs, std::uint32_t hit_blocks, std::uint32_t block_tokens)
      : hit_blocks_{hit_blocks},
        block_tokens_{static_cast<double>(block_tokens)},
        prefill_{with_rate(inputs.prefill, inputs.decode)},
        decode_{with_rate(inputs.decode, inputs.prefill)} {
    limit_to(inputs.share);
  }

  /// Decode-side blocks with which the last block arrives first.
  std::uint32_t best(std::uint64_t turn) const {
    // Both sides end at once: (q_d + k b) / r_d = (q_p + (h - k) b) / r_p.
    auto ahead_blocks = (decode_.per_s * prefill_.tokens - prefill_.per_s * decode_.tokens) / block_tokens_;
    auto balanced = (decode_.per_s * hit_blocks_ + ahead_blocks) / (decode_.per_s + prefill_.per_s);
    auto fewer = clamped(std::floor(balanced)), more = clamped(std::ceil(balanced));
    auto if_fewer = end_s(fewer), if_more = end_s(more);
    if (if_fewer == if_more) return by_turn(turn) == read_path::prefill ? fewer : more;
    return if_fewer < if_more ? fewer : more;
  }

private:
  struct side {
    double tokens, per_s;
  };
  static side with_rate(const read_queue& queue, const read_queue& other) {
    auto rate = queue.tokens_per_s > 0 ? queue.tokens_per_s : other.tokens_per_s;
    return {static_cast<double>(queue.tokens), rate > 0 ? rate : 1};
  }
  void limit_to(const read_share& share) {
    auto all = static_cast<double>(share.all_tokens) + hit_blocks_ * block_tokens_;
    auto blocks = [&](double limit) {
      return (limit * all - static_cast<double>(share.decode_tokens)) / block_tokens_;
    };
    most_ = std::clamp(std::floor(blocks(share.highest)), 0.0, static_cast<double>(hit_blocks_));
    least_ = std::clamp(std::ceil(blocks(share.lowest)), 0.0, most_);
  }
  std::uint32_t clamped(double blocks) const {
    return static_cast<std::uint32_t>(std::clamp(blocks, least_, most_));
  }
  double end_s(std::uint32_t decode_blocks) const {
    auto end = [&](const side& s, std::uint32_t blocks) {
      return blocks == 0 ? 0 : (s.tokens + blocks * block_tokens_) / s.per_s;
    };
    return std::max(end(decode_, decode_blocks), end(prefill_, hit_blocks_ - decode_blocks));
  }

  std::uint32_t hit_blocks_;
  double block_tokens_;
  side prefill_, decode_;
  double least_ = 0, most_ = 0; ///< decode-side blocks that the share allows
};

/// The policy's choice where no side has failed.
read_split by_policy(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                     std::uint32_t block_tokens) {
  if (hit_blocks == 0) return {};
  switch (chosen) {
  case policy::recompute:
    return {};
  case policy::basic:
    return whole(read_path::prefill, hit_blocks);
  case policy::round_robin:
    return whole(by_turn(inputs.turn), hit_blocks);
  case policy::dualpath:
  case policy::oracle:
    return whole(within_share(by_queue(inputs), inputs.share, std::uint64_t{hit_blocks} * block_tokens),
                 hit_blocks);
  case policy::split: {
    if (inputs.same_node) return whole(read_path::decode, hit_blocks);
    auto decode_blocks = division{inputs, hit_blocks, block_tokens}.best(inputs.turn);
    return {decode_blocks, hit_blocks - decode_blocks};
  }
  }
  return {};
}

} // namespace

read_split choose_reads(policy chosen, const path_inputs& inputs, std::uint32_t hit_blocks,
                        std::uint32_t block_tokens) {
  auto wished = by_policy(chosen, inputs, hit_blocks, block_tokens);
  auto [prefill_failed, decode_failed] = inputs.failed;
  if (prefill_failed && decode_failed) return {};
  if (prefill_failed) return whole(read_path::decode, wished.blocks());
  if (decode_failed) return whole(read_path::prefill, wished.blocks());
  auto [prefill_avoided, decode_avoided] = inputs.avoided;
  if (prefill_avoided == decode_avoided) return wished;
  return whole(prefill_avoided ? read_path::decode : read_path::prefill, wished.blocks());
}

} // namespace dualpath::core
