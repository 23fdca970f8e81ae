// Schedules are rebuilt for every batch without an allocation: this program counts every one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cases.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// noinline: else GCC sees free() beside the library's new and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace longhaul::strategy {
namespace {

// Builds for one mask, then for all others, whose runs of neighbours may be more than the full mask's.
void expect_no_allocation(Case c) {
  c.mask = MaskCase::kWindow;  // the first build need not be the largest
  World first(c);
  for (const MaskCase mask : kMaskCases) {
    c.mask = mask;
    const World next(c);
    first.request.visible = &next.visible;
    const long before = allocations;
    first.build(find_strategy(c.strategy)->build);
    first.visible.rebuild(first.layout, {}, next.shards);
    ASSERT_EQ(allocations, before) << text_of(c);
    for (std::size_t r = 0; r < first.schedules.size(); ++r)
      ASSERT_EQ(hash_of(first.schedules[r]), hash_of(next.schedules[r])) << text_of(c) << " rank " << r;
  }
}

TEST(Allocation, RebuildingForAnotherMaskTakesNone) {
  for (const StrategyEntry& entry : strategies())
    for (const LayoutKind layout : kLayouts)
      for (const int ranks : {1, 2, 3, 6, 8})
        for (int ulysses = 1; ulysses <= ranks; ++ulysses) {
          const std::string name = entry.name;
          if (ranks % ulysses != 0 || (name != "usp" && ulysses != 1) || (name == "single" && ranks != 1)) continue;
          for (const Index length : {11, 16, 64})
            expect_no_allocation({.strategy = name,
                                  .layout = layout,
                                  .ranks = ranks,
                                  .ulysses = ulysses,
                                  .length = length,
                                  .q_heads = 8});
          if (testing::Test::HasFatalFailure()) return;
        }
}

}  // namespace
}  // namespace longhaul::strategy
