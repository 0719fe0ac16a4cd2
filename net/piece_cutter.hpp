// Cuts a transfer into parts of bounded size, so that other lanes get their turn in between. Rows stay
// together as strided pieces as far as they are whole, so that a part costs few descriptors.
#pragma once

#include "core/layout/strided_piece.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dualpath::net {

/// The pieces have passed check_pieces().
class piece_cutter {
public:
  piece_cutter() = default;
  explicit piece_cutter(std::vector<core::strided_piece> pieces);

  std::uint64_t left_bytes() const { return left_bytes_; }
  /// The next bytes in order, at most `most_bytes` (more than 0) of them.
  std::vector<core::strided_piece> next(std::uint64_t most_bytes);

private:
  core::strided_piece take(std::uint64_t most_bytes);
  void skip_done();

  std::vector<core::strided_piece> pieces_;
  std::uint64_t left_bytes_ = 0;
  std::size_t piece_ = 0;
  std::uint32_t row_ = 0;    ///< of the piece
  std::uint64_t inside_ = 0; ///< bytes of the row that are gone
};

} // namespace dualpath::net
