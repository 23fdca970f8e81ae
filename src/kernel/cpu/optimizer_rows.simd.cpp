// AdamW on a stretch of a tensor, and its sum of squares in fp64.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

template <bool kWeights>
void update(const AdamWFactors& f, const float* gradient, float* master, float* m, float* v, void* weights,
            Index count) {
  for_lanes(
      count, LONGHAUL_LANES(i, n) {
        const Floats g = Fp32::get(gradient, i, n) * f.scale;
        const Floats mean = fma(Fp32::get(m, i, n), broadcast(f.beta1), g * f.rest1);
        const Floats square = fma(Fp32::get(v, i, n), broadcast(f.beta2), g * g * f.rest2);
        const Floats w = Fp32::get(master, i, n) * f.keep - f.step * (mean / (sqrt(square) * f.root + f.eps));
        Fp32::put(m, i, n, mean);
        Fp32::put(v, i, n, square);
        Fp32::put(master, i, n, w);
        if (kWeights) Bf16::put(weights, i, n, w);
      });
}

void adamw(const AdamWFactors& f, const float* gradient, float* master, float* m, float* v, void* weights,
           Index count) {
  weights != nullptr ? update<true>(f, gradient, master, m, v, weights, count)
                     : update<false>(f, gradient, master, m, v, weights, count);
}

template <class S>
double sum_squares(const void* x, Index count) {
  Doubles low{}, high{};
  for_lanes(
      count, LONGHAUL_LANES(i, n) {
        const DoublePair d = widen(S::get(x, i, n));
        low += d.low * d.low;
        high += d.high * d.high;
      });
  return sum_of(low + high);
}

}  // namespace

const OptimizerRows kOptimizer = {adamw, {sum_squares<Fp32>, sum_squares<Bf16>}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
