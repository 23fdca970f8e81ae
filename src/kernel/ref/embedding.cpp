// Reference embedding: rows of the table by token, and the sum of their gradients.
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {

void embedding_forward(Queue& queue, const EmbeddingForward& a) noexcept {
  check_shapes(a);
  with_storage(a.table_VE.dtype, [&]<class S>(S) {
    const auto tokens = a.tokens_T.as<const std::int32_t>();
    const auto table = a.table_VE.as<const S>();
    const auto x = a.x_TE.as<S>();
    parallel_for(queue.team(), x.extent[0], [&](Index t, int) {
      for (Index e = 0; e < x.extent[1]; ++e) x(t, e) = table(tokens(t), e);
    });
  });
}

// Threads divide the columns, so that rows of equal tokens are added in row order.
void embedding_backward(Queue& queue, const EmbeddingBackward& a) noexcept {
  check_shapes(a);
  with_storage(a.dx_TE.dtype, [&]<class S>(S) {
    using A = Accumulator<S>;
    const auto tokens = a.tokens_T.as<const std::int32_t>();
    const auto dx = a.dx_TE.as<const S>();
    const auto dtable = a.dtable_VE.as<A>();
    parallel_ranges(queue.team(), dx.extent[1], [&](Index begin, Index end, int) {
      for (Index t = 0; t < dx.extent[0]; ++t)
        for (Index e = begin; e < end; ++e) dtable(tokens(t), e) += static_cast<A>(dx(t, e));
    });
  });
}

}  // namespace longhaul::kernel::ref
