// Choices made before anything runs.
#include "train/setup.h"

#include <thread>

#include "base/error.h"
#include "kernel/ops.h"

namespace longhaul::train {

TrainSpec make_train_spec(const spec::RunSpec& run, const spec::ModelSpec& model, const Workload& workload) {
  TrainSpec s;
  s.model = model;
  s.storage = run.dtype == "bf16" ? DType::kBF16 : run.dtype == "fp64" ? DType::kF64 : DType::kF32;
  s.mesh.context =
      std::max<int>(1, run.context_parallel ? run.context_parallel : run.ranks / std::max<int>(1, run.data_parallel));
  s.mesh.data = std::max<int>(1, run.data_parallel);
  s.mesh.ulysses = std::max<int>(1, run.ulysses);
  // strategy::MeshRequest request{static_cast<int>(run.ranks), static_cast<int>(run.data_parallel), 1,
  // static_cast<int>(run.context_parallel), 1, static_cast<int>(run.ulysses), true};
  std::string name = run.strategy == "auto" ? (s.mesh.context == 1 ? "single" : "ring") : run.strategy;
  if (name == "ulysses") s.mesh.ulysses = s.mesh.context;
  s.strategy = strategy::find_strategy(name);
  s.layout = run.layout == "contiguous" ? strategy::LayoutKind::kContiguous
             : run.layout == "striped"  ? strategy::LayoutKind::kStriped
                                        : strategy::LayoutKind::kZigzag;
  s.length = workload.length, s.batch = workload.batch, s.trains = workload.trains;
  s.threads = run.threads > 0 ? run.threads : std::max(1u, std::thread::hardware_concurrency() / s.mesh.ranks());
  s.ops = &kernel::cpu_ops();
  s.policy.assign(model.layers, spec::LayerPolicy::kKeep);
  spec::LocalSizes sizes;
  sizes.rows = (s.length + s.mesh.context - 1) / s.mesh.context + 2;
  sizes.mlp_chunk = 1024, sizes.loss_chunk = 512, sizes.storage = s.storage, sizes.gradients = s.trains;
  sizes.slot_bytes = 64 << 20, sizes.scratch_bytes = 64 << 20;
  AttentionShape shape{s.storage,      sizes.rows,     sizes.rows,    model.q_heads,
                       model.kv_heads, model.head_dim, model.head_dim};
  s.attention = choose_attention(*s.ops, run.kernel, shape, {model.mask, 1.0, 0.0});
  s.activations = spec::activations_of(s.model, sizes, s.policy);
  for (spec::Buffer& b : s.activations) {
    b.offset = s.activation_bytes;
    s.activation_bytes += Arena::align_up(b.bytes());
  }
  s.optimizer.lr = run.lr, s.optimizer.warmup = run.warmup, s.optimizer.min_lr_ratio = run.min_lr_ratio;
  s.optimizer.weight_decay = run.weight_decay, s.optimizer.decay_norms = run.decay_norms;
  s.optimizer.beta1 = run.betas[0], s.optimizer.beta2 = run.betas[1], s.optimizer.eps = run.eps,
  s.optimizer.clip = run.clip;
  s.optimizer.schedule = run.schedule == "cosine"   ? LrSchedule::kCosine
                         : run.schedule == "linear" ? LrSchedule::kLinear
                         : run.schedule == "wsd"    ? LrSchedule::kWsd
                                                    : LrSchedule::kConstant;
  return s;
}

}  // namespace longhaul::train
