// Sizes: what is read, what is refused, and that printing and reading agree.
#include "base/size.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(Size, Reads) {
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("16K"), 16384);
  EXPECT_EQ(parse_size("1m"), 1 << 20);
  EXPECT_EQ(parse_size("3G"), Index{3} << 30);
  EXPECT_EQ(parse_size("-2T"), -(Index{2} << 40));
  EXPECT_EQ(parse_size("9223372036854775807"), INT64_MAX);
}

TEST(Size, Refuses) {
  for (const char* text :
       {"", "K", "16Q", "1.5K", " 1", "1 ", "+1", "16KB", "0x10", "9223372036854775808", "9007199254740992K", "-"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Size, PrintsWhatItReads) {
  for (Index x : {Index{0}, Index{1}, Index{1000}, Index{1024}, Index{16384}, Index{1} << 20, Index{3} << 40,
                  (Index{1} << 20) + 1024})
    EXPECT_EQ(parse_size(format_size(x)), x) << format_size(x);
  EXPECT_EQ(format_size(131072), "128K");
}

TEST(Size, BytesForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(Index{40} << 30), "40.0 GiB");
  EXPECT_EQ(format_bytes((Index{1} << 20) - 1), "1.00 MiB");
}

}  // namespace
}  // namespace longhaul
