// AdamW and the sum of squares over stretches of a tensor.
#include <cmath>
#include <cstring>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {
namespace {

constexpr Index kBlocks = 64;  // a constant, so that the sum does not depend on the threads

}  // namespace

void adamw(Queue& queue, const AdamW& a, const OptimizerRows& kernels) noexcept {
  bool taken = a.master.dtype == DType::kF32;
  for (const AnyView<1>* v : {&a.master, &a.gradient, &a.m, &a.v, &a.weights}) taken = taken && is_row_major(*v);
  if (!taken) return ref::adamw(queue, a);
  check_shapes(a);
  const AdamWFactors factors{static_cast<float>(1 - a.learning_rate * a.decay),
                             static_cast<float>(a.gradient_scale),
                             static_cast<float>(a.beta1),
                             static_cast<float>(1 - a.beta1),
                             static_cast<float>(a.beta2),
                             static_cast<float>(1 - a.beta2),
                             static_cast<float>(a.learning_rate / a.correction1),
                             static_cast<float>(1 / std::sqrt(a.correction2)),
                             static_cast<float>(a.eps)};
  const auto gradient = a.gradient.as<const float>();
  const auto master = a.master.as<float>(), m = a.m.as<float>(), v = a.v.as<float>();
  for_pieces(queue, 1, a.master.extent[0], [&](Index, Index begin, Index count) {
    const bool narrow = a.weights && a.weights.dtype == DType::kBF16;
    kernels.adamw(factors, gradient.data + begin, master.data + begin, m.data + begin, v.data + begin,
                  narrow ? address(a.weights, begin) : nullptr, count);
    if (a.weights && !narrow) std::memcpy(address(a.weights, begin), master.data + begin, count * sizeof(float));
  });
}

double sum_squares(Queue& queue, const AnyView<1>& x, const OptimizerRows& kernels) noexcept {
  if (!is_fp32_or_bf16(x.dtype) || !is_row_major(x)) return ref::sum_squares(queue, x);
  double sums[kBlocks];
  const Index count = x.extent[0];
  parallel_for(team_for(queue, count), kBlocks, [&](Index block, int) {
    const Index begin = count * block / kBlocks, end = count * (block + 1) / kBlocks;
    sums[block] = kernels.sum_squares[storage_index(x.dtype)](address(x, begin), end - begin);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace longhaul::kernel::cpu
