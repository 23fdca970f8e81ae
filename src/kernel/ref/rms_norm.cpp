// Reference RMS norm and its gradient.
#include <cmath>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

template <class S>
void forward(Queue& queue, const RmsNormForward& a) {
  using A = Accumulator<S>;
  const auto x = a.x_TE.as<const S>();
  const auto w = a.w_E.as<const S>();
  const auto y = a.y_TE.as<S>();
  const auto rstd = a.rstd_T.as<A>();
  const Index width = x.extent[1];
  const A eps = static_cast<A>(a.eps), offset = static_cast<A>(a.weight_offset);
  parallel_for(queue.team(), x.extent[0], [&](Index t, int) {
    A squares = 0;
    for (Index e = 0; e < width; ++e) squares += static_cast<A>(x(t, e)) * static_cast<A>(x(t, e));
    const A r = 1 / std::sqrt(squares / static_cast<A>(width) + eps);
    rstd(t) = r;
    for (Index e = 0; e < width; ++e)
      y(t, e) = static_cast<S>(static_cast<A>(x(t, e)) * r * (offset + static_cast<A>(w(e))));
  });
}

// With n = x rstd and g = dy (offset + w): dx = rstd (g - n mean(g n)), dw = sum over rows of dy n.
template <class S>
void backward(Queue& queue, const RmsNormBackward& a) {
  using A = Accumulator<S>;
  const auto dy = a.dy_TE.as<const S>(), x = a.x_TE.as<const S>();
  const auto w = a.w_E.as<const S>();
  const auto rstd = a.rstd_T.as<const A>();
  const auto dx = a.dx_TE.as<S>();
  const auto dw = a.dw_E.as<A>();
  const Index rows = x.extent[0], width = x.extent[1];
  const A offset = static_cast<A>(a.weight_offset);
  parallel_for(queue.team(), rows, [&](Index t, int) {
    A dot = 0;
    for (Index e = 0; e < width; ++e)
      dot += static_cast<A>(dy(t, e)) * (offset + static_cast<A>(w(e))) * (static_cast<A>(x(t, e)) * rstd(t));
    const A mean = dot / static_cast<A>(width);
    for (Index e = 0; e < width; ++e) {
      const A g = static_cast<A>(dy(t, e)) * (offset + static_cast<A>(w(e)));
      const A n = static_cast<A>(x(t, e)) * rstd(t);
      dx(t, e) = static_cast<S>(static_cast<A>(dx(t, e)) + rstd(t) * (g - n * mean));
    }
  });
  parallel_for(queue.team(), width, [&](Index e, int) {
    A sum = 0;
    for (Index t = 0; t < rows; ++t) sum += static_cast<A>(dy(t, e)) * (static_cast<A>(x(t, e)) * rstd(t));
    dw(e) += sum;
  });
}

}  // namespace

void rms_norm_forward(Queue& queue, const RmsNormForward& a) noexcept {
  check_shapes(a);
  with_storage(a.x_TE.dtype, [&]<class S>(S) { forward<S>(queue, a); });
}

Index rms_norm_backward_scratch(Index, Index, DType, int) noexcept {
  return 0;
}

void rms_norm_backward(Queue& queue, const RmsNormBackward& a, Bytes) noexcept {
  check_shapes(a);
  with_storage(a.x_TE.dtype, [&]<class S>(S) { backward<S>(queue, a); });
}

}  // namespace longhaul::kernel::ref
