// AdamW over all parameters, and the learning rate of a step.
#pragma once

#include <string>

#include "contract/ops.h"
#include "spec/tensor_table.h"

namespace longhaul::train {

enum class LrSchedule : std::uint8_t { kCosine, kLinear, kWsd, kConstant };

struct OptimizerSpec {
  double lr = 1e-3;
  Index warmup = 0;  // steps of linear rise: lr * step / warmup
  LrSchedule schedule = LrSchedule::kCosine;
  double min_lr_ratio = 0.1;  // of lr, reached at the last step
  double weight_decay = 0.1;
  bool decay_norms = false;  // also decays norms and the embedding
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double clip = 1.0;  // of the global norm; 0: none
};

// Steps count from 1. wsd (warm-up, stable, decay): linear decay over the last fifth of the steps.
double learning_rate(const OptimizerSpec& spec, Index step, Index steps);

// All flat, in the order of the parameter table.
struct OptimizerState {
  AnyView<1> master;    // fp32 (fp64 for the oracle)
  AnyView<1> gradient;  // summed over ranks
  AnyView<1> m, v;
  AnyView<1> weights;  // storage type; a null view when the model reads master itself
};

// sqrt of the sum of squares over all gradients.
double global_norm(Queue& queue, const Ops& ops, const OptimizerState& state);
// g is multiplied by min(1, clip / (norm + 1e-6)) on the way.
void update(Queue& queue, const Ops& ops, const spec::ParameterTable& table, const OptimizerSpec& spec,
            const OptimizerState& state, Index step, double lr, double norm);

}  // namespace longhaul::train
