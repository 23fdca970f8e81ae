// Addition and casts of a stretch of elements.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

template <class From, class To>
void add(const void* from, void* to, Index count) {
  for_lanes(
      count, LONGHAUL_LANES(i, n) { To::put(to, i, n, To::get(to, i, n) + From::get(from, i, n)); });
}

template <class From, class To>
void cast(const void* from, void* to, Index count) {
  for_lanes(
      count, LONGHAUL_LANES(i, n) { To::put(to, i, n, From::get(from, i, n)); });
}

}  // namespace

const ElementRows kElements = {{{add<Fp32, Fp32>, add<Fp32, Bf16>}, {add<Bf16, Fp32>, add<Bf16, Bf16>}},
                               {{cast<Fp32, Fp32>, cast<Fp32, Bf16>}, {cast<Bf16, Fp32>, cast<Bf16, Bf16>}}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
