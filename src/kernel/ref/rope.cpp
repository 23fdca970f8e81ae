// Reference rotary position embedding: the table of cosines and sines, and the rotation.
#include <cmath>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

template <class X, class Y>
void rotate(Queue& queue, const Rope& a) {
  using A = Accumulator<Y>;
  const auto x = a.x_TND.as<const X>();
  const auto y = a.y_TND.as<Y>();
  const auto cos = a.cos_TD.as<const A>(), sin = a.sin_TD.as<const A>();
  const Index half = cos.extent[1], heads = x.extent[1], width = x.extent[2];
  parallel_for(queue.team(), x.extent[0], [&](Index t, int) {
    for (Index n = 0; n < heads; ++n) {
      for (Index d = 0; d < half; ++d) {
        const A first = static_cast<A>(x(t, n, d)), second = static_cast<A>(x(t, n, d + half));
        const A c = cos(t, d), s = a.inverse ? -sin(t, d) : sin(t, d);
        y(t, n, d) = static_cast<Y>(first * c - second * s);
        y(t, n, d + half) = static_cast<Y>(second * c + first * s);
      }
      for (Index d = 2 * half; d < width; ++d) y(t, n, d) = static_cast<Y>(static_cast<A>(x(t, n, d)));
    }
  });
}

template <class A>
void tabulate(Queue& queue, const RopeTable& a) {
  const auto cos = a.cos_TD.as<A>(), sin = a.sin_TD.as<A>();
  parallel_for(queue.team(), cos.extent[0], [&](Index t, int) {
    for (Index d = 0; d < cos.extent[1]; ++d) {
      const double angle = static_cast<double>(a.tokens[t].position) * a.inverse_frequency[d];
      cos(t, d) = static_cast<A>(a.amplitude * std::cos(angle));
      sin(t, d) = static_cast<A>(a.amplitude * std::sin(angle));
    }
  });
}

}  // namespace

void rope_table(Queue& queue, const RopeTable& a) noexcept {
  check_shapes(a);
  if (a.cos_TD.dtype == DType::kF64)
    tabulate<double>(queue, a);
  else
    tabulate<float>(queue, a);
}

void rope(Queue& queue, const Rope& a) noexcept {
  check_shapes(a);
  with_storage(a.y_TND.dtype, [&]<class S>(S) {
    if (a.x_TND.dtype == a.y_TND.dtype)
      rotate<S, S>(queue, a);
    else
      rotate<Accumulator<S>, S>(queue, a);
  });
}

}  // namespace longhaul::kernel::ref
