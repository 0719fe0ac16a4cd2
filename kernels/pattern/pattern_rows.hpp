// KV rows that verify themselves: the bytes of a row follow from (model, every token up to its position,
// layer), so any reader can tell from the tokens alone whether a row is the right one and whole. Fast enough
// to fill or check all KV of a run: counters mixed eight bytes at a time, which compilers turn into vector
// code. Pure functions, thread-safe. Words are stored in the machine's byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dualpath::kernels {

/// Salt of one layer of one model, to be computed once for many rows.
std::uint64_t layer_salt(std::uint64_t model_salt, std::uint32_t layer);
/// Seed of the row of a position; `prefix_hash` is sequence::prefix_hash(position).
std::uint64_t row_seed(std::uint64_t layer_salt, std::uint64_t prefix_hash);

/// Writes the row; any length.
void fill_row(std::uint64_t seed, std::span<std::byte> row);
/// Whether the row holds exactly what fill_row() writes.
bool row_matches(std::uint64_t seed, std::span<const std::byte> row);
/// The byte fill_row() writes at `index`.
std::byte row_byte(std::uint64_t seed, std::size_t index);
/// Index of the first byte that differs from what fill_row() writes; nothing where the row is right.
std::optional<std::size_t> first_difference(std::uint64_t seed, std::span<const std::byte> row);

} // namespace dualpath::kernels
