// Tile classes and counts against the definition, pair by pair.
#include "mask/mask.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace longhaul {
namespace {

Index brute_force(const MaskSpec& mask, std::span<const Token> q, std::span<const Token> k) {
  Index n = 0;
  for (const Token& a : q)
    for (const Token& b : k) n += visible(mask, a, b);
  return n;
}

std::vector<MaskSpec> masks() {
  return {{},
          {Order::kFull, 0, 0},
          {Order::kCausal, 7, 0},
          {Order::kCausal, 0, 5},
          {Order::kFull, 9, 0},
          {Order::kCausal, 4, 6}};
}

// Sequences of 1 to 90 rows with 1 to 6 documents, sorted or scattered, with padding, dealt in strides.
TEST(Mask, CountsAndClassesAgreeWithTheDefinition) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Index length = 1 + static_cast<Index>(random_bits(seed, 0, 0) % 90);
    std::vector<std::int32_t> ids(length);
    const bool scattered = seed % 3 == 0;
    std::int32_t id = 1;
    for (Index i = 0; i < length; ++i) {
      if (random_bits(seed, 1, i) % 9 == 0) ++id;
      ids[i] = scattered ? static_cast<std::int32_t>(random_bits(seed, 2, i) % 4) : id;
    }
    std::vector<Token> tokens(length);
    make_tokens(ids, {}, tokens);
    for (Index step : {1, 3})
      for (const MaskSpec& mask : masks())
        for (Index at = 0; at < length; at += 13) {
          std::vector<Token> q, k;
          for (Index i = at; i < length && q.size() < 40; i += step) q.push_back(tokens[i]);
          for (Index i = 0; i < length; i += step) k.push_back(tokens[i]);
          const Index want = brute_force(mask, q, k);
          EXPECT_EQ(count_visible(mask, q, k), want);
          EXPECT_EQ(any_visible(mask, q, k), want > 0);
          const TileClass c = classify(mask, summarize(q), summarize(k));
          if (c == TileClass::kEmpty) {
            EXPECT_EQ(want, 0);
          }
          if (c == TileClass::kFull) {
            EXPECT_EQ(want, static_cast<Index>(q.size() * k.size()));
          }
        }
  }
}

TEST(Mask, CausalTilesOffTheDiagonalAreDecided) {
  std::vector<Token> tokens(32);
  make_tokens({}, {}, tokens);
  const auto early = summarize(std::span(tokens).first(16)), late = summarize(std::span(tokens).last(16));
  EXPECT_EQ(classify({}, late, early), TileClass::kFull);
  EXPECT_EQ(classify({}, early, late), TileClass::kEmpty);
  EXPECT_EQ(classify({}, early, early), TileClass::kPartial);
}

TEST(Mask, PositionsRestartInEachDocumentEvenWhenItsRowsAreApart) {
  std::vector<Token> tokens(6);
  make_tokens(std::vector<std::int32_t>{5, 9, 5, 9, 9, 0}, {}, tokens);
  const Index want[] = {0, 0, 1, 1, 2, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tokens[i].position, want[i]) << i;
  make_tokens({}, {}, tokens);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tokens[i].position, i);
}

TEST(Mask, EmptyListsAreEmpty) {
  EXPECT_EQ(classify({}, summarize({}), summarize({})), TileClass::kEmpty);
  EXPECT_FALSE(any_visible({}, {}, {}));
}

}  // namespace
}  // namespace longhaul
