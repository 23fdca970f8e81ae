// Every strategy, layout, degree and mask: the checker finds nothing, and what travels is what the mask needs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "cases.h"

namespace longhaul::strategy {
namespace {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const std::pair<int, int> kHeads[] = {{2, 2}, {5, 1}, {8, 2}, {3, 3}, {4, 2}};
  for (const StrategyEntry& entry : strategies())
    for (const LayoutKind layout : kLayouts)
      for (int ranks = 1; ranks <= 8; ++ranks)
        for (int ulysses = 1; ulysses <= ranks; ++ulysses) {
          const std::string_view name = entry.name;
          if (ranks % ulysses != 0 || (name != "usp" && ulysses != 1) || (name == "single" && ranks != 1)) continue;
          for (const MaskCase mask : kMaskCases)
            for (const Index length : {0, 1, 2, 5, 13, 37, 64})
              for (const auto& [q_heads, kv_heads] : kHeads)
                cases.push_back({.strategy = entry.name,
                                 .layout = layout,
                                 .ranks = ranks,
                                 .ulysses = ulysses,
                                 .mask = mask,
                                 .length = length,
                                 .q_heads = q_heads,
                                 .kv_heads = kv_heads});
        }
  return cases;
}

void expect_no_findings(const Case& c) {
  const World world(c);
  const Findings findings = world.check_all();
  std::string text;
  for (const std::string& problem : findings.problems) text += "\n  " + problem;
  ASSERT_TRUE(findings.problems.empty()) << text_of(c) << text;
}

// A tenth of the cases, that must still cover every pair of values of two parameters.
std::vector<Case> covering_cases(const std::vector<Case>& all) {
  std::vector<Case> some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (mix64(i) % 10 == 0) some.push_back(all[i]);
  return some;
}

std::array<std::string, 7> parameters(const Case& c) {
  return {c.strategy,
          fmt::format("layout {}", static_cast<int>(c.layout)),
          fmt::format("ranks {}", c.ranks),
          fmt::format("ulysses {}", c.ulysses),
          fmt::format("mask {}", static_cast<int>(c.mask)),
          fmt::format("length {}", c.length),
          fmt::format("heads {}/{}", c.q_heads, c.kv_heads)};
}

std::set<std::string> pairs_of(const std::vector<Case>& cases) {
  std::set<std::string> pairs;
  for (const Case& c : cases) {
    const auto p = parameters(c);
    for (std::size_t i = 0; i < p.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) pairs.insert(p[j] + ", " + p[i]);
  }
  return pairs;
}

TEST(Strategies, NoFindingsInACoveringSet) {
  const std::vector<Case> all = all_cases(), some = covering_cases(all);
  EXPECT_EQ(pairs_of(some), pairs_of(all));
  for (const Case& c : some) {
    expect_no_findings(c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Strategies, SLOWNoFindingsInAnyCase) {
  for (const Case& c : all_cases()) {
    expect_no_findings(c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Documents that lie anywhere make runs of neighbours with gaps between them, where schedules are hardest.
TEST(Strategies, SLOWNoFindingsForScatteredDocuments) {
  for (std::uint64_t seed = 2; seed < 60; ++seed)
    for (const StrategyEntry& entry : strategies())
      for (const LayoutKind layout : kLayouts)
        for (const int ranks : {5, 7, 8})
          for (int ulysses = 1; ulysses <= ranks; ++ulysses) {
            const std::string name = entry.name;
            if (ranks % ulysses != 0 || (name != "usp" && ulysses != 1) || name == "single") continue;
            expect_no_findings({.strategy = name,
                                .layout = layout,
                                .ranks = ranks,
                                .ulysses = ulysses,
                                .mask = MaskCase::kScattered,
                                .length = static_cast<Index>(10 + seed % 15),
                                .q_heads = 4,
                                .seed = seed});
            if (testing::Test::HasFatalFailure()) return;
          }
}

}  // namespace
}  // namespace longhaul::strategy
