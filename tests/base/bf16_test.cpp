// bf16 conversion against its definition: the nearest of the two neighbours, ties to the even one.
#include "base/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace longhaul {
namespace {

float from_bits(std::uint32_t u) {
  return std::bit_cast<float>(u);
}

// The definition, in doubles: of the two bf16 values around |x| the nearer one, of two equally near ones the even one.
std::uint16_t nearest(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto down = static_cast<std::uint16_t>((u & 0x7fffffffu) >> 16), up = static_cast<std::uint16_t>(down + 1);
  const double a = std::fabs(static_cast<double>(x));
  // Past the largest finite value the grid goes on as if the exponent did, and what would land there is infinite.
  const double low = from_bits(static_cast<std::uint32_t>(down) << 16);
  const double high = up == 0x7f80u ? 0x1p128 : static_cast<double>(from_bits(static_cast<std::uint32_t>(up) << 16));
  const bool take_up = a - low > high - a || (a - low == high - a && (down & 1));
  return static_cast<std::uint16_t>((take_up ? up : down) | (u >> 31 << 15));
}

TEST(Bf16, RoundsToNearestEven) {
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const auto u = static_cast<std::uint32_t>(random_bits(1, 0, i));
    // Every other number sits at or next to a tie.
    const float x = from_bits(i % 2 ? u : (u & 0xffff0000u) | static_cast<std::uint32_t>(0x7fff + i / 2 % 3));
    if (std::isnan(x) || std::isinf(x)) continue;
    ASSERT_EQ(bf16(x).bits, nearest(x)) << std::hexfloat << x;
  }
}

TEST(Bf16, TiesAndEdges) {
  EXPECT_EQ(bf16(from_bits(0x3f808000)).bits, 0x3f80);  // halfway, even below
  EXPECT_EQ(bf16(from_bits(0x3f818000)).bits, 0x3f82);  // halfway, even above
  EXPECT_EQ(bf16(from_bits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds up to infinity
  EXPECT_EQ(bf16(from_bits(0x7f7f7fff)).bits, 0x7f7f);
  EXPECT_EQ(bf16(std::numeric_limits<float>::infinity()).bits, 0x7f80);
  EXPECT_EQ(bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(Bf16, NaNStaysNaN) {
  // Payloads in the low half only would otherwise be cut or rounded into infinity.
  for (const std::uint32_t u : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff800001u, 0x7fc00000u}) {
    const bf16 h(from_bits(u));
    EXPECT_TRUE(std::isnan(static_cast<float>(h))) << std::hex << u;
    EXPECT_EQ(h.bits >> 15, u >> 31) << std::hex << u;
  }
}

TEST(Bf16, EveryValueComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = from_bits(bits << 16);
    if (std::isnan(x)) continue;
    ASSERT_EQ(bf16(x).bits, bits);
    ASSERT_EQ(static_cast<double>(bf16(x)), static_cast<double>(x));
  }
}

}  // namespace
}  // namespace longhaul
