// The tables of ops, one an instruction set.
#include "kernel/cpu/cpu_ops.h"

#include "kernel/attention_list.h"
#include "kernel/cpu/matmul.h"
#include "kernel/ref/ref.h"

namespace longhaul::kernel {
namespace {

// An op of the table is a plain function: these bind it to the kernels of an instruction set.
template <Isa isa>
Ops make_ops() noexcept {
  Ops t{};
  t.name = name_of(isa);
  t.matmul_scratch = cpu::matmul_scratch;
  t.matmul = cpu::matmul;
  t.rms_norm_forward = [](Queue& q, const RmsNormForward& a) noexcept {
    cpu::rms_norm_forward(q, a, rows_of(isa).norm);
  };
  t.rms_norm_backward_scratch = cpu::rms_norm_backward_scratch;
  t.rms_norm_backward = [](Queue& q, const RmsNormBackward& a, Bytes scratch) noexcept {
    cpu::rms_norm_backward(q, a, scratch, rows_of(isa).norm);
  };
  t.rope_table = ref::rope_table;  // once a sequence, in fp64
  t.rope = [](Queue& q, const Rope& a) noexcept { cpu::rope(q, a, rows_of(isa).rope); };
  t.gated_forward = [](Queue& q, const GatedForward& a) noexcept { cpu::gated_forward(q, a, rows_of(isa).gated); };
  t.gated_backward = [](Queue& q, const GatedBackward& a) noexcept { cpu::gated_backward(q, a, rows_of(isa).gated); };
  t.embedding_forward = cpu::embedding_forward;
  t.embedding_backward = [](Queue& q, const EmbeddingBackward& a) noexcept {
    cpu::embedding_backward(q, a, rows_of(isa).elements);
  };
  t.cross_entropy = [](Queue& q, const CrossEntropy& a) noexcept { cpu::cross_entropy(q, a, rows_of(isa).loss); };
  t.adamw = [](Queue& q, const AdamW& a) noexcept { cpu::adamw(q, a, rows_of(isa).optimizer); };
  t.sum_squares = [](Queue& q, const AnyView<1>& x) noexcept { return cpu::sum_squares(q, x, rows_of(isa).optimizer); };
  t.add = [](Queue& q, const AnyView<2>& from, const AnyView<2>& to) noexcept {
    cpu::add(q, from, to, rows_of(isa).elements);
  };
  t.copy = [](Queue& q, const AnyView<3>& from, const AnyView<3>& to) noexcept {
    cpu::copy(q, from, to, rows_of(isa).elements);
  };
  t.fill = cpu::fill;
  t.attention = attention_variants();
  t.attention_finish = attention_finish;
  t.attention_delta = attention_delta;
  t.attention_sink_gradient = attention_sink_gradient;
  return t;
}

}  // namespace

const RowKernels& rows_of(Isa isa) noexcept {
  static constexpr RowKernels kBaseline{baseline::kNorm, baseline::kRope,      baseline::kGated,
                                        baseline::kLoss, baseline::kOptimizer, baseline::kElements};
#if defined(__x86_64__)
  static constexpr RowKernels kAvx2{avx2::kNorm, avx2::kRope,      avx2::kGated,
                                    avx2::kLoss, avx2::kOptimizer, avx2::kElements};
  static constexpr RowKernels kAvx512{avx512::kNorm, avx512::kRope,      avx512::kGated,
                                      avx512::kLoss, avx512::kOptimizer, avx512::kElements};
  if (isa == Isa::kAvx512) return kAvx512;
  if (isa == Isa::kAvx2) return kAvx2;
#endif
  CHECK(isa == Isa::kBaseline, "this build has no %s", name_of(isa));
  return kBaseline;
}

Isa best_isa() noexcept {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2})
    if (isa_refuses(isa) == nullptr) return isa;
  return Isa::kBaseline;
}

const Ops& cpu_ops_of(Isa isa) noexcept {
  static const Ops kBaseline = make_ops<Isa::kBaseline>();
  static const Ops kAvx2 = make_ops<Isa::kAvx2>();
  static const Ops kAvx512 = make_ops<Isa::kAvx512>();
  return isa == Isa::kAvx512 ? kAvx512 : isa == Isa::kAvx2 ? kAvx2 : kBaseline;
}

}  // namespace longhaul::kernel
