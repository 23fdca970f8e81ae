// The attention ops of this build: the ordered list of variants, and the small ops around them.
#pragma once

#include <span>

#include "contract/attention.h"

namespace longhaul::kernel {

// Best first, the reference last. The order and every refusal stand in attention_list.cpp.
std::span<const AttentionVariant> attention_variants() noexcept;
// Only the reference: plain loops for fp32, bf16 and fp64.
std::span<const AttentionVariant> reference_attention_variants() noexcept;

void attention_finish(Queue& queue, const AttentionFinish& a) noexcept;
void attention_delta(Queue& queue, const AttentionDelta& a) noexcept;
void reference_attention_delta(Queue& queue, const AttentionDelta& a) noexcept;
void check_delta(const AttentionDelta& a) noexcept;  // CHECKs shapes and types
void attention_sink_gradient(Queue& queue, const AttentionSinkGradient& a) noexcept;

}  // namespace longhaul::kernel
