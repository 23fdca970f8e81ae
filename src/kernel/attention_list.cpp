// The ordered list of attention variants.
#include "kernel/attention_list.h"

#include "kernel/ref/attention.h"

namespace longhaul::kernel {

std::span<const AttentionVariant> reference_attention_variants() noexcept {
  return {&kReferenceAttention, 1};
}

std::span<const AttentionVariant> attention_variants() noexcept {
  return reference_attention_variants();
}

}  // namespace longhaul::kernel
