// Cross-entropy and its gradient over rows.
#include <cmath>
#include <cstring>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {

void cross_entropy(Queue& queue, const CrossEntropy& a, const LossRows& kernels) noexcept {
  const AnyView<2>&z = a.logits_TV, &d = a.dlogits_TV;
  if (z.dtype != DType::kF32 || !is_row_major(z) || (d && !is_row_major(d))) return ref::cross_entropy(queue, a);
  check_shapes(a);
  const auto labels = a.labels_T.as<const std::int32_t>();
  const auto loss = a.loss_T.as<float>();
  const Index rows = z.extent[0], vocabulary = z.extent[1];
  const int storage = d ? storage_index(d.dtype) : 0;
  parallel_for(team_for(queue, rows * vocabulary), rows, [&](Index t, int) {
    const auto* const logits = reinterpret_cast<const float*>(address(z, t * z.stride[0]));
    std::byte* const to = d ? address(d, t * d.stride[0]) : nullptr;
    const Index label = labels(t);
    if (label < 0) {
      loss(t) = 0;
      if (to != nullptr) std::memset(to, 0, vocabulary * size_of(d.dtype));
      return;
    }
    const SoftmaxStatistic s = kernels.statistic(logits, vocabulary);
    const float x = logits[label] - s.max;
    loss(t) = static_cast<float>(std::log(s.sum) - static_cast<double>(x));
    if (to == nullptr) return;
    kernels.gradient[storage](logits, s.max, static_cast<float>(a.scale / s.sum), to, vocabulary);
    const auto at_label = static_cast<float>((std::exp(static_cast<double>(x)) / s.sum - 1) * a.scale);
    if (storage == 1)
      reinterpret_cast<bf16*>(to)[label] = bf16(at_label);
    else
      reinterpret_cast<float*>(to)[label] = at_label;
  });
}

}  // namespace longhaul::kernel::cpu
