// Layout: which rows of the sequence each context rank owns, and in which chunks they lie in its storage.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "mask/mask.h"

namespace longhaul::strategy {

// contiguous: N pieces, rank r holds piece r. zigzag: 2N pieces, rank r holds pieces r and 2N-1-r (dual chunk swap).
// striped: row t on rank t mod N. Piece i of n is rows [floor(iT/n), floor((i+1)T/n)).
enum class LayoutKind : std::uint8_t { kContiguous, kZigzag, kStriped };

constexpr int chunks_of(LayoutKind kind) noexcept {
  return kind == LayoutKind::kZigzag ? 2 : 1;
}

// Rows first, first + step, ... : `count` of them, adjacent in storage.
struct Chunk {
  Index first = 0, count = 0, step = 1;
  Index offset = 0;  // of its first row in the shard's storage
};

struct Layout {
  LayoutKind kind = LayoutKind::kContiguous;
  Index length = 0;  // rows of the sequence; any length >= 0
  int ranks = 1;     // the whole context degree; shards may be uneven or empty

  int chunks() const noexcept { return chunks_of(kind); }
  Chunk chunk(int rank, int index) const;
  Index rows(int rank) const;
  Index max_rows() const;
  // The sequence row that a rank stores at `local`.
  Index row(int rank, Index local) const;
};

// The tokens of every rank, each in its storage order, from the tokens in row order: out[r] has rows(r) entries.
void shard_tokens(const Layout& layout, std::span<const Token> in_row_order, std::vector<std::vector<Token>>& out);

// Which (query chunk, key chunk) pairs the mask needs: exact, and from global data, so that all ranks agree.
class Visibility {
 public:
  void rebuild(const Layout& layout, const MaskSpec& mask, std::span<const std::vector<Token>> tokens_of_rank);
  // The same for one document of layout.length rows, from the extents of the chunks alone: in the time of the pairs of
  // chunks, whatever the length. A mask with chunks is taken as one without: a superset.
  void assume_one_document(const Layout& layout, const MaskSpec& mask);
  bool operator()(int query_rank, int query_chunk, int key_rank, int key_chunk) const noexcept {
    return cells_[(static_cast<std::size_t>(query_rank) * chunks_ + query_chunk) * ranks_ * chunks_ +
                  static_cast<std::size_t>(key_rank) * chunks_ + key_chunk] != 0;
  }
  std::span<const std::uint8_t> cells() const noexcept { return cells_; }
  // Any chunk of the query rank sees this chunk of the key rank.
  bool any(int query_rank, int key_rank, int key_chunk) const noexcept;
  // The query chunk sees some key; the key chunk is seen by some query. False for padding and for chunks without rows.
  bool sees(int query_rank, int query_chunk) const noexcept;
  bool seen(int key_rank, int key_chunk) const noexcept;

 private:
  std::size_t ranks_ = 0, chunks_ = 0;
  std::vector<TokenRange> ranges_;  // of each chunk
  std::vector<std::uint8_t> cells_;
};

}  // namespace longhaul::strategy
