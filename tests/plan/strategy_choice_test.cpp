// The choice of strategy and layout: figures against counting, and the choices that follow from them.
#include "plan/strategy_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "exec/attention.h"
#include "spec/options.h"

namespace longhaul::plan {
namespace {

using strategy::LayoutKind;

strategy::Shapes shapes(int q_heads, int kv_heads) {
  return {q_heads, kv_heads, 64, 64, 4, 4};
}

ChoiceRequest request(int ranks, int q_heads, int kv_heads, Index length) {
  ChoiceRequest r;
  r.ranks = ranks, r.strategy = "auto", r.layout = "auto", r.shapes = shapes(q_heads, kv_heads), r.length = length;
  r.rates = {1e10, 1e9};
  return r;
}

TEST(Visibility, OfOneDocumentNeedsNoTokens) {
  for (LayoutKind kind : {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped})
    for (int ranks : {1, 2, 3, 5, 8})
      for (Index length : {1, 2, 7, 16, 33, 64})
        for (Order order : {Order::kCausal, Order::kFull})
          for (Index window : {0, 1, 2, 5, 16}) {
            const MaskSpec mask{order, window, 0};
            const strategy::Layout layout{kind, length, ranks};
            std::vector<Token> row(static_cast<std::size_t>(length));
            make_tokens({}, {}, row);
            std::vector<std::vector<Token>> shards;
            strategy::shard_tokens(layout, row, shards);
            strategy::Visibility by_tokens, by_extents;
            by_tokens.rebuild(layout, mask, shards);
            by_extents.assume_one_document(layout, mask);
            EXPECT_TRUE(std::ranges::equal(by_tokens.cells(), by_extents.cells()))
                << "layout " << name_of(kind) << " ranks " << ranks << " length " << length << " order "
                << static_cast<int>(order) << " window " << window;
          }
}

TEST(Choice, OptionsNameEveryStrategyAndLayout) {
  const std::string allowed = spec::find_option("train", "strategy")->allowed;
  std::string table = "auto";
  for (const auto& entry : strategy::strategies()) table += std::string("|") + entry.name;
  EXPECT_EQ(allowed, table);
  std::string layouts = "auto";
  for (LayoutKind kind : {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped})
    layouts += std::string("|") + name_of(kind);
  EXPECT_EQ(spec::find_option("train", "layout")->allowed, layouts);
}

TEST(Choice, OneRankIsSingle) {
  const Choice c = choose_strategy(request(1, 4, 2, 100));
  EXPECT_STREQ(c.strategy->name, "single");
  EXPECT_EQ(c.bytes, 0);
  EXPECT_EQ(c.balance, 1);
}

// All pairs of the busiest rank over the mean, counted.
TEST(Choice, BalanceIsCounted) {
  for (const char* layout_name : {"contiguous", "zigzag", "striped"})
    for (int ranks : {2, 3, 4})
      for (Index window : {0, 10}) {
        ChoiceRequest r = request(ranks, 6, 3, 50);
        r.strategy = "ring", r.layout = layout_name, r.mask.window = window;
        const Choice c = choose_strategy(r);
        const strategy::Layout layout{c.layout, 50, ranks};
        double most = 0, sum = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          double pairs = 0;
          for (Index i = 0; i < layout.rows(rank); ++i)
            for (Index j = 0; j < 50; ++j)
              pairs += visible(r.mask, {layout.row(rank, i), layout.row(rank, i), 1}, {j, j, 1});
          most = std::max(most, pairs), sum += pairs;
        }
        EXPECT_DOUBLE_EQ(c.balance, most * ranks / sum) << layout_name << " " << ranks << " ranks, window " << window;
        EXPECT_DOUBLE_EQ(c.pairs, most);
      }
}

// Written out for two ranks with two chunks of 50 rows each, one key head of 64, fp32, zigzag. No query of rank 1 (rows
// 50-149) sees the late chunk of rank 0 (rows 150-199); all other chunks are seen. So rank 1 sends K and V of two
// chunks forward and again backward, and the gradients of the one foreign chunk that it sees.
TEST(Choice, BytesOfTwoRanks) {
  for (const char* name : {"ring", "all_gather"}) {
    ChoiceRequest r = request(2, 2, 1, 200);
    r.strategy = name, r.layout = "zigzag";
    const Index chunk = 2 * 50 * 64 * 4;  // of K and V, or of their gradients
    EXPECT_EQ(choose_strategy(r).bytes, 2 * (2 * chunk) + chunk) << name;
  }
}

TEST(Choice, SlotsAreThoseThatExecAsksFor) {
  for (const char* name : {"ring", "all_gather", "ulysses", "usp"})
    for (int ranks : {2, 3, 4, 8}) {
      ChoiceRequest r = request(ranks, 9, 3, 101);
      r.strategy = name, r.layout = "zigzag";
      const Choice c = choose_strategy(r);
      const strategy::Layout layout{c.layout, r.length, ranks};
      Index most = 0;
      for (int rank = 0; rank < ranks; ++rank)
        for (const MaskSpec& mask : {MaskSpec{Order::kFull, 0, 0}, MaskSpec{}, MaskSpec{Order::kCausal, 7, 0}}) {
          strategy::Visibility visible;
          visible.assume_one_document(layout, mask);
          strategy::Schedule schedule;
          c.strategy->build({rank, ranks, c.ulysses, r.shapes, &layout, &visible}, schedule);
          most = std::max(most, exec::slot_bytes(schedule));
          EXPECT_EQ(exec::slot_bytes(schedule), slot_bytes_of(schedule));
        }
      EXPECT_EQ(c.slot_bytes, most) << name << " " << ranks;
    }
}

TEST(Choice, FollowsTheFigures) {
  // Heads that divide the degree: exchanging heads sends less than passing keys round.
  EXPECT_STREQ(choose_strategy(request(8, 32, 8, 1 << 17)).strategy->name, "ulysses");
  // More ranks than key heads: heads within groups, keys round between them.
  const Choice many = choose_strategy(request(16, 32, 8, 1 << 17));
  EXPECT_STREQ(many.strategy->name, "usp");
  EXPECT_EQ(8 % many.ulysses, 0);
  // One key head: keys go round. Causal attention wants zigzag, a window the smallest halo, no order large chunks.
  ChoiceRequest one = request(5, 4, 1, 1 << 15);
  EXPECT_STREQ(choose_strategy(one).strategy->name, "ring");
  EXPECT_EQ(choose_strategy(one).layout, LayoutKind::kZigzag);
  one.mask.window = 64;
  EXPECT_EQ(choose_strategy(one).layout, LayoutKind::kContiguous);
  one.mask = {Order::kFull, 0, 0};
  EXPECT_EQ(choose_strategy(one).layout, LayoutKind::kContiguous);
}

TEST(Choice, WhatIsAskedForIsUsed) {
  for (const char* name : {"all_gather", "ring", "ulysses", "usp"})
    for (const char* layout : {"contiguous", "zigzag", "striped"})
      for (int ranks : {1, 2, 3, 4, 6, 7}) {
        ChoiceRequest r = request(ranks, 4, 1, 13);
        r.strategy = name, r.layout = layout;
        const Choice c = choose_strategy(r);
        EXPECT_STREQ(c.strategy->name, name);
        EXPECT_STREQ(name_of(c.layout), layout);
        EXPECT_EQ(ranks % c.ulysses, 0);
        EXPECT_EQ(c.reason.find('\n'), std::string::npos);
      }
  ChoiceRequest r = request(6, 4, 2, 100);
  r.ulysses = 3;
  EXPECT_STREQ(choose_strategy(r).strategy->name, "usp");
  EXPECT_EQ(choose_strategy(r).ulysses, 3);
  r = request(2, 4, 2, 100);
  r.strategy = "single";
  EXPECT_THROW(choose_strategy(r), Error);
}

}  // namespace
}  // namespace longhaul::plan
