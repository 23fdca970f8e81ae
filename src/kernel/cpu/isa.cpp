// Asks the processor (and the operating system's support of its registers) for instruction sets.
#include "kernel/cpu/isa.h"

#include "kernel/ops.h"

namespace longhaul::kernel {

const char* isa_refuses(Isa isa) noexcept {
  if (isa == Isa::kBaseline) return nullptr;
#if defined(__x86_64__)
  if (isa == Isa::kAvx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? nullptr : "this CPU has no AVX2 with FMA";
  const bool all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return all ? nullptr : "this CPU has no AVX-512 F, BW, DQ and VL";
#else
  return "this is not an x86-64 build";
#endif
}

const char* name_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

bool multiplies_bf16() noexcept {
#if defined(__x86_64__)
  return isa_refuses(Isa::kAvx512) == nullptr && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace longhaul::kernel
