// The ordered list of attention variants. Each says itself what it refuses: the instruction set or the storage type.
#include "kernel/attention_list.h"

#include "kernel/cpu/attention.h"
#include "kernel/ref/attention.h"

namespace longhaul::kernel {

std::span<const AttentionVariant> attention_variants() noexcept {
  static const AttentionVariant list[] = {kAvx512Attention, kAvx2Attention, kBaselineAttention, kReferenceAttention};
  return list;
}

std::span<const AttentionVariant> reference_attention_variants() noexcept {
  return {&kReferenceAttention, 1};
}

}  // namespace longhaul::kernel
