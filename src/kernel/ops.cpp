// The two tables of ops: the reference, and the fastest of this machine.
#include "kernel/ops.h"

#include "kernel/attention_list.h"
#include "kernel/cpu/cpu_ops.h"
#include "kernel/ref/ref.h"

namespace longhaul::kernel {
namespace {

Ops make_reference() noexcept {
  Ops t{};
  t.name = "reference";
  t.matmul_scratch = ref::matmul_scratch;
  t.matmul = ref::matmul;
  t.rms_norm_forward = ref::rms_norm_forward;
  t.rms_norm_backward_scratch = ref::rms_norm_backward_scratch;
  t.rms_norm_backward = ref::rms_norm_backward;
  t.rope_table = ref::rope_table;
  t.rope = ref::rope;
  t.gated_forward = ref::gated_forward;
  t.gated_backward = ref::gated_backward;
  t.embedding_forward = ref::embedding_forward;
  t.embedding_backward = ref::embedding_backward;
  t.cross_entropy = ref::cross_entropy;
  t.adamw = ref::adamw;
  t.sum_squares = ref::sum_squares;
  t.add = ref::add;
  t.copy = ref::copy;
  t.fill = ref::fill;
  t.attention = reference_attention_variants();
  t.attention_finish = attention_finish;
  t.attention_delta = reference_attention_delta;
  t.attention_sink_gradient = attention_sink_gradient;
  return t;
}

}  // namespace

const Ops& reference_ops() noexcept {
  static const Ops table = make_reference();
  return table;
}

const Ops& cpu_ops() noexcept {
  return cpu_ops_of(best_isa());
}

}  // namespace longhaul::kernel
