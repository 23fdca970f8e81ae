// Rows of shards, and which pairs of chunks the mask needs.
#include "strategy/layout.h"

#include <algorithm>

namespace longhaul::strategy {
namespace {

Chunk piece(Index length, Index index, Index pieces) {
  const Index begin = index * length / pieces;
  return {.first = begin, .count = (index + 1) * length / pieces - begin};
}

}  // namespace

Chunk Layout::chunk(int rank, int index) const {
  CHECK(0 <= rank && rank < ranks && 0 <= index && index < chunks(), "rank %d of %d, chunk %d", rank, ranks, index);
  switch (kind) {
    case LayoutKind::kContiguous:
      return piece(length, rank, ranks);
    case LayoutKind::kStriped:
      return {.first = rank, .count = length > rank ? (length - rank + ranks - 1) / ranks : 0, .step = ranks};
    case LayoutKind::kZigzag:
      break;
  }
  const Chunk early = piece(length, rank, 2 * ranks);
  if (index == 0) return early;
  Chunk late = piece(length, 2 * ranks - 1 - rank, 2 * ranks);
  late.offset = early.count;
  return late;
}

Index Layout::rows(int rank) const {
  Index n = 0;
  for (int c = 0; c < chunks(); ++c) n += chunk(rank, c).count;
  return n;
}

Index Layout::max_rows() const {
  Index n = 0;
  for (int r = 0; r < ranks; ++r) n = std::max(n, rows(r));
  return n;
}

Index Layout::row(int rank, Index local) const {
  for (int c = 0; c < chunks(); ++c) {
    const Chunk held = chunk(rank, c);
    const Index i = local - held.offset;
    if (0 <= i && i < held.count) return held.first + i * held.step;
  }
  CHECK(false, "rank %d has %ld rows, not a row %ld", rank, rows(rank), local);
}

void shard_tokens(const Layout& layout, std::span<const Token> in_row_order, std::vector<std::vector<Token>>& out) {
  CHECK(static_cast<Index>(in_row_order.size()) == layout.length, "%zu tokens for a layout of %ld rows",
        in_row_order.size(), layout.length);
  out.resize(static_cast<std::size_t>(layout.ranks));
  for (int r = 0; r < layout.ranks; ++r) {
    std::vector<Token>& shard = out[static_cast<std::size_t>(r)];
    shard.clear();
    shard.reserve(static_cast<std::size_t>(layout.rows(r)));
    for (int c = 0; c < layout.chunks(); ++c) {
      const Chunk held = layout.chunk(r, c);
      for (Index i = 0; i < held.count; ++i)
        shard.push_back(in_row_order[static_cast<std::size_t>(held.first + i * held.step)]);
    }
  }
}

void Visibility::rebuild(const Layout& layout, const MaskSpec& mask,
                         std::span<const std::vector<Token>> tokens_of_rank) {
  ranks_ = static_cast<std::size_t>(layout.ranks);
  chunks_ = static_cast<std::size_t>(layout.chunks());
  CHECK(tokens_of_rank.size() == ranks_, "tokens of %zu ranks for a layout of %d", tokens_of_rank.size(), layout.ranks);
  const std::size_t pieces = ranks_ * chunks_;
  const auto tokens_of = [&](std::size_t piece) {
    const std::size_t rank = piece / chunks_;
    const Chunk held = layout.chunk(static_cast<int>(rank), static_cast<int>(piece % chunks_));
    CHECK(held.offset + held.count <= static_cast<Index>(tokens_of_rank[rank].size()), "rank %zu has %zu tokens", rank,
          tokens_of_rank[rank].size());
    return std::span(tokens_of_rank[rank])
        .subspan(static_cast<std::size_t>(held.offset), static_cast<std::size_t>(held.count));
  };
  ranges_.resize(pieces);
  for (std::size_t p = 0; p < pieces; ++p) ranges_[p] = summarize(tokens_of(p));
  cells_.resize(pieces * pieces);
  for (std::size_t q = 0; q < pieces; ++q)
    for (std::size_t k = 0; k < pieces; ++k) {
      const TileClass tile = classify(mask, ranges_[q], ranges_[k]);
      cells_[q * pieces + k] =
          tile == TileClass::kFull || (tile == TileClass::kPartial && any_visible(mask, tokens_of(q), tokens_of(k)));
    }
}

void Visibility::assume_one_document(const Layout& layout, const MaskSpec& mask) {
  ranks_ = static_cast<std::size_t>(layout.ranks);
  chunks_ = static_cast<std::size_t>(layout.chunks());
  const std::size_t pieces = ranks_ * chunks_;
  std::vector<Chunk> held;
  for (int r = 0; r < layout.ranks; ++r)
    for (int c = 0; c < layout.chunks(); ++c) held.push_back(layout.chunk(r, c));
  cells_.resize(pieces * pieces);
  for (std::size_t q = 0; q < pieces; ++q)
    for (std::size_t k = 0; k < pieces; ++k) {
      // Distances row(query) - row(key) are lowest, lowest + step, ... up to highest.
      const Chunk &queries = held[q], &keys = held[k];
      const Index step = queries.step, apart = queries.first - keys.first;
      const Index lowest = apart - (keys.count - 1) * step, highest = apart + (queries.count - 1) * step;
      const Index nearest = lowest >= 0 ? lowest : (apart % step + step) % step;  // the smallest that is not negative
      const bool ordered = mask.order == Order::kCausal || mask.window != 0;
      cells_[q * pieces + k] = queries.count > 0 && keys.count > 0 && (!ordered || nearest <= highest) &&
                               (mask.window == 0 || nearest < mask.window);
    }
}

bool Visibility::any(int query_rank, int key_rank, int key_chunk) const noexcept {
  for (int c = 0; c < static_cast<int>(chunks_); ++c)
    if ((*this)(query_rank, c, key_rank, key_chunk)) return true;
  return false;
}

bool Visibility::sees(int query_rank, int query_chunk) const noexcept {
  for (int r = 0; r < static_cast<int>(ranks_); ++r)
    for (int c = 0; c < static_cast<int>(chunks_); ++c)
      if ((*this)(query_rank, query_chunk, r, c)) return true;
  return false;
}

bool Visibility::seen(int key_rank, int key_chunk) const noexcept {
  for (int r = 0; r < static_cast<int>(ranks_); ++r)
    if (any(r, key_rank, key_chunk)) return true;
  return false;
}

}  // namespace longhaul::strategy
