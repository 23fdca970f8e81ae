// Embedding: copies of rows, and their gradients added up.
#include <cstring>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {

void embedding_forward(Queue& queue, const EmbeddingForward& a) noexcept {
  if (!is_row_major(a.table_VE) || !is_row_major(a.x_TE)) return ref::embedding_forward(queue, a);
  check_shapes(a);
  const auto tokens = a.tokens_T.as<const std::int32_t>();
  const Index rows = a.x_TE.extent[0], width = a.x_TE.extent[1];
  parallel_for(team_for(queue, rows * width), rows, [&](Index t, int) {
    std::memcpy(address(a.x_TE, t * a.x_TE.stride[0]), address(a.table_VE, tokens(t) * a.table_VE.stride[0]),
                width * size_of(a.x_TE.dtype));
  });
}

// Threads divide the columns, so that rows of equal tokens are added in row order; in whole cache lines, so that
// threads share none.
void embedding_backward(Queue& queue, const EmbeddingBackward& a, const ElementRows& kernels) noexcept {
  if (!is_fp32_or_bf16(a.dx_TE.dtype) || !is_row_major(a.dx_TE) || !is_row_major(a.dtable_VE))
    return ref::embedding_backward(queue, a);
  check_shapes(a);
  constexpr Index kLine = 16;
  const auto tokens = a.tokens_T.as<const std::int32_t>();
  const auto kernel = kernels.add[storage_index(a.dx_TE.dtype)][0];
  const Index rows = a.dx_TE.extent[0], width = a.dx_TE.extent[1], lines = (width + kLine - 1) / kLine;
  parallel_ranges(team_for(queue, rows * width), lines, [&](Index first, Index last, int) {
    const Index begin = first * kLine, count = std::min(last * kLine, width) - begin;
    for (Index t = 0; count > 0 && t < rows; ++t)
      kernel(address(a.dx_TE, t * a.dx_TE.stride[0] + begin),
             address(a.dtable_VE, tokens(t) * a.dtable_VE.stride[0] + begin), count);
  });
}

}  // namespace longhaul::kernel::cpu
