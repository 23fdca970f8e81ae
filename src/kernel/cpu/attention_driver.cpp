// Classes, marks and packing of blocks for the attention drivers.
#include "kernel/cpu/attention_driver.h"

#include <limits>

namespace longhaul::kernel {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPaddingQuery = kLowest, kPaddingKey = kLowest + 1;  // as documents: equal to no other

std::span<const Token> block_of(std::span<const Token> tokens, Index block) noexcept {
  const Index begin = block * kBlock;
  return tokens.subspan(begin, std::min<Index>(kBlock, std::ssize(tokens) - begin));
}

}  // namespace

void describe_queries(const MaskSpec& mask, std::span<const Token> tokens, Index block, QueryBlock& out) noexcept {
  const auto queries = block_of(tokens, block);
  for (Index i = 0; i < kBlock; ++i) {
    const Token t = i < std::ssize(queries) ? queries[i] : Token{0, 0, 0};
    const bool bounded = mask.order == Order::kCausal || mask.window != 0;
    out.bounds.lo[i] = mask.window != 0 ? t.row - mask.window + 1 : kLowest;
    out.bounds.hi[i] = bounded ? t.row : kHighest;
    out.bounds.document[i] = t.document != 0 ? t.document : kPaddingQuery;
    out.bounds.chunk[i] = mask.chunk != 0 ? t.position / mask.chunk : 0;
    out.keep[i] = t.document != 0;
  }
}

void fill_ranges(const Team& team, std::span<const Token> queries, TokenRange* q_ranges, std::span<const Token> keys,
                 TokenRange* k_ranges) noexcept {
  const Index q_blocks = ceil_divide(std::ssize(queries), kBlock), k_blocks = ceil_divide(std::ssize(keys), kBlock);
  parallel_for(team, q_blocks + k_blocks, [&](Index i, int) {
    if (i < q_blocks)
      q_ranges[i] = summarize(block_of(queries, i));
    else
      k_ranges[i - q_blocks] = summarize(block_of(keys, i - q_blocks));
  });
}

TokenRange join(std::span<const TokenRange> ranges) noexcept {
  TokenRange all = ranges[0];
  for (const TokenRange& r : ranges) {
    all.row_min = std::min(all.row_min, r.row_min), all.row_max = std::max(all.row_max, r.row_max);
    all.position_min = std::min(all.position_min, r.position_min);
    all.position_max = std::max(all.position_max, r.position_max);
    all.document_min = std::min(all.document_min, r.document_min);
    all.document_max = std::max(all.document_max, r.document_max);
  }
  return all;
}

void PackedKeys::take(ScratchCutter& cutter, const AttentionShape& s, Index most_blocks, Index heads) noexcept {
  const Index keys = most_blocks * kBlock;
  k = cutter.take<float>(heads * keys * padded_width(s.d_qk));
  v = cutter.take<float>(heads * keys * padded_width(s.d_v));
  row = cutter.take<std::int64_t>(keys);
  document = cutter.take<std::int64_t>(keys);
  chunk = cutter.take<std::int64_t>(keys);
}

template <class Args>
void pack_keys(const AttentionKernels& kernels, const Args& a, const PackedKeys& keys, Index unit) noexcept {
  const Index b = unit % keys.blocks, h = unit / keys.blocks, head = keys.head0 + h;
  const auto tokens = block_of(a.k_tokens, keys.block0 + b);
  std::uint8_t keep[kBlock];
  for (Index i = 0; i < std::ssize(tokens); ++i) keep[i] = tokens[i].document != 0;
  const Index first = (keys.block0 + b) * kBlock, at = unit * kBlock;
  const Index d = a.k_KGD.extent[2], v = a.v_KGV.extent[2];
  kernels.pack_rows(rows_of(a.k_KGD, first, head), keep, std::ssize(tokens), d, kBlock, keys.k + at * padded_width(d));
  kernels.pack_rows(rows_of(a.v_KGV, first, head), keep, std::ssize(tokens), v, kBlock, keys.v + at * padded_width(v));
  if (h != 0) return;
  const Index chunk = a.params.mask.chunk;
  for (Index i = 0; i < kBlock; ++i) {
    const Token t = i < std::ssize(tokens) ? tokens[i] : Token{0, 0, 0};
    keys.row[at + i] = t.row;
    keys.document[at + i] = t.document != 0 ? t.document : kPaddingKey;
    keys.chunk[at + i] = chunk != 0 ? t.position / chunk : 0;
  }
}
template void pack_keys(const AttentionKernels&, const AttentionForward&, const PackedKeys&, Index) noexcept;
template void pack_keys(const AttentionKernels&, const AttentionBackward&, const PackedKeys&, Index) noexcept;

Index classify_blocks(const MaskSpec& mask, const TokenRange& queries, std::span<const TokenRange> keys,
                      bool last_is_whole, std::uint8_t* classes) noexcept {
  const Index count = std::ssize(keys);
  Index used = 0;
  for (Index b = 0; b < count; ++b) {
    const bool whole = b + 1 < count || last_is_whole;
    switch (classify(mask, queries, keys[b])) {
      case TileClass::kEmpty:
        classes[b] = kBlockEmpty;
        break;
      case TileClass::kFull:
        classes[b] = whole ? kBlockFull : kBlockPartial;
        break;
      case TileClass::kPartial:
        classes[b] = kBlockPartial;
        break;
    }
    used += classes[b] != kBlockEmpty;
  }
  return used;
}

StridedRows rows_of(const AnyView<3>& v, Index row, Index head) noexcept {
  const Index at = row * v.stride[0] + head * v.stride[1];
  return {static_cast<const std::byte*>(v.data) + at * size_of(v.dtype), v.stride[0], v.stride[2],
          v.dtype == DType::kBF16};
}

StridedSums sums_of(const AnyView<3>& v, Index row, Index head) noexcept {
  return {static_cast<float*>(v.data) + row * v.stride[0] + head * v.stride[1], v.stride[0], v.stride[2]};
}

}  // namespace longhaul::kernel
