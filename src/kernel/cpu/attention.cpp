// Binds the drivers of attention to each instruction set's kernels.
#include "kernel/cpu/attention.h"

#include "kernel/cpu/attention_driver.h"
#include "kernel/cpu/isa.h"

namespace longhaul::kernel {
namespace {

template <Isa kIsa, const AttentionKernels& kKernels>
constexpr AttentionVariant variant(const char* name) {
  return {name,
          [](const AttentionShape& s, const AttentionParams&) noexcept -> const char* {
            if (const char* reason = isa_refuses(kIsa)) return reason;
            return s.storage == DType::kF64 ? "only the reference computes in fp64" : nullptr;
          },
          [](const AttentionShape& s, int threads) noexcept {
            return std::max(forward_scratch_bytes(kKernels, s, threads), backward_scratch_bytes(kKernels, s, threads));
          },
          forward_tile_count,
          backward_tile_count,
          [](Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
            forward_tiles(kKernels, queue, a, begin, end, scratch);
          },
          [](Queue& queue, const AttentionBackward& a, Index begin, Index end, Bytes scratch) noexcept {
            backward_tiles(kKernels, queue, a, begin, end, scratch);
          }};
}

}  // namespace

#if defined(__x86_64__)
constinit const AttentionVariant kAvx512Attention = variant<Isa::kAvx512, avx512::kAttention>("avx512");
constinit const AttentionVariant kAvx2Attention = variant<Isa::kAvx2, avx2::kAttention>("avx2");
#else  // refused by isa_refuses
constinit const AttentionVariant kAvx512Attention = variant<Isa::kAvx512, baseline::kAttention>("avx512");
constinit const AttentionVariant kAvx2Attention = variant<Isa::kAvx2, baseline::kAttention>("avx2");
#endif
constinit const AttentionVariant kBaselineAttention = variant<Isa::kBaseline, baseline::kAttention>("baseline");

const AttentionKernels& best_attention_kernels() noexcept {
#if defined(__x86_64__)
  if (isa_refuses(Isa::kAvx512) == nullptr) return avx512::kAttention;
  if (isa_refuses(Isa::kAvx2) == nullptr) return avx2::kAttention;
#endif
  return baseline::kAttention;
}

}  // namespace longhaul::kernel
