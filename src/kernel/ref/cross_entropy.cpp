// Reference cross-entropy and its gradient, a row at a time.
#include <algorithm>
#include <cmath>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

template <class S>
void forward_and_backward(Queue& queue, const CrossEntropy& a) {
  using A = Accumulator<S>;
  const auto logits = a.logits_TV.as<const A>();
  const auto labels = a.labels_T.as<const std::int32_t>();
  const auto loss = a.loss_T.as<A>();
  const bool gradient = static_cast<bool>(a.dlogits_TV);
  const auto dlogits = gradient ? a.dlogits_TV.as<S>() : View<S, 2>{};
  const Index vocabulary = logits.extent[1];
  const A scale = static_cast<A>(a.scale);
  parallel_for(queue.team(), logits.extent[0], [&](Index t, int) {
    const Index label = labels(t);
    if (label < 0) {
      loss(t) = 0;
      for (Index v = 0; gradient && v < vocabulary; ++v) dlogits(t, v) = S(0);
      return;
    }
    A m = logits(t, 0);
    for (Index v = 1; v < vocabulary; ++v) m = std::max(m, logits(t, v));
    A sum = 0;
    for (Index v = 0; v < vocabulary; ++v) sum += std::exp(logits(t, v) - m);
    loss(t) = std::log(sum) - (logits(t, label) - m);
    for (Index v = 0; gradient && v < vocabulary; ++v) {
      const A p = std::exp(logits(t, v) - m) / sum;
      dlogits(t, v) = static_cast<S>((v == label ? p - 1 : p) * scale);
    }
  });
}

}  // namespace

void cross_entropy(Queue& queue, const CrossEntropy& a) noexcept {
  check_shapes(a);
  with_storage(a.dlogits_TV ? a.dlogits_TV.dtype : a.logits_TV.dtype,
               [&]<class S>(S) { forward_and_backward<S>(queue, a); });
}

}  // namespace longhaul::kernel::ref
