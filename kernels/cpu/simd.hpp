// Sixteen floats that behave the same on every instruction set: one AVX-512 register, two of AVX2, or an
// array. For inclusion by the kernels_*.cpp only; each defines DUALPATH_SIMD_* and is compiled for its own
// instruction set, so everything here is in an unnamed namespace: a shared inline function could be linked
// from the wrong file.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(DUALPATH_SIMD_AVX512) || defined(DUALPATH_SIMD_AVX2)
#include <immintrin.h>
#endif

namespace dualpath::kernels {
namespace {

#if defined(DUALPATH_SIMD_AVX512)

struct f32x16 {
  __m512 v;
};
inline f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, f32x16 x) { _mm512_storeu_ps(p, x.v); }
inline f32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once.
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// The larger; b where they are equal or not ordered.
inline f32x16 larger(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
/// Zero where a < b, x elsewhere, also where they are not ordered.
inline f32x16 where_not_less(f32x16 a, f32x16 b, f32x16 x) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ), x.v)};
}
/// x * 2^n, where n is the low bits of `magic` (a float of 2^23 scale plus n) and the product is normal.
inline f32x16 scale_by_power(f32x16 x, f32x16 magic) {
  auto n = _mm512_slli_epi32(_mm512_castps_si512(magic.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), n))};
}
inline f32x16 load_bf16(const std::uint16_t* p) {
  auto half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}

/// Turns 16 rows of 16 into 16 columns, by ever larger pieces: 1, 2, 4 and 8 lanes.
inline void transpose(f32x16 (&r)[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  auto pairs = [](__m512 a, __m512 b, bool high) {
    auto x = _mm512_castps_pd(a);
    auto y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
  };
  __m512 u[16];
  for (int i = 0; i < 16; i += 4) {
    u[i] = pairs(t[i], t[i + 2], false);
    u[i + 1] = pairs(t[i], t[i + 2], true);
    u[i + 2] = pairs(t[i + 1], t[i + 3], false);
    u[i + 3] = pairs(t[i + 1], t[i + 3], true);
  }
  for (int i = 0; i < 4; ++i) {
    auto low01 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88);
    auto high01 = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd);
    auto low23 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
    auto high23 = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
    r[i].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    r[i + 4].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    r[i + 8].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    r[i + 12].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

#elif defined(DUALPATH_SIMD_AVX2)

struct f32x16 {
  __m256 lo, hi;
};
inline f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, f32x16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
inline f32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline f32x16 larger(f32x16 a, f32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline f32x16 where_not_less(f32x16 a, f32x16 b, f32x16 x) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_NLT_UQ), x.lo),
          _mm256_and_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_NLT_UQ), x.hi)};
}
inline __m256 scale_by_power(__m256 x, __m256 magic) {
  auto n = _mm256_slli_epi32(_mm256_castps_si256(magic), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), n));
}
inline f32x16 scale_by_power(f32x16 x, f32x16 magic) {
  return {scale_by_power(x.lo, magic.lo), scale_by_power(x.hi, magic.hi)};
}
inline __m256 widen_bf16(const std::uint16_t* p) {
  auto half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
inline f32x16 load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }

#else

struct f32x16 {
  float v[16];
};
template <class F>
inline f32x16 each(F f) {
  f32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
inline f32x16 load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline void store(float* p, f32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = x.v[i];
}
inline f32x16 splat(float x) {
  return each([&](int) { return x; });
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline f32x16 larger(f32x16 a, f32x16 b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline f32x16 where_not_less(f32x16 a, f32x16 b, f32x16 x) {
  return each([&](int i) { return a.v[i] < b.v[i] ? 0.0F : x.v[i]; });
}
inline f32x16 scale_by_power(f32x16 x, f32x16 magic) {
  return each([&](int i) {
    std::uint32_t bits;
    std::uint32_t n;
    __builtin_memcpy(&bits, &x.v[i], 4);
    __builtin_memcpy(&n, &magic.v[i], 4);
    bits += n << 23;
    float scaled;
    __builtin_memcpy(&scaled, &bits, 4);
    return scaled;
  });
}
inline f32x16 load_bf16(const std::uint16_t* p) {
  return each([&](int i) {
    auto bits = std::uint32_t{p[i]} << 16;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
  });
}

#endif

#if !defined(DUALPATH_SIMD_AVX512)
inline void transpose(f32x16 (&r)[16]) {
  float rows[16][16];
  for (int i = 0; i < 16; ++i) store(rows[i], r[i]);
  for (int i = 0; i < 16; ++i) {
    float column[16];
    for (int j = 0; j < 16; ++j) column[j] = rows[j][i];
    r[i] = load(column);
  }
}
#endif

/// Lane sums in one fixed tree.
inline float sum_lanes(f32x16 x) {
  float v[16];
  store(v, x);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) v[i] = v[i] + v[i + width];
  return v[0];
}
inline float largest_lane(f32x16 x) {
  float v[16];
  store(v, x);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) v[i] = v[i] > v[i + width] ? v[i] : v[i + width];
  return v[0];
}

/// e^x: zero below -87, exactly one at zero, finite up to 88; larger x are taken as 88. Not-a-number stays,
/// so that damaged input shows in the result. Within 2 units in the last place.
inline f32x16 exponential(f32x16 x) {
  const auto lowest = splat(-87.0F);
  auto clamped = splat(0.0F) - larger(splat(-88.0F), splat(0.0F) - x);
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits.
  const auto round = splat(12582912.0F);
  auto shifted = fma(clamped, splat(1.44269504F), round);
  auto n = shifted - round;
  auto r = fma(n, splat(-0.693359375F), clamped);
  r = fma(n, splat(2.12194440e-4F), r);
  auto p = splat(1.9875691500e-4F);
  p = fma(p, r, splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  p = fma(p, r * r, r) + splat(1.0F);
  return where_not_less(x, lowest, scale_by_power(p, shifted));
}

} // namespace
} // namespace dualpath::kernels
