// Attention on the CPU's vector instructions: one variant an instruction set.
#pragma once

#include "contract/attention.h"

namespace longhaul::kernel {

// fp32 and bf16 storage, every mask, head layout and width; all arithmetic is fp32.
extern const AttentionVariant kAvx512Attention, kAvx2Attention, kBaselineAttention;

// Of the best instruction set that this machine has.
struct AttentionKernels;
const AttentionKernels& best_attention_kernels() noexcept;

}  // namespace longhaul::kernel
