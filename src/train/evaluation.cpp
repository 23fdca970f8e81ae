// Runs rows without gradients and sums their losses, in all and by position in the document.
#include "train/evaluation.h"

#include <algorithm>
#include <bit>

#include "exec/reduce.h"

namespace longhaul::train {

Evaluation evaluate(Trainer& t, const Batches& batches, Index rows,
                    const std::function<void(Index done, Index all)>& on_row) {
  using spec::ActivationId;
  const Index first = rows * t.data_index / t.spec.mesh.data, last = rows * (t.data_index + 1) / t.spec.mesh.data;
  Evaluation e;
  for (Index b = first; b < last; ++b) {
    batches.fill(0, b, t.row);
    t.load(t.row);
    e.loss_sum += t.run_loaded(0, false);

    const Index own = t.sequence.rows();
    const AnyView<1> losses = t.activations.vector(ActivationId::kLoss, own);
    const auto labels = t.activations.vector(ActivationId::kLabels, own).as<const std::int32_t>();
    for (Index i = 0; i < own; ++i) {
      if (labels(i) < 0) continue;
      const auto position = static_cast<std::uint64_t>(t.sequence.own_tokens()[i].position) + 1;
      const int bucket = std::min(static_cast<int>(std::bit_width(position)) - 1, Evaluation::kBuckets - 1);
      e.bucket_loss[bucket] += losses.dtype == DType::kF64 ? losses.as<const double>()(i) : losses.as<const float>()(i);
      e.bucket_tokens[bucket] += 1;
      e.tokens += 1;
    }
    if (on_row) on_row(b + 1 - first, last - first);
  }
  double totals[2] = {e.loss_sum, e.tokens};
  exec::sum_over(t.queue, t.world.all(), totals);
  exec::sum_over(t.queue, t.world.all(), e.bucket_loss);
  exec::sum_over(t.queue, t.world.all(), e.bucket_tokens);
  e.loss_sum = totals[0], e.tokens = totals[1];
  return e;
}

}  // namespace longhaul::train
