// exp, tanh and bf16 of kernel/cpu/simd.h against their definitions, on every instruction set of this machine.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "kernel/cpu/isa.h"
#include "kernel/simd_functions.h"

namespace longhaul::testing {
namespace {

struct Candidate {
  const char* name;
  const SimdFunctions* functions;
};
std::vector<Candidate> candidates() {
  std::vector<Candidate> list{{"baseline", &kBaselineFunctions}};
  if (kernel::isa_refuses(kernel::Isa::kAvx2) == nullptr) list.push_back({"avx2", &kAvx2Functions});
  if (kernel::isa_refuses(kernel::Isa::kAvx512) == nullptr) list.push_back({"avx512", &kAvx512Functions});
  return list;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double ulps(float got, double want) {
  int exponent;
  std::frexp(want, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 24);
}

// Every 1001st float of a range of magnitudes, both signs.
std::vector<float> floats_up_to(float limit) {
  std::vector<float> x;
  for (std::uint32_t u = 0; std::bit_cast<float>(u) <= limit; u += 1001)
    x.push_back(std::bit_cast<float>(u)), x.push_back(-std::bit_cast<float>(u));
  while (x.size() % 16 != 0) x.push_back(0);
  return x;
}

TEST(Simd, ExpIsWithinItsBound) {
  const std::vector<float> x = floats_up_to(88.72f);
  std::vector<float> y(x.size());
  for (const Candidate& c : candidates()) {
    c.functions->exp(x.data(), static_cast<int>(x.size()), y.data());
    const double bound = c.functions == &kBaselineFunctions ? 2 : 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] < -87.3f) {
        EXPECT_EQ(y[i], 0) << c.name << ", exp(" << x[i] << ")";
      } else {
        EXPECT_LE(ulps(y[i], std::exp(static_cast<double>(x[i]))), bound) << c.name << ", exp(" << x[i] << ")";
      }
    }
  }
}

TEST(Simd, TanhIsWithinItsBound) {
  const std::vector<float> x = floats_up_to(std::numeric_limits<float>::max());
  std::vector<float> y(x.size());
  for (const Candidate& c : candidates()) {
    c.functions->tanh(x.data(), static_cast<int>(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] != 0 && std::abs(x[i]) < std::numeric_limits<float>::min()) continue;  // denormal
      EXPECT_LE(x[i] == 0 ? std::abs(y[i]) : ulps(y[i], std::tanh(static_cast<double>(x[i]))), 2)
          << c.name << ", tanh(" << x[i] << ")";
    }
  }
}

TEST(Simd, ExtremesOfExpAndTanh) {
  const float odd_nan = std::bit_cast<float>(0xffffffffu);  // low bits that must not leak into the exponent
  const std::vector<float> x{-kInf, -1e30f,  -87.31f,  -0.f, 0.f, 88.8f, 1e30f, kInf,
                             kNaN,  odd_nan, -odd_nan, 0,    0,   0,     0,     0};
  const std::vector<float> exps{0, 0, 0, 1, 1, kInf, kInf, kInf}, tanhs{-1, -1, -1, 0, 0, 1, 1, 1};
  std::vector<float> e(16), t(16);
  for (const Candidate& c : candidates()) {
    c.functions->exp(x.data(), 16, e.data());
    c.functions->tanh(x.data(), 16, t.data());
    for (std::size_t i = 0; i < exps.size(); ++i) {
      EXPECT_EQ(e[i], exps[i]) << c.name << ", exp(" << x[i] << ")";
      EXPECT_EQ(t[i], tanhs[i]) << c.name << ", tanh(" << x[i] << ")";
    }
    for (std::size_t i = 8; i < 11; ++i) EXPECT_TRUE(std::isnan(e[i]) && std::isnan(t[i])) << c.name << ", NaN " << i;
  }
}

TEST(Simd, Bf16IsTheUpperHalfToNearestEven) {
  std::vector<float> x;
  for (std::uint32_t half = 0; half < 0x10000; ++half)
    for (std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(half << 16 | low));
  std::vector<std::uint16_t> halves(x.size());
  std::vector<float> back(x.size());
  for (const Candidate& c : candidates()) {
    c.functions->to_bf16(x.data(), static_cast<int>(x.size()), halves.data());
    c.functions->from_bf16(halves.data(), static_cast<int>(x.size()), back.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(halves[i], bf16(x[i]).bits) << c.name << ", " << x[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::uint32_t{halves[i]} << 16) << c.name << ", " << x[i];
    }
  }
}

TEST(Simd, PartOfAVectorTouchesNothingElse) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (const Candidate& c : candidates())
    for (int count = 0; count < c.functions->lanes; ++count) {
      std::vector<float> y(16, -1);
      const std::vector<float> some(x.begin(), x.begin() + count);  // of this size, so that a sanitizer sees more
      c.functions->copy_some(some.data(), count, y.data());
      for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], i < count ? x[i] : -1) << c.name << ", " << count << " at " << i;
    }
}

}  // namespace
}  // namespace longhaul::testing
