// What the drivers of attention share: how the work is cut, the classes of blocks, and the shares of threads.
#pragma once

#include <algorithm>
#include <span>

#include "contract/attention.h"
#include "kernel/attention_shape.h"
#include "kernel/cpu/attention_blocks.h"

namespace longhaul::kernel {

constexpr Index ceil_divide(Index a, Index b) noexcept {
  return (a + b - 1) / b;
}

// One half of a pass, as attention_forward.cpp and attention_backward.cpp define it for each set of kernels.
Index forward_scratch_bytes(const AttentionKernels& kernels, const AttentionShape& s, int threads) noexcept;
Index forward_tile_count(const AttentionShape& s) noexcept;
void forward_tiles(const AttentionKernels& kernels, Queue& queue, const AttentionForward& a, Index begin, Index end,
                   Bytes scratch) noexcept;
Index backward_scratch_bytes(const AttentionKernels& kernels, const AttentionShape& s, int threads) noexcept;
Index backward_tile_count(const AttentionShape& s) noexcept;
void backward_tiles(const AttentionKernels& kernels, Queue& queue, const AttentionBackward& a, Index begin, Index end,
                    Bytes scratch) noexcept;

// Hands out 64-byte aligned pieces of scratch; without memory it only counts.
class ScratchCutter {
 public:
  explicit ScratchCutter(std::byte* data = nullptr) : data_(data) {}
  template <class T>
  T* take(Index count) noexcept {
    T* piece = data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + used_);
    used_ += ceil_divide(count * static_cast<Index>(sizeof(T)), 64) * 64;
    return piece;
  }
  Index used() const noexcept { return used_; }

 private:
  std::byte* data_;
  Index used_ = 0;
};

// What the mask means for a block of queries, and which of its rows are not padding.
struct QueryBlock {
  QueryBounds bounds;
  std::uint8_t keep[kBlock];
};
void describe_queries(const MaskSpec& mask, std::span<const Token> tokens, Index block, QueryBlock& out) noexcept;

TokenRange join(std::span<const TokenRange> ranges) noexcept;
// The ranges of all blocks of queries and of keys.
void fill_ranges(const Team& team, std::span<const Token> queries, TokenRange* q_ranges, std::span<const Token> keys,
                 TokenRange* k_ranges) noexcept;

// A panel of key blocks being packed: keys [block0 * kBlock, ...) of key/value heads [head0, head0 + heads).
struct PackedKeys {
  float *k, *v;                          // of one head after another
  std::int64_t *row, *document, *chunk;  // of each key; padding beyond the last
  Index block0 = 0, blocks = 0, head0 = 0;

  void take(ScratchCutter& cutter, const AttentionShape& s, Index most_blocks, Index heads) noexcept;
  KeyMarks marks() const noexcept { return {row, document, chunk}; }
};
// Packs the unit-th of blocks * heads blocks; units of the first head also write the marks.
template <class Args>
void pack_keys(const AttentionKernels& kernels, const Args& a, const PackedKeys& keys, Index unit) noexcept;

// The classes of one query block with the key blocks of `keys`; a block that is not whole is never full, as the rows
// beyond its end must be masked. Returns how many are not empty.
Index classify_blocks(const MaskSpec& mask, const TokenRange& queries, std::span<const TokenRange> keys,
                      bool last_is_whole, std::uint8_t* classes) noexcept;

// Runs f(thread) on each thread of the team.
template <class F>
void on_threads(const Team& team, F&& f) {
  parallel_for(team, team.threads, [&](Index thread, int) { f(static_cast<int>(thread)); });
}
constexpr Index part(Index count, int threads, int thread) noexcept {
  return count * thread / threads;
}

// The part of items [0, count) that belongs to a thread when each has nearly the same cost. cost(item) >= 0.
struct Share {
  Index begin, end;
};
template <class Cost>
Share share_of(Index count, Cost&& cost, int threads, int thread) noexcept {
  Index total = 0;
  for (Index i = 0; i < count; ++i) total += cost(i);
  // An item belongs to the thread in whose part of the total its middle lies.
  const auto first_of = [&](Index t) {
    if (t == threads) return count;
    Index before = 0, i = 0;
    for (; i < count; ++i) {
      const Index c = cost(i);
      if ((2 * before + c) * threads >= 2 * total * t) break;
      before += c;
    }
    return i;
  };
  return {first_of(thread), first_of(thread + 1)};
}

// Rows [row, ...) of one head.
StridedRows rows_of(const AnyView<3>& v, Index row, Index head) noexcept;
StridedSums sums_of(const AnyView<3>& v, Index row, Index head) noexcept;

}  // namespace longhaul::kernel
