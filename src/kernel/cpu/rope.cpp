// Rotary position embedding over rows.
#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {

void rope(Queue& queue, const Rope& a, const RopeRows& kernels) noexcept {
  const DType from = a.x_TND.dtype, to = a.y_TND.dtype;
  if (!is_fp32_or_bf16(from) || !is_fp32_or_bf16(to) || !is_row_major(a.x_TND) || !is_row_major(a.y_TND) ||
      !is_row_major(a.cos_TD) || !is_row_major(a.sin_TD))
    return ref::rope(queue, a);
  check_shapes(a);
  const auto kernel = kernels.rotate[from == to ? storage_index(to) : 2];
  const Index rows = a.x_TND.extent[0], heads = a.x_TND.extent[1], width = a.x_TND.extent[2];
  parallel_for(team_for(queue, rows * heads * width), rows, [&](Index t, int) {
    kernel({address(a.x_TND, t * a.x_TND.stride[0]), address(a.y_TND, t * a.y_TND.stride[0]),
            a.cos_TD.as<const float>().data + t * a.cos_TD.stride[0],
            a.sin_TD.as<const float>().data + t * a.sin_TD.stride[0], heads, a.x_TND.stride[1], a.y_TND.stride[1],
            width, a.cos_TD.extent[1], a.inverse ? -1.0f : 1.0f});
  });
}

}  // namespace longhaul::kernel::cpu
