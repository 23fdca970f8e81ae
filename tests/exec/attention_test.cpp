// Every strategy, layout and degree against the dense algorithm; messages, memory, bits, and how errors grow.
#include "exec/attention.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "base/error.h"
#include "comm/allocations.h"
#include "exec/cases.h"
#include "kernel/ops.h"

namespace longhaul::exec {
namespace {

using train::AttentionCase;
using train::AttentionResult;
using train::AttentionSetup;

AttentionSetup with(AttentionSetup s, const char* strategy, strategy::LayoutKind layout, int ranks, int ulysses = 1) {
  s.strategy = strategy::find_strategy(strategy), s.layout = layout, s.ranks = ranks, s.ulysses = ulysses;
  return s;
}

// In fp64 the difference to the dense algorithm is rounding alone: some 100 sums of numbers of order 1 to 10.
constexpr double kFp64 = 1e-12;

TEST(Attention, EveryStrategyLayoutAndDegreeIsTheDenseAlgorithm) {
  for (const CaseSpec& spec : kCases) {
    const AttentionCase c = make_case(spec);
    const AttentionResult want = dense(c);
    for (const AttentionSetup& s : setups(8, reference(DType::kF64)))
      EXPECT_EQ(difference(train::run_attention(c, s), want, kFp64), "") << spec.name << ": " << describe(s);
  }
}

void poison_padding(AttentionCase& c) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (Index i = 0; i < c.rows; ++i) {
    if (c.documents[static_cast<std::size_t>(i)] != 0) continue;
    for (auto* x : {&c.q, &c.k, &c.v, &c.d_o}) {
      const Index columns = static_cast<Index>(x->size()) / c.rows;
      std::fill_n(x->begin() + i * columns, columns, nan);
    }
  }
}

TEST(Attention, NothingReadsMemoryThatNobodyHasWrittenOrPadding) {
  for (const CaseSpec& spec : kCases) {
    AttentionCase c = make_case(spec);
    for (AttentionSetup s : setups(7, reference(DType::kF32))) {
      if (s.ranks != 1 && s.ranks != 4 && s.ranks != 7) continue;
      const AttentionResult clean = train::run_attention(c, s);
      AttentionCase poisoned = c;
      if (!c.documents.empty()) poison_padding(poisoned);
      s.poison = true;
      EXPECT_TRUE(same_values(train::run_attention(poisoned, s), clean)) << spec.name << ": " << describe(s);
    }
  }
}

TEST(Attention, EqualRunsGiveEqualBits) {
  for (const CaseSpec& spec : kCases) {
    if (spec.rows < 30) continue;
    const AttentionCase c = make_case(spec);
    for (const AttentionSetup& s : setups(6, reference(DType::kBF16))) {
      if (s.ranks != 6) continue;
      const AttentionResult once = train::run_attention(c, s);
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE(same_values(train::run_attention(c, s), once)) << spec.name << ": " << describe(s);
    }
  }
}

// The rule of checks/attend.py: an error is at most twice the one-rank error in the same type and 4 ulp of fp32 sums;
// and the root mean square error does not grow with the degree.
struct Fp32Errors {
  double growth_sum = 0;
  int count = 0;
};
void expect_fp32_errors(const std::vector<double>& one, const std::vector<double>& many,
                        const std::vector<double>& want, Index rows, const std::string& what, Fp32Errors& errors) {
  double top = 0, worst_one = 0, worst_many = 0, square_one = 0, square_many = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) continue;
    const double a = std::abs(one[i] - want[i]), b = std::abs(many[i] - want[i]);
    top = std::max(top, std::abs(want[i])), worst_one = std::max(worst_one, a), worst_many = std::max(worst_many, b);
    square_one += a * a, square_many += b * b;
  }
  const double ulps = 4 * 1.2e-7 * top * std::log2(static_cast<double>(rows) + 1);
  EXPECT_LE(worst_many, 2 * worst_one + ulps) << what;
  const double few = 0.1 * ulps / 4 * std::sqrt(static_cast<double>(want.size()));  // below this nothing grows
  errors.growth_sum += 0.5 * std::log(std::max(square_many, few * few) / std::max(square_one, few * few));
  ++errors.count;
}

TEST(Attention, ErrorsInFp32DoNotGrowWithTheDegree) {
  constexpr CaseSpec kLonger[] = {{"causal, 150 rows", 150, 4, 2, 32, 16},
                                  {"full, 128 rows, sinks", 128, 2, 2, 16, 16, kFull, Documents::kNone, true},
                                  {"documents, 200 rows", 200, 4, 4, 16, 16, kCausal, Documents::kSorted}};
  Fp32Errors errors[5];
  constexpr const char* kNames[] = {"o", "lse", "dq", "dk", "dv"};
  for (const CaseSpec& spec : kLonger) {
    const AttentionCase c = make_case(spec);
    const AttentionResult want = dense(c);
    const AttentionSetup fp32 = reference(DType::kF32);
    const AttentionResult one = train::run_attention(c, with(fp32, "single", strategy::LayoutKind::kContiguous, 1));
    for (const AttentionSetup& s : setups(8, fp32)) {
      if (s.ranks != 8) continue;
      const AttentionResult many = train::run_attention(c, s);
      const auto vectors = [](const AttentionResult& r) { return std::array{&r.o, &r.lse, &r.dq, &r.dk, &r.dv}; };
      for (std::size_t t = 0; t < 5; ++t)
        expect_fp32_errors(*vectors(one)[t], *vectors(many)[t], *vectors(want)[t], c.rows,
                           std::string(spec.name) + ", " + kNames[t] + ": " + describe(s), errors[t]);
    }
  }
  for (std::size_t t = 0; t < 5; ++t)
    EXPECT_LE(std::exp(errors[t].growth_sum / errors[t].count), 1.15) << kNames[t] << " from 1 to 8 ranks";
}

// Rank 0 looks at the start of the third backward pass and at the end of the fifth.
std::atomic<int> g_backward_passes{0};
std::atomic<long> g_before{0}, g_after{0};

TEST(Attention, NothingIsAllocatedWhileAScheduleRuns) {
  const AttentionCase c = make_case(kCases[17]);
  Ops ops = kernel::reference_ops();
  ops.attention_delta = [](Queue& queue, const AttentionDelta& a) noexcept {
    kernel::reference_ops().attention_delta(queue, a);
    if (++g_backward_passes == 3 * 4) g_before = comm::allocations();
  };
  ops.attention_sink_gradient = [](Queue& queue, const AttentionSinkGradient& a) noexcept {
    kernel::reference_ops().attention_sink_gradient(queue, a);
    if (g_backward_passes == 5 * 4) g_after = comm::allocations();
  };
  for (AttentionSetup s : setups(4, reference(DType::kBF16))) {
    if (s.ranks != 4 || s.layout != strategy::LayoutKind::kZigzag) continue;
    g_backward_passes = 0;
    s.ops = &ops, s.repeats = 6;
    train::run_attention(c, s);
    EXPECT_GE(g_backward_passes, 5 * 4);
    EXPECT_EQ(g_after - g_before, 0) << describe(s);
  }
}

TEST(Attention, AStuckRankIsNamedWithTheStepThatWaits) {
  const AttentionCase c = make_case({"causal, 24 rows", 24, 2, 2, 4, 4});
  AttentionSetup s = with(reference(DType::kF32), "ring", strategy::LayoutKind::kContiguous, 4);
  AttentionVariant slow = *s.variant;
  slow.forward = [](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
    choose_attention(kernel::reference_ops(), "ref", {}, {})->forward(queue, a, begin, end, scratch);
    if (a.q_tokens[0].row == 6) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  };
  s.variant = &slow, s.watchdog_seconds = 0.1;
  try {
    train::run_attention(c, s);
    FAIL() << "no failure";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::kRun);
    const std::string text = e.what();
    EXPECT_NE(text.find("nothing came for 0.1 s (step "), std::string::npos) << text;
    EXPECT_NE(text.find(" of the forward attention: waits for "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace longhaul::exec
