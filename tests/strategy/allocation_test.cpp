// Schedules are rebuilt for every batch without an allocation: this program counts every one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cases.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace longhaul::strategy {
namespace {

TEST(Allocation, RebuildingForAnotherMaskTakesNone) {
  for (const StrategyEntry& entry : strategies())
    for (const LayoutKind layout : kLayouts)
      for (const int ranks : {1, 2, 3, 6, 8})
        for (int ulysses = 1; ulysses <= ranks; ++ulysses) {
          const std::string name = entry.name;
          if (ranks % ulysses != 0 || (name != "usp" && ulysses != 1) || (name == "single" && ranks != 1)) continue;
          Case c{.strategy = name, .layout = layout, .ranks = ranks, .ulysses = ulysses, .length = 64, .q_heads = 8};
          c.mask = MaskCase::kWindow;  // the first build need not be the largest
          World first(c);
          for (const MaskCase mask : kMaskCases) {
            c.mask = mask;
            World next(c);
            next.request.visible = &next.visible;
            first.request.visible = &next.visible;
            const long before = allocations;
            first.build(entry.build);
            first.visible.rebuild(first.layout, {}, next.shards);
            ASSERT_EQ(allocations, before) << text_of(c);
            ASSERT_EQ(hash_of(first.schedules[0]), hash_of(next.schedules[0])) << text_of(c);
          }
        }
}

}  // namespace
}  // namespace longhaul::strategy
