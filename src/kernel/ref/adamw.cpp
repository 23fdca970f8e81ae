// Reference AdamW and the sum of squares that clipping needs.
#include <cmath>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

template <class S>
void update(Queue& queue, const AdamW& a) {
  using A = Accumulator<S>;
  const auto w = a.master.as<A>(), m = a.m.as<A>(), v = a.v.as<A>();
  const auto gradient = a.gradient.as<const A>();
  const auto weights = a.weights ? a.weights.as<S>() : View<S, 1>{};
  const A keep = static_cast<A>(1 - a.learning_rate * a.decay), scale = static_cast<A>(a.gradient_scale);
  const A b1 = static_cast<A>(a.beta1), b2 = static_cast<A>(a.beta2);
  const A rest1 = static_cast<A>(1 - a.beta1), rest2 = static_cast<A>(1 - a.beta2);
  const A step = static_cast<A>(a.learning_rate / a.correction1), root = static_cast<A>(std::sqrt(a.correction2));
  const A eps = static_cast<A>(a.eps);
  parallel_for(queue.team(), w.extent[0], [&](Index i, int) {
    const A g = gradient(i) * scale;
    m(i) = b1 * m(i) + rest1 * g;
    v(i) = b2 * v(i) + rest2 * (g * g);
    w(i) = w(i) * keep - step * (m(i) / (std::sqrt(v(i)) / root + eps));
    if (weights.data != nullptr) weights(i) = static_cast<S>(w(i));
  });
}

constexpr Index kBlocks = 64;  // a constant, so that the sum does not depend on the threads

}  // namespace

void adamw(Queue& queue, const AdamW& a) noexcept {
  check_shapes(a);
  with_storage(a.weights ? a.weights.dtype : a.master.dtype, [&]<class S>(S) { update<S>(queue, a); });
}

double sum_squares(Queue& queue, const AnyView<1>& x_I) noexcept {
  double total = 0;
  with_storage(x_I.dtype, [&]<class S>(S) {
    const auto x = x_I.as<const S>();
    double sums[kBlocks];
    parallel_for(queue.team(), kBlocks, [&](Index block, int) {
      double sum = 0;
      for (Index i = x.extent[0] * block / kBlocks; i < x.extent[0] * (block + 1) / kBlocks; ++i)
        sum += static_cast<double>(x(i)) * static_cast<double>(x(i));
      sums[block] = sum;
    });
    for (double sum : sums) total += sum;
  });
  return total;
}

}  // namespace longhaul::kernel::ref
