// Attention: the reference against golden values and finite differences, every variant against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "kernel/attention_case.h"
#include "kernel/attention_golden.h"
#include "kernel/attention_list.h"

namespace longhaul::testing {
namespace {

const AttentionVariant& reference() {
  return kernel::reference_attention_variants()[0];
}

// Each variant that takes the case in this storage type.
std::vector<const AttentionVariant*> variants_for(const AttentionCase& c, DType storage) {
  std::vector<const AttentionVariant*> list;
  for (const AttentionVariant& v : kernel::attention_variants())
    if (v.refuses(c.shape(storage), c.params) == nullptr) list.push_back(&v);
  return list;
}

struct Oracle {
  AttentionOutputs exact;   // the reference in fp64
  std::vector<double> own;  // the reference's error in the storage type, by tensor
};
Oracle oracle_of(const AttentionCase& c, DType storage) {
  Oracle oracle{run_attention(c, {&reference(), DType::kF64}), {}};
  const AttentionOutputs plain = run_attention(c, {&reference(), storage});
  for (std::size_t i = 0; i < plain.size(); ++i)
    oracle.own.push_back(largest_difference(plain[i].values, oracle.exact[i].values));
  return oracle;
}

void expect_within_bound(const AttentionCase& c, const AttentionRun& run, const Oracle& oracle) {
  const AttentionOutputs got = run_attention(c, run);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<double>& want = oracle.exact[i].values;
    double bound = 2 * oracle.own[i] + ulp_allowance(want, std::ssize(c.q_tokens));
    if (c.q_tokens.size() == 1 && want == std::vector<double>(want.size(), 0)) bound += cancellation_allowance(c);
    if (run.storage == DType::kBF16 && std::string_view(got[i].name) == "dsinks")
      bound += sink_allowance(c, oracle.exact[0].values, oracle.exact[1].values);
    EXPECT_LE(largest_difference(got[i].values, want), bound)
        << c.name << ", " << run << ", " << got[i].name << ": the reference's own error is " << oracle.own[i];
  }
}

void expect_same_bits(const AttentionCase& c, const AttentionRun& run, const AttentionOutputs& want) {
  const AttentionOutputs got = run_attention(c, run);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(largest_difference(got[i].values, want[i].values), 0) << c.name << ", " << run << ", " << got[i].name;
}

TEST(AttentionReference, AgreesWithGoldenValuesInFp64) {
  for (const GoldenAttention& golden : golden_attention()) {
    const AttentionOutputs got = run_attention(golden.problem, {&reference(), DType::kF64});
    ASSERT_EQ(got.size(), golden.expected.size()) << golden.problem.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::vector<double>& want = golden.expected[i].values;
      // The same arithmetic in fp64 has 2^-29 of the error that it has in fp32; so has the golden value.
      const double own = golden.float32_error.at(got[i].name) * std::max(largest_magnitude(want), 0.01);
      const double bound = 0x1p-29 * (3 * own + ulp_allowance(want, std::ssize(golden.problem.q_tokens)));
      EXPECT_LE(largest_difference(got[i].values, want), bound) << golden.problem.name << ", " << got[i].name;
    }
  }
}

TEST(Attention, AgreesWithGoldenValuesInFp32) {
  for (const GoldenAttention& golden : golden_attention())
    for (const AttentionVariant* variant : variants_for(golden.problem, DType::kF32)) {
      const AttentionOutputs got = run_attention(golden.problem, {variant, DType::kF32, 2});
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::vector<double>& want = golden.expected[i].values;
        const double own = golden.float32_error.at(got[i].name) * std::max(largest_magnitude(want), 0.01);
        double bound = 2 * own + ulp_allowance(want, std::ssize(golden.problem.q_tokens));
        if (largest_magnitude(want) < 1e-12) bound += cancellation_allowance(golden.problem);
        EXPECT_LE(largest_difference(got[i].values, want), bound)
            << golden.problem.name << ", " << variant->name << ", " << got[i].name;
      }
    }
}

// d(sum o * do) along a random direction of one input.
double slope_along(AttentionCase c, std::vector<double> AttentionCase::*input, const std::vector<double>& direction,
                   double step) {
  const auto loss = [&](double sign) {
    AttentionCase moved = c;
    for (std::size_t i = 0; i < direction.size(); ++i) (moved.*input)[i] += sign * step * direction[i];
    const AttentionOutputs out = run_attention(moved, {&reference(), DType::kF64});
    double sum = 0;
    for (std::size_t i = 0; i < c.d_o.size(); ++i) sum += out[0].values[i] * c.d_o[i];
    return sum;
  };
  return (loss(1) - loss(-1)) / (2 * step);
}

TEST(AttentionReference, GradientsAgreeWithFiniteDifferences) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.q_tokens.size() > 1000 || c.k_tokens.size() > 1000 || c.d_qk > 256) continue;  // only for time
    const AttentionOutputs gradients = run_attention(c, {&reference(), DType::kF64});
    const auto check = [&](std::size_t index, std::vector<double> AttentionCase::*input) {
      std::vector<double> direction((c.*input).size());
      double slope = 0, scale = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        direction[i] = random_normal(17, index, i);
        slope += gradients[index].values[i] * direction[i];
        scale += std::abs(gradients[index].values[i] * direction[i]);
      }
      // Steps h and h/2 and Richardson's extrapolation leave an error of h^4 times a fifth derivative, and rounding
      // of 2^-52 / h times the loss.
      const double h = 1e-3, coarse = slope_along(c, input, direction, h),
                   fine = slope_along(c, input, direction, h / 2);
      const double loss_scale = static_cast<double>(c.d_o.size());
      EXPECT_NEAR((4 * fine - coarse) / 3, slope, 1e-7 * scale + loss_scale * 0x1p-50 / h)
          << c.name << ", " << gradients[index].name;
    };
    check(2, &AttentionCase::q), check(3, &AttentionCase::k), check(4, &AttentionCase::v);
    if (!c.sinks.empty()) check(5, &AttentionCase::sinks);
  }
}

TEST(Attention, EveryVariantStaysWithinTwiceTheReferencesError) {
  for (const AttentionCase& c : attention_cases())
    for (DType storage : {DType::kF32, DType::kBF16}) {
      const Oracle oracle = oracle_of(c, storage);
      for (const AttentionVariant* variant : variants_for(c, storage))
        for (int threads : {1, 3}) expect_within_bound(c, {variant, storage, threads, 1, {}, false, threads}, oracle);
    }
}

TEST(Attention, PartialResultsOfPiecesMergeInAnyOrder) {
  for (const AttentionCase& c : attention_cases()) {
    const Index keys = std::ssize(c.k_tokens), a = keys / 3, b = keys / 2;
    if (keys < 3 || c.q_tokens.empty()) continue;
    const Oracle oracle = oracle_of(c, DType::kF32);
    for (const AttentionVariant* variant : variants_for(c, DType::kF32)) {
      expect_within_bound(c, {variant, DType::kF32, 2, 1, {{0, a}, {a, b}, {b, keys}}}, oracle);
      expect_within_bound(c, {variant, DType::kF32, 2, 1, {{b, keys}, {a, a}, {0, a}, {a, b}}}, oracle);
    }
  }
}

TEST(Attention, BitsDependOnNothingButValuesAndThreads) {
  for (const AttentionCase& c : attention_cases())
    for (DType storage : {DType::kF32, DType::kBF16})
      for (const AttentionVariant* variant : variants_for(c, storage))
        for (int threads : {1, 2, 3}) {
          if (std::string_view(variant->name) == "ref" && (threads != 2 || storage != DType::kF32))
            continue;  // only for time
          const AttentionOutputs once = run_attention(c, {variant, storage, threads});
          expect_same_bits(c, {variant, storage, threads, 7, {}, true, 5},
                           once);  // calls, poisoned padding, rows apart
          expect_same_bits(c, {variant, storage, threads}, once);
        }
}

// A query with one key: do * v and delta are the same sum, so what is left of the gradients is exactly 0.
TEST(Attention, OneKeyGivesGradientsOfExactlyZero) {
  for (const AttentionCase& c : attention_cases()) {
    if (c.name != "one row" && c.name != "window 1") continue;
    const AttentionRun run{variants_for(c, DType::kF32)[0], DType::kF32};
    const AttentionOutputs got = run_attention(c, run);
    EXPECT_EQ(largest_magnitude(got[2].values), 0) << c.name << ", " << run << ", dq";
    EXPECT_EQ(largest_magnitude(got[3].values), 0) << c.name << ", " << run << ", dk";
  }
}

// A row that goes wrong must show: as NaN, not as a row that sees nothing. Other rows do not change.
TEST(Attention, NaNStaysNaNInItsRow) {
  for (AttentionCase c : attention_cases()) {
    if (c.name != "width 80" && c.name != "documents" && c.name != "softcap 50") continue;
    const Index row = 33, width = c.q_heads * c.d_v;
    for (const AttentionVariant* variant : variants_for(c, DType::kF32)) {
      const AttentionRun run{variant, DType::kF32, 2};
      const AttentionOutputs clean = run_attention(c, run);
      AttentionCase broken = c;
      broken.q[row * c.q_heads * c.d_qk] = std::numeric_limits<double>::quiet_NaN();  // of the first head
      const AttentionOutputs got = run_attention(broken, run);
      EXPECT_TRUE(std::isnan(got[1].values[row * c.q_heads])) << c.name << ", " << run;
      for (Index i = 0; i < std::ssize(got[0].values); ++i) {
        const bool hit = i / width == row && i % width < c.d_v;
        EXPECT_TRUE(hit ? std::isnan(got[0].values[i]) : got[0].values[i] == clean[0].values[i])
            << c.name << ", " << run << ", o at " << i;
      }
    }
  }
}

// Scores 1024 apart in pairs of equal keys: every row attends to one key or to two alike, all values are whole numbers
// or halves, and nothing is rounded but ln 2.
TEST(Attention, SmallIntegersAreExact) {
  for (AttentionCase c : attention_cases()) {
    if (c.params.softcap != 0 || !c.sinks.empty()) continue;
    c.params.scale = 1024;
    for (std::size_t i = 0; i < c.k.size(); ++i) c.k[i] = static_cast<double>(i / (c.kv_heads * c.d_qk) / 2);
    for (std::size_t i = 0; i < c.q.size(); ++i)
      c.q[i] = i / c.d_qk % c.d_qk == i % c.d_qk ? 1 + static_cast<double>(random_bits(3, 1, i) % 3) : 0;
    for (std::size_t i = 0; i < c.v.size(); ++i) c.v[i] = static_cast<double>(random_bits(3, 2, i) % 7) - 3;
    for (std::size_t i = 0; i < c.d_o.size(); ++i) c.d_o[i] = static_cast<double>(random_bits(3, 3, i) % 7) - 3;
    const AttentionOutputs want = run_attention(c, {&reference(), DType::kF64});
    for (const AttentionVariant* variant : variants_for(c, DType::kF32)) {
      const AttentionRun run{variant, DType::kF32, 2};
      const AttentionOutputs got = run_attention(c, run);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(largest_difference(got[i].values, want[i].values), i == 1 ? 0x1p-25 : 0)
            << c.name << ", " << run << ", " << got[i].name;
    }
  }
}

}  // namespace
}  // namespace longhaul::testing
