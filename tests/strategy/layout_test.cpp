// Layouts are permutations of the rows, in the chunks that their definition says.
#include "strategy/layout.h"

#include <gtest/gtest.h>

namespace longhaul::strategy {
namespace {

constexpr LayoutKind kKinds[] = {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped};

// The rank that owns a row, from the definition alone.
int owner_of(const Layout& layout, Index row) {
  const int pieces = layout.kind == LayoutKind::kZigzag ? 2 * layout.ranks : layout.ranks;
  if (layout.kind == LayoutKind::kStriped) return static_cast<int>(row % layout.ranks);
  int piece = 0;
  while (!(piece * layout.length / pieces <= row && row < (piece + 1) * layout.length / pieces)) ++piece;
  return piece < layout.ranks ? piece : 2 * layout.ranks - 1 - piece;
}

TEST(Layout, EveryRowHasOnePlaceOnItsOwner) {
  for (const LayoutKind kind : kKinds)
    for (Index length = 0; length <= 50; ++length)
      for (int ranks = 1; ranks <= 8; ++ranks) {
        SCOPED_TRACE(testing::Message() << "kind " << int(kind) << " length " << length << " ranks " << ranks);
        const Layout layout{kind, length, ranks};
        std::vector<int> seen(static_cast<std::size_t>(length));
        Index most = 0;
        for (int r = 0; r < ranks; ++r) {
          Index stored = 0;
          for (int c = 0; c < layout.chunks(); ++c) {
            const Chunk chunk = layout.chunk(r, c);
            ASSERT_EQ(chunk.offset, stored);
            for (Index i = 0; i < chunk.count; ++i, ++stored) {
              const Index row = layout.row(r, stored);
              ASSERT_EQ(row, chunk.first + i * chunk.step);
              ASSERT_EQ(owner_of(layout, row), r);
              ++seen[static_cast<std::size_t>(row)];
            }
          }
          ASSERT_EQ(stored, layout.rows(r));
          most = std::max(most, stored);
        }
        ASSERT_EQ(most, layout.max_rows());
        for (const int times : seen) ASSERT_EQ(times, 1);
      }
}

TEST(Layout, ShardsHoldTheTokensOfTheirRows) {
  std::vector<Token> tokens(13);
  make_tokens({}, {}, tokens);
  std::vector<std::vector<Token>> shards;
  for (const LayoutKind kind : kKinds) {
    const Layout layout{kind, 13, 4};
    shard_tokens(layout, tokens, shards);
    ASSERT_EQ(shards.size(), 4u);
    for (int r = 0; r < 4; ++r) {
      ASSERT_EQ(static_cast<Index>(shards[static_cast<std::size_t>(r)].size()), layout.rows(r));
      for (Index i = 0; i < layout.rows(r); ++i)
        ASSERT_EQ(shards[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)].row, layout.row(r, i));
    }
  }
}

TEST(Visibility, AgreesWithEveryPairOfTokens) {
  std::vector<std::int32_t> documents{1, 1, 2, 1, 0, 2, 2, 3, 3, 0, 3, 1, 4, 4, 4, 0, 0, 0};
  std::vector<Token> tokens(documents.size());
  make_tokens(documents, {}, tokens);
  std::vector<std::vector<Token>> shards;
  Visibility visible;
  for (const LayoutKind kind : kKinds)
    for (int ranks = 1; ranks <= 7; ++ranks)
      for (const MaskSpec& mask : {MaskSpec{}, MaskSpec{.order = Order::kFull}, MaskSpec{.window = 3},
                                   MaskSpec{.chunk = 2}, MaskSpec{.order = Order::kFull, .window = 2}}) {
        const Layout layout{kind, static_cast<Index>(tokens.size()), ranks};
        shard_tokens(layout, tokens, shards);
        visible.rebuild(layout, mask, shards);
        const auto any_pair = [&](int qr, int qc, int kr, int kc) {
          const Chunk q = layout.chunk(qr, qc), k = layout.chunk(kr, kc);
          for (Index i = 0; i < q.count; ++i)
            for (Index j = 0; j < k.count; ++j)
              if (longhaul::visible(mask, tokens[static_cast<std::size_t>(q.first + i * q.step)],
                                    tokens[static_cast<std::size_t>(k.first + j * k.step)]))
                return true;
          return false;
        };
        for (int qr = 0; qr < ranks; ++qr)
          for (int qc = 0; qc < layout.chunks(); ++qc) {
            bool sees = false, seen = false;
            for (int kr = 0; kr < ranks; ++kr)
              for (int kc = 0; kc < layout.chunks(); ++kc) {
                ASSERT_EQ(visible(qr, qc, kr, kc), any_pair(qr, qc, kr, kc))
                    << "kind " << int(kind) << " ranks " << ranks << " query " << qr << "." << qc << " key " << kr
                    << "." << kc;
                sees = sees || any_pair(qr, qc, kr, kc);
                seen = seen || any_pair(kr, kc, qr, qc);
              }
            ASSERT_EQ(visible.sees(qr, qc), sees);
            ASSERT_EQ(visible.seen(qr, qc), seen);
          }
      }
}

}  // namespace
}  // namespace longhaul::strategy
