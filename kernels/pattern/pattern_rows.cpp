#include "kernels/pattern/pattern_rows.hpp"

#include "kernels/sequence.hpp"

#include <cstring>

// One build serves every x86-64 machine: the loader picks the widest vectors it has. Sanitizers do not
// survive the early resolvers this needs.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)        \
    && !defined(__SANITIZE_THREAD__)
#define DUALPATH_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
#else
#define DUALPATH_VECTOR_CLONES
#endif

namespace dualpath::kernels {

namespace {

constexpr std::uint64_t counter_step = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

// A 32×32-bit product is the widest multiplication every vector unit has.
inline std::uint64_t mixed(std::uint64_t x) { return x ^ ((x & 0xffffffffULL) * (x >> 32)); }

std::uint64_t word_at(std::uint64_t seed, std::size_t index) { return mixed(seed + index * counter_step); }

DUALPATH_VECTOR_CLONES
void fill_words(std::uint64_t seed, std::byte* target, std::size_t words) {
  auto counter = seed;
  for (std::size_t i = 0; i < words; ++i, counter += counter_step) {
    auto word = mixed(counter);
    std::memcpy(target + i * word_bytes, &word, word_bytes);
  }
}

// Without an early exit, so that the loop becomes vector code.
DUALPATH_VECTOR_CLONES
std::uint64_t differing_bits(std::uint64_t seed, const std::byte* source, std::size_t words) {
  std::uint64_t bits = 0;
  auto counter = seed;
  for (std::size_t i = 0; i < words; ++i, counter += counter_step) {
    std::uint64_t word;
    std::memcpy(&word, source + i * word_bytes, word_bytes);
    bits |= word ^ mixed(counter);
  }
  return bits;
}

} // namespace

std::uint64_t layer_salt(std::uint64_t model_salt, std::uint32_t layer) {
  return sequence::mix(sequence::mix(model_salt) + layer);
}

std::uint64_t row_seed(std::uint64_t layer_salt, std::uint64_t prefix_hash) {
  return sequence::mix(layer_salt ^ prefix_hash);
}

void fill_row(std::uint64_t seed, std::span<std::byte> row) {
  auto words = row.size() / word_bytes;
  fill_words(seed, row.data(), words);
  auto tail = word_at(seed, words);
  std::memcpy(row.data() + words * word_bytes, &tail, row.size() % word_bytes);
}

bool row_matches(std::uint64_t seed, std::span<const std::byte> row) {
  auto words = row.size() / word_bytes;
  auto tail = word_at(seed, words);
  return differing_bits(seed, row.data(), words) == 0
         && std::memcmp(row.data() + words * word_bytes, &tail, row.size() % word_bytes) == 0;
}

std::byte row_byte(std::uint64_t seed, std::size_t index) {
  auto word = word_at(seed, index / word_bytes);
  std::byte bytes[word_bytes];
  std::memcpy(bytes, &word, word_bytes);
  return bytes[index % word_bytes];
}

std::optional<std::size_t> first_difference(std::uint64_t seed, std::span<const std::byte> row) {
  if (row_matches(seed, row)) return std::nullopt;
  std::size_t index = 0;
  while (row[index] == row_byte(seed, index)) ++index;
  return index;
}

} // namespace dualpath::kernels
