// Placement: no two living buffers share a byte, and the arena stays within 5 % of what lives at once.
#include "plan/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/random.h"

namespace longhaul::plan {
namespace {

void expect_placed(const std::vector<spec::Buffer>& buffers, Index bytes, Index gap, const std::string& which) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const spec::Buffer& a = buffers[i];
    ASSERT_TRUE(a.offset >= 0 && a.offset % kAlignment == 0 && a.offset + a.bytes() + gap <= bytes)
        << which << " buffer " << i;
    for (std::size_t j = 0; j < i; ++j) {
      const spec::Buffer& b = buffers[j];
      const bool meet = a.life.first <= b.life.last && b.life.first <= a.life.last;
      const bool apart = a.offset + a.bytes() + gap <= b.offset || b.offset + b.bytes() + gap <= a.offset;
      ASSERT_TRUE(!meet || apart || a.bytes() == 0 || b.bytes() == 0) << which << " buffers " << j << " and " << i;
    }
  }
}

spec::Buffer buffer(Index bytes, int first, int last) {
  spec::Buffer b{spec::ActivationId::kX, -1, {bytes, 1}, DType::kU8, {first, last}, -1};
  return b;
}

std::vector<spec::Buffer> random_table(std::uint64_t seed) {
  std::uint64_t at = 0;
  const auto draw = [&](Index below) {
    return static_cast<Index>(random_uniform(seed, 1, at++) * static_cast<double>(below));
  };
  const Index count = 1 + draw(80), phases = 2 + draw(60), longest = 1 + draw(phases);
  const bool few_sizes = draw(2) == 0, large = draw(2) == 0;
  std::vector<spec::Buffer> all;
  for (Index i = 0; i < count; ++i) {
    const Index first = draw(phases), last = std::min(phases - 1, first + draw(longest));
    const Index size = few_sizes ? Index{64} << draw(8) : draw(large ? 10'000'000 : 10'000);
    all.push_back(buffer(size, static_cast<int>(first), static_cast<int>(last)));
  }
  return all;
}

TEST(Placement, RandomTables) {
  double worst = 1;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::vector<spec::Buffer> table = random_table(seed);
    const Index bytes = place(table), bound = largest_live_bytes(table);
    expect_placed(table, bytes, 0, "seed " + std::to_string(seed));
    ASSERT_GE(bytes, bound);
    if (bound > 0) worst = std::max(worst, static_cast<double>(bytes) / static_cast<double>(bound));
    EXPECT_LE(static_cast<double>(bytes), 1.05 * static_cast<double>(bound))
        << "seed " << seed << ", " << table.size() << " buffers";
  }
  RecordProperty("worst_ratio", std::to_string(worst));
}

TEST(Placement, SentinelsHaveRoom) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<spec::Buffer> table = random_table(seed);
    expect_placed(table, place(table, 64), 64, "seed " + std::to_string(seed));
  }
}

TEST(Placement, RealTables) {
  using P = spec::LayerPolicy;
  for (const std::string& name : spec::preset_names()) {
    const spec::ModelSpec& m = *spec::find_preset(name);
    for (P policy : {P::kKeep, P::kRecomputeMlp, P::kRecomputeLayer})
      for (bool gradients : {true, false})
        for (Index half : {Index{0}, m.layers / 2}) {
          std::vector<P> policies(static_cast<std::size_t>(m.layers), policy);
          std::fill_n(policies.begin(), half, P::kRecomputeLayer);
          const spec::LocalSizes sizes{16384, 1024, 512, 100'000'000, 12'345'678, DType::kBF16, gradients};
          auto table = spec::activations_of(m, sizes, policies);
          const Index bytes = place(table), bound = largest_live_bytes(table);
          EXPECT_LE(static_cast<double>(bytes), 1.05 * static_cast<double>(bound))
              << name << " policy " << static_cast<int>(policy);
          expect_placed(table, bytes, 0, name);
        }
  }
}

TEST(Placement, TheBoundIsTheLargestSum) {
  std::vector<spec::Buffer> table = {buffer(100, 0, 1), buffer(64, 1, 2), buffer(640, 2, 3), buffer(1, 3, 3)};
  EXPECT_EQ(largest_live_bytes(table), 64 + 640);
  EXPECT_EQ(place(table), 64 + 640);
  std::vector<spec::Buffer> none;
  EXPECT_EQ(place(none), 0);
}

}  // namespace
}  // namespace longhaul::plan
