// What the reference ops must give by their definitions: exact values, edges, and formulas written a second time.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/ops.h"
#include "tensors.h"

namespace longhaul::testing {
namespace {

const Ops& ops() {
  return kernel::reference_ops();
}

TEST(Reference, RmsNormOfKnownRows) {
  CpuQueue queue(1);
  Tensor x(DType::kF64, 2, 4), w(DType::kF64, 1, 4), y(DType::kF64, 2, 4), rstd(DType::kF64, 2, 1);
  for (Index i = 0; i < 4; ++i) x.set(i, i % 2 == 0 ? 2 : -2), x.set(4 + i, 0), w.set(i, static_cast<double>(i));
  ops().rms_norm_forward(queue, {x.matrix(), w.row(), 0.25, 1, y.matrix(), rstd.column()});
  EXPECT_DOUBLE_EQ(rstd.get(0), 1 / std::sqrt(4.25));
  EXPECT_DOUBLE_EQ(y.get(3), -2 / std::sqrt(4.25) * 4);
  EXPECT_EQ(rstd.get(1), 2);  // a row of zeros: 1 / sqrt(eps)
  EXPECT_EQ(y.get(5), 0);
}

// The position in the document turns the angle, not the row; at large positions the angle keeps fp64's accuracy.
TEST(Reference, RopeTableReadsPositions) {
  CpuQueue queue(1);
  const std::vector<Token> tokens{{7, 0, 1}, {8, 10'000'001, 1}};
  const std::vector<double> frequency{1.0};
  Tensor cos(DType::kF32, 2, 1), sin(DType::kF32, 2, 1);
  ops().rope_table(queue, {tokens, frequency, 2, cos.matrix(), sin.matrix()});
  EXPECT_EQ(cos.get(0), 2);
  EXPECT_EQ(sin.get(0), 0);
  EXPECT_EQ(cos.get(1), static_cast<float>(2 * std::cos(10'000'001.0)));
  EXPECT_EQ(sin.get(1), static_cast<float>(2 * std::sin(10'000'001.0)));
}

TEST(Reference, RopeTurnsHalfSplitPairsAndCopiesTheRest) {
  CpuQueue queue(1);
  Tensor cos(DType::kF32, 1, 2), sin(DType::kF32, 1, 2), x(DType::kF32, 1, 5), y(DType::kF32, 1, 5);
  cos.fill(0), sin.fill(1);  // a quarter turn: (a, b) -> (-b, a)
  for (Index i = 0; i < 5; ++i) x.set(i, static_cast<double>(i + 1));
  ops().rope(queue, {x.heads(1), cos.matrix(), sin.matrix(), y.heads(1), false});
  EXPECT_EQ(y.values(), (std::vector<double>{-3, -4, 1, 2, 5}));
  ops().rope(queue, {y.heads(1), cos.matrix(), sin.matrix(), y.heads(1), true});
  EXPECT_EQ(y.values(), x.values());
}

TEST(Reference, GatedActivationsAtKnownPoints) {
  CpuQueue queue(1);
  Tensor gate(DType::kF64, 1, 4), up(DType::kF64, 1, 4), h(DType::kF64, 1, 4);
  const double points[] = {0, 1, -1000, 1000};
  for (Index i = 0; i < 4; ++i) gate.set(i, points[i]), up.set(i, 3);
  ops().gated_forward(queue, {Activation::kSilu, gate.matrix(), up.matrix(), h.matrix()});
  EXPECT_EQ(h.get(0), 0);
  EXPECT_DOUBLE_EQ(h.get(1), 3 / (1 + std::exp(-1.0)));
  EXPECT_EQ(h.get(2), 0);
  EXPECT_EQ(h.get(3), 3000);
  ops().gated_forward(queue, {Activation::kGeluTanh, gate.matrix(), up.matrix(), h.matrix()});
  EXPECT_EQ(h.get(0), 0);
  const double u = std::sqrt(2 / std::acos(-1.0)) * 1.044715;
  EXPECT_NEAR(h.get(1), 3 * (1 + std::tanh(u)) / 2, 4 * 0x1p-52);
  EXPECT_EQ(h.get(2), 0);
  EXPECT_EQ(h.get(3), 3000);
}

TEST(Reference, CrossEntropyOfOneWordAndOfLargeLogits) {
  CpuQueue queue(1);
  for (const DType type : {DType::kF32, DType::kF64}) {
    std::vector<std::int32_t> labels{0, -100};
    Tensor one(type, 2, 1), loss(type, 2, 1), d(type, 2, 1);
    one.fill(1e30);
    ops().cross_entropy(queue, {one.matrix(), int_view(labels), 1, loss.column(), d.matrix()});
    EXPECT_EQ(loss.values(), (std::vector<double>{0, 0}));
    EXPECT_EQ(d.values(), (std::vector<double>{0, 0}));

    Tensor large(type, 2, 3), dlarge(type, 2, 3);
    const double z[] = {3e38, 3e38, -3e38, 1, 2, 3};
    for (Index i = 0; i < 6; ++i) large.set(i, type == DType::kF32 ? static_cast<float>(z[i]) : z[i]);
    ops().cross_entropy(queue, {large.matrix(), int_view(labels), 2, loss.column(), dlarge.matrix()});
    EXPECT_NEAR(loss.get(0), std::log(2.0), 0x1p-23);
    EXPECT_EQ(loss.get(1), 0);
    EXPECT_EQ(dlarge.values(), (std::vector<double>{-1, 1, 0, 0, 0, 0}));
  }
}

// Five steps of AdamW against the formula of the contract in long double.
TEST(Reference, AdamWFollowsItsFormula) {
  CpuQueue queue(1);
  Tensor master(DType::kF64, 1, 3), gradient(DType::kF64, 1, 3), m(DType::kF64, 1, 3), v(DType::kF64, 1, 3);
  master.normal(1), m.fill(0), v.fill(0);
  long double w[3], m1[3] = {}, v1[3] = {};
  for (int i = 0; i < 3; ++i) w[i] = master.get(i);
  const long double lr = 1e-2L, b1 = 0.9L, b2 = 0.95L, eps = 1e-8L, decay = 0.1L, scale = 0.7L;
  for (int step = 1; step <= 5; ++step) {
    gradient.normal(10 + step);
    const long double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
    AdamW a{.master = master.row(), .gradient = gradient.row(), .m = m.row(), .v = v.row()};
    a.learning_rate = 1e-2, a.decay = 0.1, a.gradient_scale = 0.7;
    a.correction1 = static_cast<double>(c1), a.correction2 = static_cast<double>(c2);
    ops().adamw(queue, a);
    for (int i = 0; i < 3; ++i) {
      const long double g = scale * gradient.get(i);
      w[i] *= 1 - lr * decay;
      m1[i] = b1 * m1[i] + (1 - b1) * g;
      v1[i] = b2 * v1[i] + (1 - b2) * g * g;
      w[i] -= lr * (m1[i] / c1) / (std::sqrt(v1[i] / c2) + eps);
      EXPECT_NEAR(master.get(i), static_cast<double>(w[i]), 16 * step * 0x1p-52 * std::abs(master.get(i)));
    }
  }
}

TEST(Reference, CopyRoundsToNearestEven) {
  CpuQueue queue(1);
  Tensor a(DType::kF32, 1, 4), b(DType::kBF16, 1, 4);
  const double x[] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, -0.0};
  for (Index i = 0; i < 4; ++i) a.set(i, x[i]);
  ops().copy(queue, a.heads(1), b.heads(1));
  EXPECT_EQ(b.values(), (std::vector<double>{1, 1 + 0x1p-6, 1 + 0x1p-7, 0}));
  EXPECT_TRUE(std::signbit(b.get(3)));
}

// Threads change how rows are dealt, never what a row or a fixed block gives.
TEST(Reference, SumsDoNotDependOnThreads) {
  Tensor x(DType::kF32, 1, 12345);
  x.normal(3);
  CpuQueue one(1), four(4);
  EXPECT_EQ(ops().sum_squares(one, x.row()), ops().sum_squares(four, x.row()));
}

}  // namespace
}  // namespace longhaul::testing
