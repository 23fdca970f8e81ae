// RMS norm of a row and its gradient.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

template <class S>
float forward(const void* x, const void* w, void* y, Index width, float eps, float offset) {
  Floats squares{};
  for_lanes(
      width, LONGHAUL_LANES(i, n) {
        const Floats a = S::get(x, i, n);
        squares = fma(a, a, squares);
      });
  const float rstd = 1 / __builtin_sqrtf(sum_of(squares) / static_cast<float>(width) + eps);
  for_lanes(
      width, LONGHAUL_LANES(i, n) { S::put(y, i, n, S::get(x, i, n) * rstd * (S::get(w, i, n) + offset)); });
  return rstd;
}

template <class S>
void backward(const void* dy, const void* x, const void* w, float rstd, void* dx, float* dw, Index width,
              float offset) {
  Floats dot{};
  for_lanes(
      width, LONGHAUL_LANES(i, n) {
        const Floats g = S::get(dy, i, n) * (S::get(w, i, n) + offset);
        dot = fma(g, S::get(x, i, n) * rstd, dot);
      });
  const float mean = sum_of(dot) / static_cast<float>(width);
  for_lanes(
      width, LONGHAUL_LANES(i, n) {
        const Floats d = S::get(dy, i, n), normed = S::get(x, i, n) * rstd;
        const Floats g = d * (S::get(w, i, n) + offset);
        S::put(dx, i, n, fma(g - normed * mean, broadcast(rstd), S::get(dx, i, n)));
        Fp32::put(dw, i, n, fma(d, normed, Fp32::get(dw, i, n)));
      });
}

}  // namespace

const NormRows kNorm = {{forward<Fp32>, forward<Bf16>}, {backward<Fp32>, backward<Bf16>}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
