#include "core/policy/path_choice.hpp"

namespace dualpath::core {

namespace {

read_path by_turn(std::uint64_t turn) { return turn % 2 == 0 ? read_path::prefill : read_path::decode; }

read_path by_queue(const path_inputs& inputs) {
  if (inputs.same_node) return read_path::decode;
  if (inputs.prefill_read_queue_tokens < inputs.decode_read_queue_tokens) return read_path::prefill;
  if (inputs.decode_read_queue_tokens < inputs.prefill_read_queue_tokens) return read_path::decode;
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

} // namespace

read_path choose_path(policy chosen, const path_inputs& inputs, std::uint64_t hit_tokens) {
  if (hit_tokens == 0) return read_path::none;
  switch (chosen) {
  case policy::recompute:
    return read_path::none;
  case policy::basic:
    return read_path::prefill;
  case policy::round_robin:
    return by_turn(inputs.turn);
  case policy::dualpath:
  case policy::oracle:
    return within_share(by_queue(inputs), inputs.share, hit_tokens);
  }
  return read_path::none;
}

} // namespace dualpath::core
