// Planted faults: one-line errors in kernels and merges, each of which the checks of these tests must catch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "exec/cases.h"
#include "kernel/ops.h"

namespace longhaul::exec {
namespace {

using train::AttentionCase;
using train::AttentionResult;
using train::AttentionSetup;

constexpr Index kRows = 48;
constexpr int kRanks = 4;

const AttentionVariant& reference() {
  return *choose_attention(kernel::reference_ops(), "ref", {}, {});
}

AttentionSetup setup(DType storage, const AttentionVariant& variant, strategy::LayoutKind layout) {
  AttentionSetup s;
  s.strategy = strategy::find_strategy("ring"), s.layout = layout, s.ranks = kRanks;
  s.storage = storage, s.ops = &kernel::reference_ops(), s.variant = &variant;
  return s;
}

// The checks used elsewhere: fp64 against the dense algorithm, and in fp32 twice the error of one correct rank
// and 4 ulp.
std::string check_fp64(const AttentionCase& c, const AttentionVariant& v, strategy::LayoutKind layout) {
  return difference(train::run_attention(c, setup(DType::kF64, v, layout)), dense(c), 1e-12);
}
std::string check_fp32(const AttentionCase& c, const AttentionVariant& v, strategy::LayoutKind layout) {
  const AttentionResult want = dense(c), got = train::run_attention(c, setup(DType::kF32, v, layout));
  AttentionSetup one = setup(DType::kF32, reference(), layout);
  one.strategy = strategy::find_strategy("single"), one.ranks = 1;
  const AttentionResult own = train::run_attention(c, one);
  std::string failures;
  const auto compare = [&](const char* name, const std::vector<double>& got_x, const std::vector<double>& own_x,
                           const std::vector<double>& want_x) {
    double top = 0, error = 0, own_error = 0;
    for (std::size_t i = 0; i < want_x.size(); ++i) {
      top = std::max(top, std::abs(want_x[i]));
      error = std::max(error, std::abs(got_x[i] - want_x[i]));
      own_error = std::max(own_error, std::abs(own_x[i] - want_x[i]));
    }
    if (!(error <= 2 * own_error + 4 * 1.2e-7 * top * std::log2(static_cast<double>(c.rows) + 1)))
      failures += std::string(name) + " ";
  };
  compare("o", got.o, own.o, want.o), compare("lse", got.lse, own.lse, want.lse),
      compare("dq", got.dq, own.dq, want.dq);
  compare("dk", got.dk, own.dk, want.dk), compare("dv", got.dv, own.dv, want.dv);
  return failures;
}

// f(m, l, first of the V values of o) for every query row and head of a call, in the accumulator type.
template <class F>
void each_row(const AttentionForward& a, F&& f) {
  const auto visit = [&]<class T>(T) {
    const auto o = a.o_TNV.as<T>();
    const auto m = a.m_TN.as<T>(), l = a.l_TN.as<T>();
    for (Index i = 0; i < o.extent[0]; ++i)
      for (Index n = 0; n < o.extent[1]; ++n) f(m(i, n), l(i, n), &o(i, n, 0), o.extent[2]);
  };
  a.o_TNV.dtype == DType::kF64 ? visit(double{}) : visit(float{});
}

using Forward = decltype(AttentionVariant::forward);
AttentionVariant with_forward(Forward forward) {
  AttentionVariant v = reference();
  v.forward = forward;
  return v;
}

TEST(Faults, MergeOfTwoEmpties) {
  // exp(m - M) without a guard is exp(-inf + inf) where neither side has seen anything.
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        std::vector<double> before;
        each_row(a, [&](auto& m, auto&, auto*, Index) { before.push_back(m); });
        reference().forward(queue, a, begin, end, scratch);
        std::size_t row = 0;
        each_row(a, [&](auto& m, auto& l, auto* o, Index width) {
          const double factor = std::exp(before[row++] - m);
          l += static_cast<std::remove_reference_t<decltype(l)>>(0 * factor);
          for (Index d = 0; d < width; ++d) o[d] += static_cast<std::remove_reference_t<decltype(o[d])>>(0 * factor);
        });
      });
  const AttentionCase c = make_case({"empties", kRows, 2, 2, 4, 4, {}, Documents::kSorted});
  EXPECT_EQ(check_fp64(c, reference(), strategy::LayoutKind::kStriped), "");
  EXPECT_NE(check_fp64(c, faulty, strategy::LayoutKind::kStriped), "");
}

TEST(Faults, StatisticMergedAsOneNumber) {
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        reference().forward(queue, a, begin, end, scratch);
        if (end < reference().forward_tiles({a.q_TND.dtype, a.q_TND.extent[0], a.k_KGD.extent[0], a.q_TND.extent[1],
                                             a.k_KGD.extent[1], a.q_TND.extent[2], a.v_KGV.extent[2]}))
          return;
        each_row(a, [&](auto& m, auto& l, auto*, Index) { m += l, l = 0; });
      });
  // Scores of 10^4 that are exact in fp32: a common offset and multiples of 1/4.
  AttentionCase c = make_case({"huge", kRows, 2, 2, 8, 4, {}});
  c.params.scale = 1;
  for (auto* x : {&c.q, &c.k})
    for (std::size_t i = 0; i < x->size(); ++i) (*x)[i] = i % 8 == 0 ? 100.0f : std::round((*x)[i]) / 2;
  EXPECT_EQ(check_fp32(c, reference(), strategy::LayoutKind::kZigzag), "");
  EXPECT_NE(check_fp32(c, faulty, strategy::LayoutKind::kZigzag), "");
}

TEST(Faults, PartialRoundedToBf16) {
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        reference().forward(queue, a, begin, end, scratch);
        each_row(a, [&](auto&, auto&, auto* o, Index width) {
          using T = std::remove_reference_t<decltype(*o)>;
          for (Index d = 0; d < width; ++d) o[d] = static_cast<T>(bf16(static_cast<float>(o[d])));
        });
      });
  const AttentionCase c = make_case({"partial", kRows, 2, 2, 8, 4, {}});
  EXPECT_EQ(check_fp32(c, reference(), strategy::LayoutKind::kZigzag), "");
  EXPECT_NE(check_fp32(c, faulty, strategy::LayoutKind::kZigzag), "");
}

TEST(Faults, MaskByShardOffset) {
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        std::vector<Token> q(a.q_tokens.begin(), a.q_tokens.end()), k(a.k_tokens.begin(), a.k_tokens.end());
        for (auto* tokens : {&q, &k})
          for (std::size_t i = 0; i < tokens->size(); ++i) (*tokens)[i].row = static_cast<Index>(i);
        AttentionForward b = a;
        b.q_tokens = q, b.k_tokens = k;
        reference().forward(queue, b, begin, end, scratch);
      });
  const AttentionCase c = make_case({"offset", kRows, 2, 2, 4, 4, {}});
  EXPECT_EQ(check_fp64(c, reference(), strategy::LayoutKind::kContiguous), "");
  EXPECT_NE(check_fp64(c, faulty, strategy::LayoutKind::kContiguous), "");
}

TEST(Faults, WindowByNaturalOrderUnderZigzag) {
  // Rows numbered as they lie in the ranks' memories, one rank after another.
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        const strategy::Layout layout{strategy::LayoutKind::kZigzag, kRows, kRanks};
        std::vector<Index> natural(static_cast<std::size_t>(kRows));
        for (Index r = 0, n = 0; r < kRanks; ++r)
          for (Index i = 0; i < layout.rows(static_cast<int>(r)); ++i)
            natural[static_cast<std::size_t>(layout.row(static_cast<int>(r), i))] = n++;
        std::vector<Token> q(a.q_tokens.begin(), a.q_tokens.end()), k(a.k_tokens.begin(), a.k_tokens.end());
        for (auto* tokens : {&q, &k})
          for (Token& t : *tokens) t.row = natural[static_cast<std::size_t>(t.row)];
        AttentionForward b = a;
        b.q_tokens = q, b.k_tokens = k;
        reference().forward(queue, b, begin, end, scratch);
      });
  const AttentionCase c = make_case({"natural", kRows, 2, 2, 4, 4, {Order::kCausal, 10, 0}});
  EXPECT_EQ(check_fp64(c, reference(), strategy::LayoutKind::kZigzag), "");
  EXPECT_NE(check_fp64(c, faulty, strategy::LayoutKind::kZigzag), "");
}

TEST(Faults, PaddingMultipliedInsteadOfSelected) {
  const AttentionVariant faulty =
      with_forward([](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
        reference().forward(queue, a, begin, end, scratch);
        const auto v = a.v_KGV.as<float>();
        const auto o = a.o_TNV.as<float>();
        for (Index j = 0; j < v.extent[0]; ++j)
          for (Index i = 0; a.k_tokens[static_cast<std::size_t>(j)].document == 0 && i < o.extent[0]; ++i)
            for (Index n = 0; n < o.extent[1]; ++n)
              for (Index d = 0; d < o.extent[2]; ++d)
                o(i, n, d) += 0.0f * v(j, (a.q_head0 + n) / a.group - a.kv_head0, d);
      });
  AttentionCase c = make_case({"padding", kRows, 2, 2, 4, 4, {}, Documents::kSorted});
  AttentionCase poisoned = c;
  for (Index i = 0; i < kRows; ++i)
    if (c.documents[static_cast<std::size_t>(i)] == 0)
      std::fill_n(poisoned.v.begin() + i * 8, 8, std::numeric_limits<float>::quiet_NaN());
  const auto bits_stay = [&](const AttentionVariant& v) {
    const AttentionSetup s = setup(DType::kF32, v, strategy::LayoutKind::kStriped);
    return same_values(train::run_attention(poisoned, s), train::run_attention(c, s));
  };
  EXPECT_TRUE(bits_stay(reference()));
  EXPECT_FALSE(bits_stay(faulty));
  EXPECT_EQ(check_fp32(c, faulty, strategy::LayoutKind::kStriped), "");  // only the poison shows it
}

}  // namespace
}  // namespace longhaul::exec
