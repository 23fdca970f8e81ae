// What forward and backward share between the products: rows in and out of memory, masks, softcap. For *.simd.cpp only.
#pragma once

#include "kernel/cpu/attention_product.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

// While it lives, results and operands below the smallest normal number are 0: products of small probabilities and
// small gradients would otherwise take the slow path of denormal numbers.
struct FlushDenormals {
#if defined(__x86_64__)
  FlushDenormals() : before(_mm_getcsr()) {
    _mm_setcsr(before | 0x8040);
  }  // flush to zero, denormals are zero
  ~FlushDenormals() {
    _mm_setcsr(before);
  }
  unsigned before;
#endif
};

// A piece of the workspace, 64-byte aligned as the whole is. Pieces are an odd number of cache lines apart from whole
// pages, so that a load from one and a store to another do not look alike in their low 12 bits.
LONGHAUL_INLINE float* take(float*& workspace, Index floats) {
  float* piece = workspace;
  workspace += (floats + 15) / 16 * 16 + 80;
  return piece;
}
constexpr Index taken(Index floats) {
  return (floats + 15) / 16 * 16 + 80;
}

LONGHAUL_INLINE Floats load_row(const StridedRows& from, Index at, int count) {
  if (from.bf16) {
    const auto* p = static_cast<const std::uint16_t*>(from.data) + at;
    return count < kLanes ? load_bf16(p, count) : load_bf16(p);
  }
  const float* p = static_cast<const float*>(from.data) + at;
  return count < kLanes ? load(p, count) : load(p);
}

[[maybe_unused]] void pack_rows(const StridedRows& from, const std::uint8_t* keep, Index rows, Index columns,
                                Index out_rows, float* out) noexcept {
  const Index width = padded_width(columns);
  for (Index r = 0; r < out_rows; ++r, out += width) {
    const bool read = r < rows && (keep == nullptr || keep[r] != 0);
    for (Index c = 0; c < width; c += kLanes) {
      const int count = static_cast<int>(columns - c < kLanes ? columns - c : kLanes);
      if (!read || count <= 0) {
        store(out + c, Floats{});
      } else if (from.column_stride == 1) {
        store(out + c, load_row(from, r * from.row_stride + c, count));
      } else {
        Floats x = {};
        for (int i = 0; i < count; ++i) x[i] = load_row(from, r * from.row_stride + (c + i) * from.column_stride, 1)[0];
        store(out + c, x);
      }
    }
  }
}

// out row = keep * out row + row, or row alone where keep is 0 (out is not read then).
LONGHAUL_INLINE void merge_row(const StridedSums& out, Index r, float keep, const float* row, Index width) {
  float* to = out.data + r * out.row_stride;
  if (out.column_stride != 1) {
    for (Index c = 0; c < width; ++c) {
      float& x = to[c * out.column_stride];
      x = keep == 0 ? row[c] : keep * x + row[c];
    }
    return;
  }
  const Floats k = broadcast(keep);
  for (Index c = 0; c < width; c += kLanes) {
    const int count = static_cast<int>(width - c < kLanes ? width - c : kLanes);
    const Floats old = keep == 0 ? Floats{} : count < kLanes ? load(to + c, count) : load(to + c);
    const Floats x = fma(k, old, load(row + c));
    if (count < kLanes)
      store(to + c, x, count);
    else
      store(to + c, x);
  }
}

[[maybe_unused]] void add_rows(const float* from, Index rows, Index columns, const StridedSums& out) noexcept {
  for (Index r = 0; r < rows; ++r) merge_row(out, r, 1, from + r * padded_width(columns), columns);
}

typedef std::int64_t Longs __attribute__((vector_size(kLanes * 4)));  // half as many lanes
typedef std::int32_t HalfInts __attribute__((vector_size(kLanes * 2)));
typedef std::int64_t LongsInMemory __attribute__((vector_size(kLanes * 4), aligned(8), may_alias));

LONGHAUL_INLINE HalfInts half_visible(const QueryBounds& q, Index at, std::int64_t row, std::int64_t document,
                                      std::int64_t chunk) {
  const auto lanes = [at](const std::int64_t* p) { return Longs(*reinterpret_cast<const LongsInMemory*>(p + at)); };
  return __builtin_convertvector(
      (lanes(q.lo) <= row) & (lanes(q.hi) >= row) & (lanes(q.document) == document) & (lanes(q.chunk) == chunk),
      HalfInts);
}
template <int... kLane>
LONGHAUL_INLINE Ints join(HalfInts a, HalfInts b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, kLane...);
}
// Which queries [at, at + kLanes) of the block see the key.
LONGHAUL_INLINE Ints visible(const QueryBounds& q, Index at, const KeyMarks& keys, Index key) {
  const std::int64_t row = keys.row[key], document = keys.document[key], chunk = keys.chunk[key];
  return join(half_visible(q, at, row, document, chunk), half_visible(q, at + kLanes / 2, row, document, chunk),
              std::make_integer_sequence<int, kLanes>{});
}

constexpr float kMasked = -__builtin_inff();

}  // namespace
}  // namespace longhaul::kernel::LONGHAUL_ISA
