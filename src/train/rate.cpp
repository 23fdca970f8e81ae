// Times a matrix product.
#include "train/rate.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace longhaul::train {

double measure_matmul_rate(Queue& queue, const Ops& ops, DType storage, Index size) {
  const auto bytes = static_cast<std::size_t>(size * size * size_of(storage));
  std::vector<std::byte> a(bytes), b(bytes), c(bytes);
  const MatmulShape shape{size, size, size, storage, storage, false, false, false};
  std::vector<std::byte> scratch(static_cast<std::size_t>(ops.matmul_scratch(shape, queue.team().threads)) + 64);
  const auto view = [&](std::vector<std::byte>& x) { return make_view<2>(x.data(), storage, {size, size}); };
  const Matmul product{view(a), view(b), view(c), false};

  double best = 1e30, spent = 0;
  for (int i = 0; i < 20 && (i < 3 || spent < 0.3); ++i) {
    const double start = now_seconds();
    ops.matmul(queue, product, {scratch.data(), static_cast<Index>(scratch.size())});
    const double seconds = now_seconds() - start;
    if (i > 0) best = std::min(best, seconds);  // the first makes the primitive
    spent += seconds;
  }
  const double n = static_cast<double>(size);
  return 2 * n * n * n / best;
}

}  // namespace longhaul::train
