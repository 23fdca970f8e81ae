// What one instruction set does of attention: work on one block of queries of one head and a panel of packed keys.
//
// The drivers (attention_forward.cpp, attention_backward.cpp) decide which blocks meet; the kernels (*.simd.cpp)
// compute. Queries lie across the lanes: scores are kept transposed, key by query, so no sum or maximum runs across a
// vector, and all products are outer products of two packed operands. Plain data and function pointers only: simd.h
// says why.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace longhaul::kernel {

inline constexpr Index kBlock = 48;        // queries of a block, keys of a block: a multiple of each kernel's tile
inline constexpr Index kRowMultiple = 16;  // packed rows are padded with zeros to a multiple of this many floats

constexpr Index padded_width(Index width) noexcept {
  return (width + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

// Rows in memory, one head: element (r, c) is data[r * row_stride + c * column_stride].
struct StridedRows {
  const void* data = nullptr;
  Index row_stride = 0, column_stride = 1;
  bool bf16 = false;  // else fp32
};
struct StridedSums {
  float* data = nullptr;
  Index row_stride = 0, column_stride = 1;
};

// Query i of a block sees key j iff lo <= row(j) <= hi and the marks are equal. Marks of padding equal nothing.
struct QueryBounds {
  std::int64_t lo[kBlock], hi[kBlock];
  std::int64_t document[kBlock], chunk[kBlock];
};
struct KeyMarks {
  const std::int64_t* row = nullptr;
  const std::int64_t* document = nullptr;
  const std::int64_t* chunk = nullptr;
};

enum BlockClass : std::uint8_t { kBlockEmpty, kBlockPartial, kBlockFull };

// A panel of key blocks: rows packed as fp32, [keys, padded_width]; padding rows are zero.
struct KeyPanel {
  const float* k = nullptr;
  const float* v = nullptr;
  KeyMarks marks;
  Index d_qk = 0, d_v = 0;
  const std::uint8_t* classes = nullptr;  // of each key block with the query block
  Index blocks = 0;
};

struct Scoring {
  float scale = 1, softcap = 0;
};

// The running softmax of a block: accumulator [padded V, kBlock], not normalised; maximum and sum of each query.
struct ForwardState {
  float* o;
  float* m;
  float* z;
};

struct ForwardBlock {
  StridedRows q;
  Index rows = 0;                      // queries, up to kBlock
  const std::uint8_t* keep = nullptr;  // of each row: 0 is padding, whose values are not read
  const QueryBounds* bounds = nullptr;
  Scoring scoring;
  ForwardState state;
  float* workspace = nullptr;  // forward_workspace floats, of this thread
};

// The partial result in memory that a state is merged into.
struct ForwardResult {
  StridedSums o;
  float* m;
  float* l;
  Index m_stride, l_stride;  // between rows
};

struct BackwardBlock {
  StridedRows q, d_o;
  Index rows = 0;
  const std::uint8_t* keep = nullptr;
  const QueryBounds* bounds = nullptr;
  Scoring scoring;
  const float* m;
  const float* l;
  const float* delta;
  Index m_stride, l_stride, delta_stride;  // between rows
  StridedSums dq;                          // added to
  float* dk = nullptr;                     // [keys of the panel, padded D], added to
  float* dv = nullptr;                     // [keys of the panel, padded V], added to
  float* workspace = nullptr;              // backward_workspace floats, of this thread
};

struct AttentionKernels {
  // rows x columns to fp32 [out_rows, padded_width(columns)], zero where there is no column or row or keep is 0.
  void (*pack_rows)(const StridedRows& from, const std::uint8_t* keep, Index rows, Index columns, Index out_rows,
                    float* out) noexcept;
  // out += rows [rows, padded_width(columns)].
  void (*add_rows)(const float* from, Index rows, Index columns, const StridedSums& out) noexcept;
  Index (*forward_workspace)(Index d_qk, Index d_v) noexcept;
  void (*forward_begin)(const ForwardState& state, Index d_v) noexcept;
  void (*forward)(const ForwardBlock& block, const KeyPanel& panel) noexcept;
  void (*forward_end)(const ForwardBlock& block, Index d_v, const ForwardResult& result) noexcept;
  Index (*backward_workspace)(Index d_qk, Index d_v) noexcept;
  void (*backward)(const BackwardBlock& block, const KeyPanel& panel) noexcept;
  // delta[r * stride] = sum over columns of d_o * o; columns adjacent in both.
  void (*delta)(const StridedRows& o, const StridedRows& d_o, Index rows, Index columns, float* delta,
                Index stride) noexcept;
};

namespace baseline {
extern const AttentionKernels kAttention;
}
#if defined(__x86_64__)
namespace avx2 {
extern const AttentionKernels kAttention;
}
namespace avx512 {
extern const AttentionKernels kAttention;
}
#endif

}  // namespace longhaul::kernel
