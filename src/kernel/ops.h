// Where tables of ops are made.
#pragma once

#include "contract/ops.h"

namespace longhaul::kernel {

// Plain loops that define every op, for fp32, bf16 and fp64.
const Ops& reference_ops() noexcept;
// The fastest ops of this machine, chosen at run time; falls to the reference op by op (fp64 always does).
const Ops& cpu_ops() noexcept;
// Whether the CPU multiplies bf16 natively (AVX512-BF16, which every CPU with AMX has too): what --dtype auto asks.
bool multiplies_bf16() noexcept;

}  // namespace longhaul::kernel
