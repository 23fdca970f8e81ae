// Who may see whom: pure integers, the one definition that strategies, kernels, plans and tests share.
#pragma once

#include <span>

#include "base/check.h"

namespace longhaul {

enum class Order : std::uint8_t { kCausal, kFull };

// Key j is visible to query i if all of these hold; window and chunk are off at 0.
struct MaskSpec {
  Order order = Order::kCausal;  // causal: row(j) <= row(i)
  Index window = 0;              // 0 <= row(i) - row(j) < window
  Index chunk = 0;               // position(i) / chunk == position(j) / chunk
  friend bool operator==(const MaskSpec&, const MaskSpec&) = default;
};

// What travels with a token. Order and window compare rows; RoPE and chunk read the position in the document.
struct Token {
  Index row = 0;              // index in the sequence
  Index position = 0;         // index in its document
  std::int32_t document = 1;  // 0 is padding: it sees nothing and is seen by nothing
};

constexpr bool visible(const MaskSpec& mask, const Token& query, const Token& key) noexcept {
  if (query.document == 0 || query.document != key.document) return false;
  const Index distance = query.row - key.row;
  if (mask.order == Order::kCausal && distance < 0) return false;
  if (mask.window != 0 && !(0 <= distance && distance < mask.window)) return false;
  return mask.chunk == 0 || query.position / mask.chunk == key.position / mask.chunk;
}

// The extremes of some tokens: what a tile is classified from.
struct TokenRange {
  Index row_min = 0, row_max = -1;  // empty when row_max < row_min
  Index position_min = 0, position_max = -1;
  std::int32_t document_min = 0, document_max = -1;
};
TokenRange summarize(std::span<const Token> tokens) noexcept;

enum class TileClass : std::uint8_t { kEmpty, kPartial, kFull };

// kEmpty and kFull are proofs (no pair, every pair is visible); kPartial makes no claim.
TileClass classify(const MaskSpec& mask, const TokenRange& queries, const TokenRange& keys) noexcept;

// Whether any (query, key) pair is visible: exact, by dividing the two lists until classify() decides.
bool any_visible(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys) noexcept;

// The number of visible pairs: exact, by the same division. What an MFU that counts the mask counts.
Index count_visible(const MaskSpec& mask, std::span<const Token> queries, std::span<const Token> keys) noexcept;

// Tokens of a sequence, in row order, from optional document ids and positions (each empty, or one a token).
// Without ids all tokens are one document. Without positions: the number of earlier rows of the same document
// (whose rows need not be adjacent), or the row itself where there are no ids.
void make_tokens(std::span<const std::int32_t> documents, std::span<const std::int32_t> positions,
                 std::span<Token> tokens);

}  // namespace longhaul
