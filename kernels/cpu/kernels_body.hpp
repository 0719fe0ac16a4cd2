// The kernels themselves, written once over f32x16. Included by the kernels_*.cpp after they chose an
// instruction set (DUALPATH_SIMD_*), the rows of a matrix tile (tile_rows) and its width in groups of 16
// lanes (tile_groups).
#pragma once

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/simd.hpp"

namespace dualpath::kernels {
namespace {

constexpr std::uint32_t panel_columns = 32;
/// Inputs of one step: 256 of them by 32 columns are 32 KiB, which stay in the first cache for all rows.
constexpr std::uint32_t gemm_inputs_step = 256;

constexpr std::size_t prefetch_floats = 512;

template <int Rows>
inline void gemm_tile(const gemm_args& args, const float* a, const float* b, std::uint32_t inputs, float* c,
                      const float* bias, bool first) {
  f32x16 sum[Rows][tile_groups];
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < tile_groups; ++g) {
      if (!first || args.from == gemm_args::start::stored)
        sum[r][g] = load(c + r * args.c_stride + 16 * g);
      else if (args.from == gemm_args::start::bias)
        sum[r][g] = load(bias + 16 * g);
      else
        sum[r][g] = splat(0.0F);
    }
  const std::size_t stride = args.a_stride;
  for (std::uint32_t k = 0; k < inputs; ++k) {
    f32x16 weight[tile_groups];
    for (int g = 0; g < tile_groups; ++g) weight[g] = load(b + 16 * g);
    for (int r = 0; r < Rows; ++r) {
      auto x = splat(a[r * stride + k]);
      for (int g = 0; g < tile_groups; ++g) sum[r][g] = fma(x, weight[g], sum[r][g]);
    }
    if constexpr (Rows <= 4) {
      // Few rows wait for memory, and the processor's own prefetching stops at every page.
      __builtin_prefetch(b + prefetch_floats);
      __builtin_prefetch(b + prefetch_floats + 16);
    }
    b += panel_columns;
  }
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < tile_groups; ++g) store(c + r * args.c_stride + 16 * g, sum[r][g]);
}

using tile_function = void (*)(const gemm_args&, const float*, const float*, std::uint32_t, float*,
                               const float*, bool);

template <int Rows>
void gemm_tile_of(const gemm_args& args, const float* a, const float* b, std::uint32_t inputs, float* c,
                  const float* bias, bool first) {
  for (std::uint32_t g = 0; g < panel_columns; g += 16 * tile_groups)
    gemm_tile<Rows>(args, a, b + g, inputs, c + g, bias ? bias + g : nullptr, first);
}

template <int Rows>
struct tile_list : tile_list<Rows - 1> {
  constexpr tile_list() { this->by_rows[Rows] = &gemm_tile_of<Rows>; }
};
template <>
struct tile_list<0> {
  tile_function by_rows[tile_rows + 1] = {};
};

void gemm(const gemm_args& args) {
  static constexpr tile_list<tile_rows> tiles;
  for (std::uint32_t panel = 0; panel < args.panel_count; ++panel) {
    const auto* weights = args.panels + std::size_t{panel} * args.inputs * panel_columns;
    const auto* bias = args.from == gemm_args::start::bias ? args.bias + panel * panel_columns : nullptr;
    // One tile of rows needs no steps: its sums stay in registers.
    auto step = args.rows <= tile_rows ? args.inputs : gemm_inputs_step;
    for (std::uint32_t k = 0; k < args.inputs; k += step) {
      auto inputs = args.inputs - k < step ? args.inputs - k : step;
      for (std::uint32_t row = 0; row < args.rows; row += tile_rows) {
        auto rows = args.rows - row < tile_rows ? args.rows - row : std::uint32_t{tile_rows};
        tiles.by_rows[rows](args, args.a + row * args.a_stride + k, weights + std::size_t{k} * panel_columns,
                            inputs, args.c + row * args.c_stride + panel * panel_columns, bias, k == 0);
      }
    }
  }
}

void rms_norm(const float* x, const float* weight, float epsilon, std::size_t count, std::size_t width,
              float* out) {
  auto squares = splat(0.0F);
  for (std::size_t i = 0; i < width; i += 16) squares = fma(load(x + i), load(x + i), squares);
  auto mean = sum_lanes(squares) / static_cast<float>(count) + epsilon;
  auto scale = splat(1.0F / __builtin_sqrtf(mean));
  for (std::size_t i = 0; i < width; i += 16) store(out + i, load(x + i) * scale * load(weight + i));
}

void silu_multiply(const float* gate_up, std::size_t panels, float* out) {
  const auto one = splat(1.0F);
  for (std::size_t panel = 0; panel < panels; ++panel, gate_up += 64, out += 32)
    for (int i = 0; i < 32; i += 16) {
      auto gate = load(gate_up + i);
      store(out + i, gate / (one + exponential(splat(0.0F) - gate)) * load(gate_up + 32 + i));
    }
}

void add(float* x, const float* y, std::size_t width) {
  for (std::size_t i = 0; i < width; i += 16) store(x + i, load(x + i) + load(y + i));
}

inline float exponential_of(float x) {
  float lanes[16];
  store(lanes, exponential(splat(x)));
  return lanes[0];
}

void softmax_step(const softmax_state& state, float* scores, std::uint32_t visible) {
  for (std::uint32_t i = visible; i < attention_tile; ++i) scores[i] = -__builtin_inff();
  auto lanes = load(scores);
  for (std::uint32_t i = 16; i < attention_tile; i += 16) lanes = larger(lanes, load(scores + i));
  auto highest = largest_lane(lanes);
  auto before = *state.maximum;
  auto maximum = before > highest ? before : highest;
  auto sum = splat(0.0F);
  for (std::uint32_t i = 0; i < attention_tile; i += 16) {
    auto e = exponential(load(scores + i) - splat(maximum));
    store(scores + i, e);
    sum = sum + e;
  }
  auto rescale = maximum == before ? 1.0F : exponential_of(before - maximum);
  *state.sum = __builtin_fmaf(*state.sum, rescale, sum_lanes(sum));
  *state.maximum = maximum;
  if (rescale == 1.0F) return;
  for (std::size_t i = 0; i < state.output_width; i += 16)
    store(state.output + i, load(state.output + i) * splat(rescale));
}

void softmax_merge(const softmax_state& into, const softmax_state& other) {
  auto maximum = *into.maximum > *other.maximum ? *into.maximum : *other.maximum;
  auto keep = exponential_of(*into.maximum - maximum);
  auto take = exponential_of(*other.maximum - maximum);
  *into.maximum = maximum;
  *into.sum = __builtin_fmaf(*other.sum, take, *into.sum * keep);
  for (std::size_t i = 0; i < into.output_width; i += 16)
    store(into.output + i, fma(load(other.output + i), splat(take), load(into.output + i) * splat(keep)));
}

inline float element(const float* row, std::uint32_t i) { return row[i]; }
inline float element(const std::uint16_t* row, std::uint32_t i) {
  auto bits = std::uint32_t{row[i]} << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
inline f32x16 elements(const float* row) { return load(row); }
inline f32x16 elements(const std::uint16_t* row) { return load_bf16(row); }

/// 16 rows of K, dimension by dimension; rows past `count` are zero.
template <class Element>
void pack_key_lanes(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out) {
  auto row = [&](std::uint32_t lane) { return reinterpret_cast<const Element*>(rows[lane]); };
  std::uint32_t d = 0;
  for (; d + 16 <= dims; d += 16) {
    f32x16 block[16];
    for (std::uint32_t lane = 0; lane < 16; ++lane)
      block[lane] = lane < count ? elements(row(lane) + d) : splat(0.0F);
    transpose(block);
    for (std::uint32_t i = 0; i < 16; ++i) store(out + (d + i) * panel_columns, block[i]);
  }
  for (; d < dims; ++d)
    for (std::uint32_t lane = 0; lane < 16; ++lane)
      out[d * panel_columns + lane] = lane < count ? element(row(lane), d) : 0.0F;
}

template <class Element>
void pack_keys(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out) {
  for (std::uint32_t first = 0; first < attention_tile; first += panel_columns, out += dims * panel_columns)
    for (std::uint32_t lane = 0; lane < panel_columns; lane += 16) {
      auto done = first + lane;
      pack_key_lanes<Element>(rows + done, count > done ? count - done : 0, dims, out + lane);
    }
}

template <class Element>
void pack_values(const std::byte* const* rows, std::uint32_t count, std::uint32_t dims, float* out) {
  for (std::uint32_t first = 0; first < dims; first += panel_columns)
    for (std::uint32_t p = 0; p < attention_tile; ++p, out += panel_columns) {
      const auto* row = p < count ? reinterpret_cast<const Element*>(rows[p]) + first : nullptr;
      auto present = row ? (dims - first < panel_columns ? dims - first : panel_columns) : 0;
      if (present == panel_columns) {
        store(out, elements(row));
        store(out + 16, elements(row + 16));
        continue;
      }
      for (std::uint32_t d = 0; d < panel_columns; ++d) out[d] = d < present ? element(row, d) : 0.0F;
    }
}

void exponential_all(const float* x, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; i += 16) store(out + i, exponential(load(x + i)));
}

constexpr kernel_table make_table(const char* name) {
  return {name,
          gemm,
          rms_norm,
          silu_multiply,
          add,
          softmax_step,
          softmax_merge,
          pack_keys<float>,
          pack_keys<std::uint16_t>,
          pack_values<float>,
          pack_values<std::uint16_t>,
          exponential_all};
}

} // namespace
} // namespace dualpath::kernels
