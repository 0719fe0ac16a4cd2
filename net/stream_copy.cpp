#include "net/stream_copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dualpath::net {

#if defined(__x86_64__)

namespace {

constexpr std::size_t line = 64, page = 4096;
/// Copied side by side, because each page is a stream of its own to the prefetcher.
constexpr std::size_t streams = 4;

void stream_line(std::byte* to, const std::byte* from) {
  auto source = reinterpret_cast<const __m128i*>(from);
  auto target = reinterpret_cast<__m128i*>(to);
  auto a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
  auto c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

} // namespace

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  auto head = std::min<std::size_t>(bytes, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= streams * page; bytes -= streams * page, to += streams * page, from += streams * page) {
    for (std::size_t i = 0; i < page; i += line)
      for (std::size_t s = 0; s < streams; ++s) {
        _mm_prefetch(reinterpret_cast<const char*>(from + s * page + i + 8 * line), _MM_HINT_T0);
        stream_line(to + s * page + i, from + s * page + i);
      }
  }
  for (; bytes >= line; bytes -= line, to += line, from += line) stream_line(to, from);
  std::memcpy(to, from, bytes);
  _mm_sfence();
}

#else

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

} // namespace dualpath::net
