// Rotary position embedding of all heads of a row.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

template <class X, class Y>
void rotate(const RopeRow& r) {
  for (Index head = 0; head < r.heads; ++head) {
    const Index from = head * r.x_apart, to = head * r.y_apart;
    for_lanes(
        r.half, LONGHAUL_LANES(i, n) {
          const Floats first = X::get(r.x, from + i, n), second = X::get(r.x, from + r.half + i, n);
          const Floats c = Fp32::get(r.cos, i, n), s = Fp32::get(r.sin, i, n) * r.sign;
          Y::put(r.y, to + i, n, fma(first, c, -(second * s)));
          Y::put(r.y, to + r.half + i, n, fma(second, c, first * s));
        });
    const Index turned = 2 * r.half;
    if (r.x == r.y) continue;
    for_lanes(
        r.width - turned, LONGHAUL_LANES(i, n) { Y::put(r.y, to + turned + i, n, X::get(r.x, from + turned + i, n)); });
  }
}

}  // namespace

const RopeRows kRope = {{rotate<Fp32, Fp32>, rotate<Bf16, Bf16>, rotate<Fp32, Bf16>}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
