// The two outer products that attention is made of, and changes between rows and panels. For *.simd.cpp only.
//
// A panel holds kPanel queries side by side: element (i, query) at [i * kPanel + query]. A block of kBlock queries is
// kPanels panels one after another.
#pragma once

#include <utility>

#include "kernel/cpu/attention_blocks.h"
#include "kernel/cpu/simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

// Accumulators of one product: kRows x kVectors, so that with the operands they fill the register file.
#if defined(__AVX512F__)
constexpr int kPanelVectors = 3, kPanelRows = 8;  // 24 of 32 registers
constexpr int kMostVectors = 4;
constexpr int rows_for(int vectors) {
  return vectors == 4 ? 6 : vectors == 3 ? 8 : vectors == 2 ? 12 : 24;
}
#elif defined(__AVX2__)
constexpr int kPanelVectors = 3, kPanelRows = 4;  // 12 of 16 registers
constexpr int kMostVectors = 3;
constexpr int rows_for(int vectors) {
  return vectors == 3 ? 4 : vectors == 2 ? 6 : 12;
}
#else
constexpr int kPanelVectors = 2, kPanelRows = 4;  // 8 of 16 registers: without fma a product needs one more
constexpr int kMostVectors = 2;
constexpr int rows_for(int vectors) {
  return vectors == 2 ? 4 : 8;
}
#endif
constexpr Index kPanel = kPanelVectors * kLanes, kPanels = kBlock / kPanel;
static_assert(kBlock % kPanel == 0 && kRowMultiple % kPanelRows == 0 && kRowMultiple % kLanes == 0);

// c[r][n] += sum over k of a[r * a_row + k * a_step] * b[k * b_step + lanes of n]
template <int kRows, int kVectors>
LONGHAUL_INLINE void outer_product(const float* a, Index a_row, Index a_step, const float* b, Index b_step, Index count,
                                   Floats (&c)[kRows][kVectors]) {
  for (Index k = 0; k < count; ++k) {
    Floats x[kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) x[n] = load(b + n * kLanes);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
      const Floats y = broadcast(a[r * a_row]);
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) c[r][n] = fma(y, x[n], c[r][n]);
    }
    a += a_step;
    b += b_step;
  }
}

// out[r, query] = factor * sum over d of rows[r, d] * panel[d, query], for kBlock rows.
LONGHAUL_INLINE void rows_times_panel(const float* rows, Index row_stride, const float* panel, Index width,
                                      float factor, float* out) {
  const Floats f = broadcast(factor);
  for (Index r = 0; r < kBlock; r += kPanelRows) {
    Floats c[kPanelRows][kPanelVectors] = {};
    outer_product(rows + r * row_stride, row_stride, 1, panel, kPanel, width, c);
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i)
#pragma GCC unroll 4
      for (int n = 0; n < kPanelVectors; ++n) store(out + (r + i) * kPanel + n * kLanes, c[i][n] * f);
  }
}

// out[d, query] += sum over r of rows[r, d] * panel[r, query], for kBlock rows; width a multiple of kPanelRows.
LONGHAUL_INLINE void columns_times_panel(const float* rows, Index row_stride, const float* panel, Index width,
                                         float* out) {
  for (Index d = 0; d < width; d += kPanelRows) {
    Floats c[kPanelRows][kPanelVectors] = {};
    outer_product(rows + d, 1, row_stride, panel, kPanel, kBlock, c);
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i)
#pragma GCC unroll 4
      for (int n = 0; n < kPanelVectors; ++n) {
        float* at = out + (d + i) * kPanel + n * kLanes;
        store(at, load(at) + c[i][n]);
      }
  }
}

// out[r, d] += sum over queries of panels[r, query] * rows[query, d] for kVectors vectors of columns d and kBlock rows.
template <int kVectors>
LONGHAUL_INLINE void panels_times_columns(const float* panels, const float* rows, Index row_stride, float* out) {
  constexpr int kRows = rows_for(kVectors);
  static_assert(kBlock % kRows == 0);
  for (Index r = 0; r < kBlock; r += kRows) {
    Floats c[kRows][kVectors] = {};
    for (Index p = 0; p < kPanels; ++p)
      outer_product(panels + p * kBlock * kPanel + r * kPanel, kPanel, 1, rows + p * kPanel * row_stride, row_stride,
                    kPanel, c);
#pragma GCC unroll 24
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) {
        float* at = out + (r + i) * row_stride + n * kLanes;
        store(at, load(at) + c[i][n]);
      }
  }
}
// All columns; rows and out have the same stride, a multiple of kLanes.
LONGHAUL_INLINE void panels_times_rows(const float* panels, const float* rows, Index row_stride, float* out) {
  Index left = row_stride / kLanes;
  while (left > 0) {
    // No group of vectors is left narrower than it need be: 5 is 3 + 2, not 4 + 1.
    const Index groups = (left + kMostVectors - 1) / kMostVectors, take = (left + groups - 1) / groups;
    if (take == 1) panels_times_columns<1>(panels, rows, row_stride, out);
    if (take == 2) panels_times_columns<2>(panels, rows, row_stride, out);
    if constexpr (kMostVectors >= 3)
      if (take == 3) panels_times_columns<3>(panels, rows, row_stride, out);
    if constexpr (kMostVectors >= 4)
      if (take == 4) panels_times_columns<4>(panels, rows, row_stride, out);
    rows += take * kLanes, out += take * kLanes, left -= take;
  }
}

// Exchanges lanes and vectors: element j of x[i] goes to element i of x[j]. Step by step for each bit of the index:
// lanes with the bit set in the first of two vectors change places with lanes without it in the second.
template <int kStep, int... kLane>
LONGHAUL_INLINE void exchange(Floats& a, Floats& b, std::integer_sequence<int, kLane...>) {
  const Floats first = __builtin_shufflevector(a, b, ((kLane & kStep) ? kLanes + kLane - kStep : kLane)...);
  const Floats second = __builtin_shufflevector(a, b, ((kLane & kStep) ? kLanes + kLane : kLane + kStep)...);
  a = first, b = second;
}
template <int kStep = 1>
LONGHAUL_INLINE void transpose(Floats (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (!(i & kStep)) exchange<kStep>(x[i], x[i + kStep], std::make_integer_sequence<int, kLanes>{});
  if constexpr (kStep * 2 < kLanes) transpose<kStep * 2>(x);
}

// rows [kBlock, stride] to panels of `stride` rows each: kPanels x [stride, kPanel].
LONGHAUL_INLINE void rows_to_panels(const float* rows, Index stride, float* panels) {
  for (Index q = 0; q < kBlock; q += kLanes)
    for (Index d = 0; d < stride; d += kLanes) {
      Floats x[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) x[i] = load(rows + (q + i) * stride + d);
      transpose(x);
      float* to = panels + q / kPanel * stride * kPanel + d * kPanel + q % kPanel;
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(to + i * kPanel, x[i]);
    }
}
// And back; each query's values are multiplied by factor[query].
LONGHAUL_INLINE void panels_to_rows(const float* panels, Index stride, const float* factor, float* rows) {
  for (Index q = 0; q < kBlock; q += kLanes) {
    const Floats f = load(factor + q);
    for (Index d = 0; d < stride; d += kLanes) {
      const float* from = panels + q / kPanel * stride * kPanel + d * kPanel + q % kPanel;
      Floats x[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) x[i] = load(from + i * kPanel) * f;
      transpose(x);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(rows + (q + i) * stride + d, x[i]);
    }
  }
}

}  // namespace
}  // namespace longhaul::kernel::LONGHAUL_ISA
