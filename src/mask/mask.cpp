// Tile classes and exact counts for a mask.
#include "mask/mask.h"

#include <algorithm>
#include <unordered_map>

namespace longhaul {
namespace {

constexpr std::size_t kLeaf = 16;  // below this a pair of lists is counted pair by pair

Index count_pairs(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys) noexcept {
  Index n = 0;
  for (const Token& q : queries)
    for (const Token& k : keys) n += visible(mask, q, k);
  return n;
}

Index divide_and_count(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys,
                       bool stop_at_first) noexcept {
  switch (classify(mask, summarize(queries), summarize(keys))) {
    case TileClass::kEmpty:
      return 0;
    case TileClass::kFull:
      return static_cast<Index>(queries.size()) * static_cast<Index>(keys.size());
    case TileClass::kPartial:
      break;
  }
  if (queries.size() <= kLeaf && keys.size() <= kLeaf) return count_pairs(mask, queries, keys);
  Index n = 0;
  const auto halves = [](std::span<const Token> s, bool cut) {
    const std::size_t middle = cut ? s.size() / 2 : s.size();
    return std::pair{s.first(middle), s.subspan(middle)};
  };
  const auto [q0, q1] = halves(queries, queries.size() > kLeaf);
  const auto [k0, k1] = halves(keys, keys.size() > kLeaf);
  for (auto q : {q0, q1})
    for (auto k : {k0, k1}) {
      if (q.empty() || k.empty()) continue;
      n += divide_and_count(mask, q, k, stop_at_first);
      if (stop_at_first && n > 0) return n;
    }
  return n;
}

}  // namespace

TokenRange summarize(std::span<const Token> tokens) noexcept {
  TokenRange r;
  if (tokens.empty()) return r;
  r = {tokens[0].row, tokens[0].row, tokens[0].position, tokens[0].position, tokens[0].document, tokens[0].document};
  for (const Token& t : tokens) {
    r.row_min = std::min(r.row_min, t.row), r.row_max = std::max(r.row_max, t.row);
    r.position_min = std::min(r.position_min, t.position), r.position_max = std::max(r.position_max, t.position);
    r.document_min = std::min(r.document_min, t.document), r.document_max = std::max(r.document_max, t.document);
  }
  return r;
}

TileClass classify(const MaskSpec& mask, const TokenRange& q, const TokenRange& k) noexcept {
  if (q.row_max < q.row_min || k.row_max < k.row_min) return TileClass::kEmpty;
  const Index nearest = q.row_min - k.row_max, farthest = q.row_max - k.row_min;  // extremes of row(i) - row(j)
  if (q.document_max < k.document_min || k.document_max < q.document_min) return TileClass::kEmpty;
  if (q.document_min == 0 && q.document_max == 0) return TileClass::kEmpty;
  bool full = q.document_min == q.document_max && k.document_min == k.document_max && q.document_min != 0;
  if (mask.order == Order::kCausal || mask.window != 0) {
    if (farthest < 0) return TileClass::kEmpty;
    full = full && nearest >= 0;
  }
  if (mask.window != 0) {
    if (nearest >= mask.window) return TileClass::kEmpty;
    full = full && farthest < mask.window;
  }
  if (mask.chunk != 0) {
    const Index q0 = q.position_min / mask.chunk, q1 = q.position_max / mask.chunk;
    const Index k0 = k.position_min / mask.chunk, k1 = k.position_max / mask.chunk;
    if (q1 < k0 || k1 < q0) return TileClass::kEmpty;
    full = full && q0 == q1 && k0 == k1;
  }
  return full ? TileClass::kFull : TileClass::kPartial;
}

bool any_visible(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys) noexcept {
  return divide_and_count(mask, queries, keys, true) > 0;
}

Index count_visible(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys) noexcept {
  return divide_and_count(mask, queries, keys, false);
}

void make_tokens(std::span<const std::int32_t> documents, std::span<const std::int32_t> positions,
                 std::span<Token> tokens) {
  CHECK(documents.empty() || documents.size() == tokens.size(), "%zu ids for %zu tokens", documents.size(),
        tokens.size());
  CHECK(positions.empty() || positions.size() == tokens.size(), "%zu positions for %zu tokens", positions.size(),
        tokens.size());
  std::unordered_map<std::int32_t, Index> length;  // of each document so far
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t document = documents.empty() ? 1 : documents[i];
    Index position = static_cast<Index>(i);
    if (!positions.empty())
      position = positions[i];
    else if (!documents.empty())
      position = length[document]++;
    tokens[i] = {static_cast<Index>(i), position, document};
  }
}

}  // namespace longhaul
