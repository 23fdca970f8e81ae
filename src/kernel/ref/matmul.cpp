// Reference matrix product: each element is summed over k in order.
#include <algorithm>

#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::ref {
namespace {

constexpr Index kColumns = 64;  // elements of a row of c that are summed together, so that b is read along its rows

template <class In, class Out>
void multiply(Queue& queue, const Matmul& x) {
  using A = Accumulator<In>;
  const auto a = x.a_MK.as<const In>(), b = x.b_KN.as<const In>();
  const auto c = x.c_MN.as<Out>();
  const Index rows = c.extent[0], depth = a.extent[1], columns = c.extent[1];
  const Index parts = (columns + kColumns - 1) / kColumns;
  parallel_for(queue.team(), rows * parts, [&](Index part, int) {
    const Index m = part / parts, begin = part % parts * kColumns, width = std::min(kColumns, columns - begin);
    A sum[kColumns] = {};
    for (Index k = 0; k < depth; ++k) {
      const A left = static_cast<A>(a(m, k));
      for (Index n = 0; n < width; ++n) sum[n] += left * static_cast<A>(b(k, begin + n));
    }
    for (Index n = 0; n < width; ++n) {
      Out& to = c(m, begin + n);
      to = static_cast<Out>(x.accumulate ? static_cast<A>(to) + sum[n] : sum[n]);
    }
  });
}

}  // namespace

Index matmul_scratch(const MatmulShape&, int) noexcept {
  return 0;
}

void matmul(Queue& queue, const Matmul& a, Bytes) noexcept {
  check_shapes(a);
  with_storage(a.a_MK.dtype, [&]<class In>(In) {
    if (a.c_MN.dtype == a.a_MK.dtype)
      multiply<In, In>(queue, a);
    else
      multiply<In, Accumulator<In>>(queue, a);
  });
}

}  // namespace longhaul::kernel::ref
