// Gated activations over rows.
#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {

void gated_forward(Queue& queue, const GatedForward& a, const GatedRows& kernels) noexcept {
  AnyView<2> gate = a.gate_TF, up = a.up_TF, h = a.h_TF;
  if (!is_fp32_or_bf16(gate.dtype) || !is_row_major(gate) || !is_row_major(up) || !is_row_major(h))
    return ref::gated_forward(queue, a);
  check_shapes(a);
  join_rows(gate, up, h);
  const auto kernel = kernels.forward[storage_index(gate.dtype)];
  const bool gelu = a.activation == Activation::kGeluTanh;
  for_pieces(queue, h.extent[0], h.extent[1], [&](Index row, Index begin, Index count) {
    kernel(gelu, address(gate, row * gate.stride[0] + begin), address(up, row * up.stride[0] + begin),
           address(h, row * h.stride[0] + begin), count);
  });
}

void gated_backward(Queue& queue, const GatedBackward& a, const GatedRows& kernels) noexcept {
  AnyView<2> gate = a.gate_TF, up = a.up_TF, dh = a.dh_TF, dgate = a.dgate_TF, dup = a.dup_TF;
  if (!is_fp32_or_bf16(gate.dtype) || !is_row_major(gate) || !is_row_major(up) || !is_row_major(dh) ||
      !is_row_major(dgate) || !is_row_major(dup))
    return ref::gated_backward(queue, a);
  check_shapes(a);
  join_rows(gate, up, dh, dgate, dup);
  const auto kernel = kernels.backward[storage_index(gate.dtype)];
  const bool gelu = a.activation == Activation::kGeluTanh;
  for_pieces(queue, dh.extent[0], dh.extent[1], [&](Index row, Index begin, Index count) {
    kernel(gelu, address(gate, row * gate.stride[0] + begin), address(up, row * up.stride[0] + begin),
           address(dh, row * dh.stride[0] + begin), address(dgate, row * dgate.stride[0] + begin),
           address(dup, row * dup.stride[0] + begin), count);
  });
}

}  // namespace longhaul::kernel::cpu
