// Gradients of the reference ops against finite differences in fp64, element by element and along a direction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernel/ops.h"
#include "tensors.h"

namespace longhaul::testing {
namespace {

using Function = std::function<double()>;  // of the tensors it captures

const Ops& ops() {
  return kernel::reference_ops();
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (Index i = 0; i < a.count(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

// Central differences with steps h and h/2: the finer one's error is about a third of their difference (the error falls
// as h^2), plus the rounding of the function's values divided by the step.
void expect_slope(const std::function<double(double)>& at, double want, const std::string& what) {
  constexpr double kStep = 0x1p-12;
  const double coarse = (at(kStep) - at(-kStep)) / (2 * kStep), fine = (at(kStep / 2) - at(-kStep / 2)) / kStep;
  const double rounding = 1024 * 0x1p-53 * std::max(1.0, std::abs(at(0))) / kStep;
  EXPECT_NEAR(fine, want, std::abs(coarse - fine) + rounding) << what;
}

// `value` is a function of x; `gradient` holds what the op says is its gradient there.
void check_gradient(const char* name, Tensor& x, const Tensor& gradient, const Function& value) {
  const std::vector<double> start = x.values();
  for (Index i = 0; i < x.count(); ++i) {
    const auto at = [&](double step) {
      x.set(i, start[i] + step);
      const double y = value();
      x.set(i, start[i]);
      return y;
    };
    expect_slope(at, gradient.get(i), std::string(name) + ", element " + std::to_string(i));
  }
  Tensor direction(DType::kF64, 1, x.count());
  direction.normal(99);
  double along = 0;
  for (Index i = 0; i < x.count(); ++i) along += direction.get(i) * gradient.get(i);
  const auto at = [&](double step) {
    for (Index i = 0; i < x.count(); ++i) x.set(i, start[i] + step * direction.get(i));
    const double y = value();
    for (Index i = 0; i < x.count(); ++i) x.set(i, start[i]);
    return y;
  };
  expect_slope(at, along, std::string(name) + ", directional");
}

constexpr DType kType = DType::kF64;

TEST(Gradient, MatmulByTransposedMatmuls) {
  CpuQueue queue(1);
  Tensor a(kType, 3, 4), b(kType, 4, 5), c(kType, 3, 5), dc(kType, 3, 5), da(kType, 3, 4), db(kType, 4, 5);
  a.normal(1), b.normal(2), dc.normal(3), da.fill(0), db.fill(0);
  ops().matmul(queue, {dc.matrix(), transpose(b.matrix()), da.matrix(), true}, {});
  ops().matmul(queue, {transpose(a.matrix()), dc.matrix(), db.matrix(), true}, {});
  const Function value = [&] {
    ops().matmul(queue, {a.matrix(), b.matrix(), c.matrix()}, {});
    return dot(c, dc);
  };
  check_gradient("da", a, da, value);
  check_gradient("db", b, db, value);
}

TEST(Gradient, RmsNorm) {
  CpuQueue queue(1);
  for (const double offset : {0.0, 1.0}) {
    Tensor x(kType, 3, 6), w(kType, 1, 6), y(kType, 3, 6), rstd(kType, 3, 1), dy(kType, 3, 6), dx(kType, 3, 6),
        dw(kType, 1, 6);
    x.normal(1), w.normal(2), dy.normal(3), dx.fill(0), dw.fill(0);
    const Function value = [&] {
      ops().rms_norm_forward(queue, {x.matrix(), w.row(), 1e-2, offset, y.matrix(), rstd.column()});
      return dot(y, dy);
    };
    value();
    ops().rms_norm_backward(queue, {dy.matrix(), x.matrix(), w.row(), rstd.column(), offset, dx.matrix(), dw.row()},
                            {});
    check_gradient("rms norm dx", x, dx, value);
    check_gradient("rms norm dw", w, dw, value);
  }
}

TEST(Gradient, RopeByItsInverse) {
  CpuQueue queue(1);
  std::vector<Token> tokens{{0, 3, 1}, {1, 4, 1}, {2, 0, 2}};
  const std::vector<double> frequency{1, 0.1};
  Tensor cos(kType, 3, 2), sin(kType, 3, 2), x(kType, 3, 10), y(kType, 3, 10), dy(kType, 3, 10), dx(kType, 3, 10);
  ops().rope_table(queue, {tokens, frequency, 1.5, cos.matrix(), sin.matrix()});
  x.normal(1), dy.normal(2);
  ops().rope(queue, {dy.heads(2), cos.matrix(), sin.matrix(), dx.heads(2), true});
  check_gradient("rope", x, dx, [&] {
    ops().rope(queue, {x.heads(2), cos.matrix(), sin.matrix(), y.heads(2), false});
    return dot(y, dy);
  });
}

TEST(Gradient, Gated) {
  CpuQueue queue(1);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    Tensor gate(kType, 3, 7), up(kType, 3, 7), h(kType, 3, 7), dh(kType, 3, 7), dgate(kType, 3, 7), dup(kType, 3, 7);
    gate.normal(1, 2), up.normal(2), dh.normal(3);
    ops().gated_backward(queue, {activation, gate.matrix(), up.matrix(), dh.matrix(), dgate.matrix(), dup.matrix()});
    const Function value = [&] {
      ops().gated_forward(queue, {activation, gate.matrix(), up.matrix(), h.matrix()});
      return dot(h, dh);
    };
    check_gradient("gate", gate, dgate, value);
    check_gradient("up", up, dup, value);
  }
}

TEST(Gradient, Embedding) {
  CpuQueue queue(1);
  std::vector<std::int32_t> tokens{2, 0, 2, 3, 2};
  Tensor table(kType, 4, 3), x(kType, 5, 3), dx(kType, 5, 3), dtable(kType, 4, 3);
  table.normal(1), dx.normal(2), dtable.fill(0);
  ops().embedding_backward(queue, {int_view(tokens), dx.matrix(), dtable.matrix()});
  check_gradient("embedding", table, dtable, [&] {
    ops().embedding_forward(queue, {int_view(tokens), table.matrix(), x.matrix()});
    return dot(x, dx);
  });
}

TEST(Gradient, CrossEntropy) {
  CpuQueue queue(1);
  std::vector<std::int32_t> labels{2, -1, 0, 5};
  Tensor logits(kType, 4, 6), loss(kType, 4, 1), dlogits(kType, 4, 6);
  logits.normal(1, 3);
  ops().cross_entropy(queue, {logits.matrix(), int_view(labels), 0.25, loss.column(), dlogits.matrix()});
  check_gradient("cross entropy", logits, dlogits, [&] {
    ops().cross_entropy(queue, {logits.matrix(), int_view(labels), 0.25, loss.column(), {}});
    double sum = 0;
    for (Index t = 0; t < 4; ++t) sum += loss.get(t);
    return 0.25 * sum;
  });
}

}  // namespace
}  // namespace longhaul::testing
