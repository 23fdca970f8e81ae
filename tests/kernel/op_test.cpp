// Every implementation of every op against the fp64 reference, over the one table of cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/matmul.h"
#include "kernel/ops.h"
#include "op_cases.h"

namespace longhaul::testing {
namespace {

double epsilon(DType t) {
  return t == DType::kF64 ? 0x1p-52 : t == DType::kF32 ? 0x1p-23 : 0x1p-7;
}

// Largest |a - b|; infinite where one is not finite and the other differs.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    worst = std::max(worst, a[i] == b[i] ? 0 : std::isfinite(d) ? d : INFINITY);
  }
  return worst;
}

double largest(const std::vector<double>& a) {
  double top = 0;
  for (double x : a) top = std::max(top, std::abs(x));
  return top;
}

std::string reproduce(const OpCase& c, const Setting& s) {
  return std::string(s.ops->name) + ", " + name_of(s.storage) + ", " + std::to_string(s.threads) + " threads, gap " +
         std::to_string(s.gap) + ": " + c.name;
}

// The reference itself: its error in fp32 and bf16 is what sums of n terms in that type may have.
void check_reference(const OpCase& c, const Setting& s, const std::vector<Output>& want,
                     const std::vector<Output>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = largest_difference(got[i].values, want[i].values), top = largest(want[i].values);
    const double sums = 4 * epsilon(accumulator_of(s.storage)) * static_cast<double>(c.terms + 8);
    const double bound = c.exact ? 0 : (epsilon(got[i].type) / 2 + sums) * std::max(top, 1.0);
    EXPECT_LE(error, bound) << reproduce(c, s) << ", " << got[i].name;
    EXPECT_TRUE(got[i].gaps_untouched) << reproduce(c, s) << ", " << got[i].name;
  }
}

void check_variant(const OpCase& c, const Setting& s, const std::vector<Output>& want, const std::vector<Output>& plain,
                   const std::vector<Output>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = largest_difference(got[i].values, want[i].values);
    const double own = largest_difference(plain[i].values, want[i].values), top = largest(want[i].values);
    const double ulps = 4 * epsilon(accumulator_of(s.storage)) * top * std::log2(static_cast<double>(c.terms + 1));
    EXPECT_LE(error, c.exact ? 0 : 2 * own + ulps) << reproduce(c, s) << ", " << got[i].name;
    EXPECT_TRUE(got[i].gaps_untouched) << reproduce(c, s) << ", " << got[i].name;
  }
}

// The table of each instruction set that this machine has, and both ways of the matrix product.
std::vector<Ops> every_implementation() {
  std::vector<Ops> all;
  for (const kernel::Isa isa : {kernel::Isa::kAvx512, kernel::Isa::kAvx2, kernel::Isa::kBaseline})
    if (kernel::isa_refuses(isa) == nullptr) all.push_back(kernel::cpu_ops_of(isa));
  all.back().matmul_scratch = kernel::cpu::matmul_native_scratch;
  all.back().matmul = kernel::cpu::matmul_native;
  all.front().matmul_scratch = kernel::cpu::matmul_by_fp32_scratch;
  all.front().matmul = kernel::cpu::matmul_by_fp32;
  return all;
}

TEST(Ops, EveryImplementationAgreesWithTheReference) {
  const Ops& reference = kernel::reference_ops();
  const std::vector<Ops> variants = every_implementation();
  for (const OpCase& c : op_cases())
    for (const Index gap : {0, 3}) {
      const std::vector<Output> want = c.run({&reference, DType::kF64, 1, gap});
      for (const DType storage : {DType::kF32, DType::kBF16, DType::kF64}) {
        const Setting plain{&reference, storage, 1, gap};
        const std::vector<Output> own = c.run(plain);
        check_reference(c, plain, want, own);
        for (const Ops& ops : variants) {
          const Setting s{&ops, storage, gap == 0 ? 1 : 2, gap};
          check_variant(c, s, want, own, c.run(s));
        }
      }
    }
}

// The same threads give the same bits.
TEST(Ops, TheSameThreadsGiveTheSameBits) {
  for (const OpCase& c : op_cases()) {
    const Setting s{&kernel::cpu_ops(), DType::kF32, 2, 0};
    const std::vector<Output> first = c.run(s), second = c.run(s);
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(largest_difference(first[i].values, second[i].values), 0) << reproduce(c, s) << ", " << first[i].name;
  }
}

}  // namespace
}  // namespace longhaul::testing
