// Gated activations of a stretch of elements and their gradients; the formulas are those of ref/gated.cpp.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

struct ValueAndSlope {
  Floats value, slope;
};

struct Silu {
  LONGHAUL_INLINE ValueAndSlope of(Floats x) {
    const Floats sigmoid = 1.f / (1.f + exp(-x));
    return {x * sigmoid, sigmoid * (1.f + x * (1.f - sigmoid))};
  }
};

struct GeluTanh {
  LONGHAUL_INLINE ValueAndSlope of(Floats x) {
    const Floats limit = broadcast(-32.f);
    const Floats z = -max(limit, -max(limit, x));  // NaN passes
    const Floats square = z * z;
    const Floats phi = 1.f / (1.f + exp(-1.5957691216057308f * (z + 0.044715f * square * z)));
    const Floats inner = 1.5957691216057308f * (1.f + 0.134145f * square);
    return {x * phi, phi * (1.f + z * (1.f - phi) * inner)};
  }
};

template <class S, class Activation>
void forward_of(const void* gate, const void* up, void* h, Index count) {
  for_lanes(
      count, LONGHAUL_LANES(i, n) { S::put(h, i, n, Activation::of(S::get(gate, i, n)).value * S::get(up, i, n)); });
}

template <class S, class Activation>
void backward_of(const void* gate, const void* up, const void* dh, void* dgate, void* dup, Index count) {
  for_lanes(
      count, LONGHAUL_LANES(i, n) {
        const Floats d = S::get(dh, i, n), u = S::get(up, i, n);
        const ValueAndSlope a = Activation::of(S::get(gate, i, n));
        S::put(dgate, i, n, d * u * a.slope);
        S::put(dup, i, n, d * a.value);
      });
}

template <class S>
void forward(bool gelu, const void* gate, const void* up, void* h, Index count) {
  gelu ? forward_of<S, GeluTanh>(gate, up, h, count) : forward_of<S, Silu>(gate, up, h, count);
}

template <class S>
void backward(bool gelu, const void* gate, const void* up, const void* dh, void* dgate, void* dup, Index count) {
  gelu ? backward_of<S, GeluTanh>(gate, up, dh, dgate, dup, count)
       : backward_of<S, Silu>(gate, up, dh, dgate, dup, count);
}

}  // namespace

const GatedRows kGated = {{forward<Fp32>, forward<Bf16>}, {backward<Fp32>, backward<Bf16>}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
