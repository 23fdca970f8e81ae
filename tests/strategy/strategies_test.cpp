// Every strategy, layout, degree and mask: the checker finds nothing, and what travels is what the mask needs.
#include <gtest/gtest.h>

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

TEST(Strategies, SLOWNoFindingsInAnyCase) {
  for (const Case& c : all_cases()) {
    expect_no_findings(c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace longhaul::strategy
