// The training step, top to bottom, in execution order.
#include "train/step.h"

#include "base/hash.h"
#include "exec/reduce.h"

namespace longhaul::train {

StepResult train_step(Trainer& t, const Batches& batches, Index step, Index steps) {
  const TrainSpec& spec = t.spec;
  const Ops& ops = *spec.ops;
  comm::Group& everyone = t.world.all();
  set_check_context(t.rank, step);

  // 1. The global batch is the same for every mesh. A data rank takes a contiguous share of its sequences (perhaps
  //    none); the context ranks of one data rank share each sequence.
  const Index first = spec.batch * t.data_index / spec.mesh.data;
  const Index last = spec.batch * (t.data_index + 1) / spec.mesh.data;

  // 2. The loss is a sum over a sum, both global, so the number of valid targets comes before any gradient.
  double valid = 0;
  for (Index b = first; b < last && t.context_index == 0; ++b) {
    batches.fill(step - 1, b, t.row);
    for (std::int32_t label : t.row.labels) valid += label >= 0;
  }
  exec::sum_over(t.queue, everyone, {&valid, 1});
  const double scale = valid > 0 ? 1 / valid : 0;

  // 3. Forward and backward of each sequence; gradients add up, weighted by the global count.
  double sums[2] = {0, 0};  // losses, visible pairs
  ops.fill(t.queue, as_3d(t.state.gradient), 0.0);
  for (Index b = first; b < last; ++b) {
    batches.fill(step - 1, b, t.row);
    t.load(t.row);
    sums[0] += t.run_loaded(scale, true);
    sums[1] += t.sequence.visible_pairs();
  }

  // 4. Sums over ranks, in rank order: the loss in fp64, the gradients in fp32.
  exec::sum_over(t.queue, everyone, sums);
  exec::sum_over(t.queue, ops, everyone, t.state.gradient, t.activations.bytes(spec::ActivationId::kScratch));

  // 5. One norm over all parameters, clipping, AdamW. Weights are replicated, so every rank does the same.
  StepResult result;
  result.loss = sums[0] * scale;
  result.visible_pairs = sums[1];
  result.tokens = static_cast<Index>(valid);
  result.lr = learning_rate(spec.optimizer, step, steps);
  result.grad_norm = global_norm(t.queue, ops, t.state);
  update(t.queue, ops, t.table, spec.optimizer, t.state, step, result.lr, result.grad_norm);
  return result;
}

}  // namespace longhaul::train
