// Reference gated activations (SwiGLU, GeGLU) and their gradients.
#include <algorithm>
#include <cmath>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

template <class A>
struct ValueAndSlope {
  A value, slope;
};

// x sigmoid(x). The slope is sigmoid(x) (1 + x (1 - sigmoid(x))).
template <class A>
ValueAndSlope<A> silu(A x) {
  const A sigmoid = 1 / (1 + std::exp(-x));
  return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
}

// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016), written with
// (1 + tanh u) / 2 = sigmoid(2u), which does not cancel where tanh u is near -1.
template <class A>
ValueAndSlope<A> gelu_tanh(A x) {
  constexpr A kScale = static_cast<A>(2 * 0.79788456080286535588);  // 2 sqrt(2 / pi)
  constexpr A kCubic = static_cast<A>(0.044715);
  const A z = std::clamp(x, A{-32}, A{32});  // beyond, phi is 0 or 1 and x^3 might overflow
  const A phi = 1 / (1 + std::exp(-kScale * (z + kCubic * z * z * z)));
  return {x * phi, phi * (1 + z * (1 - phi) * kScale * (1 + 3 * kCubic * z * z))};
}

template <class A>
ValueAndSlope<A> activate(Activation activation, A x) {
  return activation == Activation::kSilu ? silu(x) : gelu_tanh(x);
}

template <class S>
void forward(Queue& queue, const GatedForward& a) {
  using A = Accumulator<S>;
  const auto gate = a.gate_TF.as<const S>(), up = a.up_TF.as<const S>();
  const auto h = a.h_TF.as<S>();
  parallel_for(queue.team(), h.extent[0], [&](Index t, int) {
    for (Index f = 0; f < h.extent[1]; ++f)
      h(t, f) = static_cast<S>(activate(a.activation, static_cast<A>(gate(t, f))).value * static_cast<A>(up(t, f)));
  });
}

template <class S>
void backward(Queue& queue, const GatedBackward& a) {
  using A = Accumulator<S>;
  const auto gate = a.gate_TF.as<const S>(), up = a.up_TF.as<const S>(), dh = a.dh_TF.as<const S>();
  const auto dgate = a.dgate_TF.as<S>(), dup = a.dup_TF.as<S>();
  parallel_for(queue.team(), dh.extent[0], [&](Index t, int) {
    for (Index f = 0; f < dh.extent[1]; ++f) {
      const A d = static_cast<A>(dh(t, f)), u = static_cast<A>(up(t, f));
      const auto [value, slope] = activate(a.activation, static_cast<A>(gate(t, f)));
      dgate(t, f) = static_cast<S>(d * u * slope);
      dup(t, f) = static_cast<S>(d * value);
    }
  });
}

}  // namespace

void gated_forward(Queue& queue, const GatedForward& a) noexcept {
  check_shapes(a);
  with_storage(a.gate_TF.dtype, [&]<class S>(S) { forward<S>(queue, a); });
}

void gated_backward(Queue& queue, const GatedBackward& a) noexcept {
  check_shapes(a);
  with_storage(a.gate_TF.dtype, [&]<class S>(S) { backward<S>(queue, a); });
}

}  // namespace longhaul::kernel::ref
