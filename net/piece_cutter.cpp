#include "net/piece_cutter.hpp"

#include <algorithm>

namespace dualpath::net {

piece_cutter::piece_cutter(std::vector<core::strided_piece> pieces)
    : pieces_{std::move(pieces)}, left_bytes_{core::total_bytes(pieces_)} {
  skip_done();
}

std::vector<core::strided_piece> piece_cutter::next(std::uint64_t most_bytes) {
  std::vector<core::strided_piece> part;
  if (piece_ == 0 && row_ == 0 && inside_ == 0 && left_bytes_ <= most_bytes) {
    left_bytes_ = 0;
    return std::exchange(pieces_, {});
  }
  while (most_bytes > 0 && left_bytes_ > 0) {
    part.push_back(take(most_bytes));
    auto bytes = core::total_bytes({&part.back(), 1});
    most_bytes -= bytes;
    left_bytes_ -= bytes;
  }
  return part;
}

/// Whole rows where a row is begun and fits, otherwise the rest of the row as far as it fits.
core::strided_piece piece_cutter::take(std::uint64_t most_bytes) {
  auto out = pieces_[piece_];
  out.local_offset += row_ * out.local_stride + inside_;
  out.remote_offset += row_ * out.remote_stride + inside_;
  if (inside_ == 0 && out.bytes <= most_bytes) {
    out.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.count - row_, most_bytes / out.bytes));
    row_ += out.count;
  } else {
    out.bytes = std::min(out.bytes - inside_, most_bytes);
    out.count = 1;
    inside_ += out.bytes;
    if (inside_ == pieces_[piece_].bytes) {
      inside_ = 0;
      ++row_;
    }
  }
  skip_done();
  return out;
}

void piece_cutter::skip_done() {
  while (piece_ < pieces_.size() && (pieces_[piece_].bytes == 0 || row_ == pieces_[piece_].count)) {
    ++piece_;
    row_ = 0;
  }
}

} // namespace dualpath::net
