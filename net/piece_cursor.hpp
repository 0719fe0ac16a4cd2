// Turns the strided pieces of a transfer into the operations a network is given: adjacent pieces are joined,
// so that a layer of many blocks costs no more descriptors than it must, and long ones are cut, so that no
// operation keeps a lane busy for long. Also the one place where bounds are checked.
#pragma once

#include "core/result.hpp"
#include "net/fabric.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dualpath::net {

/// Errors: invalid_argument, naming the first piece that leaves either region.
core::result<void> check_pieces(const std::vector<strided_piece>& pieces, std::uint64_t local_bytes,
                                std::uint64_t remote_bytes);

class piece_cursor {
public:
  struct operation {
    std::uint64_t local_offset, remote_offset, bytes;
  };

  piece_cursor() = default;
  piece_cursor(std::vector<strided_piece> pieces, std::uint64_t max_operation_bytes) {
    assign(std::move(pieces));
    start(max_operation_bytes);
  }
  /// The two steps of the constructor: what is checked in between are the caller's pieces, as they are.
  void assign(std::vector<strided_piece> pieces) { pieces_ = std::move(pieces); }
  void start(std::uint64_t max_operation_bytes) {
    max_bytes_ = max_operation_bytes;
    join_pieces();
    skip_empty();
  }
  const std::vector<strided_piece>& pieces() const { return pieces_; }

  bool at_end() const { return piece_ == pieces_.size(); }

  /// The next operation, of at most `limit` bytes; only when not at_end().
  operation next(std::uint64_t limit = ~std::uint64_t{0}) {
    auto& piece = pieces_[piece_];
    auto bytes = std::min({max_bytes_, limit, piece.bytes - inside_});
    operation out{piece.local_offset + row_ * piece.local_stride + inside_,
                  piece.remote_offset + row_ * piece.remote_stride + inside_, bytes};
    inside_ += bytes;
    if (inside_ == piece.bytes) {
      inside_ = 0;
      if (++row_ == piece.count) {
        row_ = 0;
        ++piece_;
        skip_empty();
      }
    }
    return out;
  }

private:
  static void join_rows(strided_piece& piece) {
    if (piece.local_stride != piece.bytes || piece.remote_stride != piece.bytes || piece.count == 0) return;
    piece.bytes *= piece.count;
    piece.count = 1;
  }

  static bool continues(const strided_piece& first, const strided_piece& second) {
    return first.count == 1 && second.count == 1 && second.local_offset == first.local_offset + first.bytes
           && second.remote_offset == first.remote_offset + first.bytes;
  }

  void join_pieces() {
    std::size_t kept = 0;
    for (auto& piece : pieces_) {
      join_rows(piece);
      if (kept != 0 && continues(pieces_[kept - 1], piece)) {
        pieces_[kept - 1].bytes += piece.bytes;
      } else {
        pieces_[kept++] = piece;
      }
    }
    pieces_.resize(kept);
  }

  void skip_empty() {
    while (piece_ < pieces_.size() && (pieces_[piece_].count == 0 || pieces_[piece_].bytes == 0)) ++piece_;
  }

  std::vector<strided_piece> pieces_;
  std::uint64_t max_bytes_ = 0;
  std::size_t piece_ = 0;
  std::uint64_t row_ = 0, inside_ = 0;
};

} // namespace dualpath::net
