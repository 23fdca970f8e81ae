// The arena hands out what the plan says, and its debug checks catch the writes they exist for.
#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace longhaul {
namespace {

TEST(Arena, IsZeroAlignedAndInOnePiece) {
  for (const bool huge_pages : {false, true}) {
    const Arena arena(5000, huge_pages);
    ASSERT_EQ(arena.size(), 5000);
    const Bytes all = arena.at(0, 5000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.data) % Arena::kAlignment, 0u);
    if (huge_pages) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.data) % (2u << 20), 0u);
    }
    EXPECT_EQ(all.space, Space::kCpu);
    for (Index i = 0; i < all.size; ++i) ASSERT_EQ(all.data[i], std::byte{0}) << "byte " << i;
    EXPECT_EQ(arena.at(128, 64).data, all.data + 128);
    EXPECT_EQ(arena.at(4992, 8).size, 8);
  }
}

TEST(Arena, MayBeEmpty) {
  const Arena none, zero(0);
  EXPECT_EQ(none.at(0, 0).size, 0);
  EXPECT_EQ(zero.at(0, 0).size, 0);
  EXPECT_EQ(zero.first_untouched_line(0, 0), -1);
  EXPECT_EQ(zero.first_written_byte(0, 0), -1);
}

TEST(Arena, MovesWithItsMemory) {
  Arena a(256);
  std::byte* data = a.at(0, 256).data;
  Arena b(std::move(a));
  EXPECT_EQ(b.at(0, 256).data, data);
  EXPECT_EQ(a.size(), 0);
  Arena c(64);
  c = std::move(b);
  EXPECT_EQ(c.at(0, 256).data, data);
}

TEST(Arena, RefusalSaysHowMuch) {
  try {
    const Arena arena(std::numeric_limits<Index>::max() / 4);
    FAIL() << "2 EiB were granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::kRun);
    EXPECT_NE(std::string(error.what()).find("2305843009213693951 bytes"), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint.empty());
  }
}

TEST(ArenaDeathTest, RangesOutsideStop) {
  const Arena arena(256);
  EXPECT_DEATH(arena.at(192, 65), "CHECK failed.*of an arena of 256 bytes");
  EXPECT_DEATH(arena.at(-64, 64), "CHECK failed");
  EXPECT_DEATH(arena.at(64, std::numeric_limits<Index>::max()), "CHECK failed");
  EXPECT_DEATH(arena.at(32, 8), "CHECK failed.*offset 32");
}

TEST(Arena, PoisonReadsAsNaN) {
  const Arena arena(128);
  arena.poison(64, 32);
  float f;
  double d;
  bf16 h;
  std::memcpy(&f, arena.at(64, 4).data, sizeof f);
  std::memcpy(&d, arena.at(64, 8).data, sizeof d);
  std::memcpy(&h, arena.at(64, 2).data, sizeof h);
  EXPECT_TRUE(std::isnan(f) && std::isnan(d) && std::isnan(static_cast<float>(h)));
  EXPECT_EQ(arena.first_written_byte(0, 128), 0);  // nothing before or after the range changed
  EXPECT_EQ(arena.first_written_byte(64, 64), 96);
}

TEST(Arena, FindsALineThatWasPlannedAndNeverTouched) {
  const Arena arena(1024);
  const Index begin = 128, size = 5 * 64 + 12;  // the last line has 12 bytes
  arena.poison(0, 1024);
  EXPECT_EQ(arena.first_untouched_line(begin, size), begin);
  const Bytes buffer = arena.at(begin, size);
  for (Index line = 0; line < 6; ++line) {
    EXPECT_EQ(arena.first_untouched_line(begin, size), begin + 64 * line);
    buffer.data[64 * line + (line * 5) % 12] = std::byte{7};  // one byte of the line suffices
  }
  EXPECT_EQ(arena.first_untouched_line(begin, size), -1);
  // A write in the same cache line but past the buffer's end is not the buffer's.
  arena.poison(begin, size);
  std::memset(buffer.data, 0, 5 * 64);
  arena.at(begin + 5 * 64, 64).data[12] = std::byte{0};
  EXPECT_EQ(arena.first_untouched_line(begin, size), begin + 5 * 64);
}

TEST(Arena, FindsAWriteOutside) {
  const Arena arena(512);
  arena.poison(0, 512);
  std::memset(arena.at(64, 100).data, 0, 100);
  EXPECT_EQ(arena.first_written_byte(0, 64), -1);
  EXPECT_EQ(arena.first_written_byte(164, 512 - 164), -1);
  arena.at(64, 100 + 1).data[100] = std::byte{0};
  EXPECT_EQ(arena.first_written_byte(164, 512 - 164), 164);
}

TEST(Arena, FindsABrokenSentinel) {
  Arena arena(1024);
  for (const Index at : {640, 64, 256}) arena.place_sentinel(at);
  EXPECT_EQ(arena.first_broken_sentinel(), -1);
  for (const Index byte : {Index{0}, Index{31}, Index{63}})
    for (const Index at : {Index{64}, Index{256}, Index{640}}) {
      std::byte& b = arena.at(at, 64).data[byte];
      b ^= std::byte{1};
      EXPECT_EQ(arena.first_broken_sentinel(), at) << "byte " << byte;
      b ^= std::byte{1};
    }
  // Copying one sentinel over another is a write too.
  std::memcpy(arena.at(256, 64).data, arena.at(64, 64).data, 64);
  EXPECT_EQ(arena.first_broken_sentinel(), 256);
  arena.poison(64, 64);
  EXPECT_EQ(arena.first_broken_sentinel(), 64);
  arena.remove_sentinels();
  EXPECT_EQ(arena.first_broken_sentinel(), -1);
}

}  // namespace
}  // namespace longhaul
