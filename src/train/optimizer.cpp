// AdamW as in torch.optim.AdamW: decay on matrices except the embedding unless asked, one global norm.
#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul::train {

double learning_rate(const OptimizerSpec& spec, Index step, Index steps) {
  if (step <= spec.warmup) return spec.lr * static_cast<double>(step) / static_cast<double>(spec.warmup);
  const double left = static_cast<double>(std::max<Index>(steps - spec.warmup, 1));
  const double done = std::min(1.0, static_cast<double>(step - spec.warmup) / left);  // 0 .. 1 after the warm-up
  const double low = spec.min_lr_ratio;
  switch (spec.schedule) {
    case LrSchedule::kCosine:
      return spec.lr * (low + (1 - low) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    case LrSchedule::kLinear:
      return spec.lr * (1 - (1 - low) * done);
    case LrSchedule::kWsd:
      return spec.lr * (1 - (1 - low) * std::max(0.0, (done - 0.8) / 0.2));
    case LrSchedule::kConstant:
      return spec.lr;
  }
  return spec.lr;
}

double global_norm(Queue& queue, const Ops& ops, const OptimizerState& state) {
  return std::sqrt(ops.sum_squares(queue, state.gradient));
}

void update(Queue& queue, const Ops& ops, const spec::ParameterTable& table, const OptimizerSpec& spec,
            const OptimizerState& state, Index step, double lr, double norm) {
  AdamW call;
  call.learning_rate = lr, call.beta1 = spec.beta1, call.beta2 = spec.beta2, call.eps = spec.eps;
  call.gradient_scale = spec.clip > 0 ? std::min(1.0, spec.clip / (norm + 1e-6)) : 1.0;
  call.correction1 = 1 - std::pow(spec.beta1, static_cast<double>(step));
  call.correction2 = 1 - std::pow(spec.beta2, static_cast<double>(step));
  // Neighbours that decay alike are one call.
  for (std::size_t i = 0; i < table.rows.size();) {
    const bool decays = table.rows[i].decays || spec.decay_norms;
    const Index first = table.rows[i].offset;
    Index count = 0;
    for (; i < table.rows.size() && (table.rows[i].decays || spec.decay_norms) == decays; ++i)
      count += table.rows[i].count();
    const auto part = [&](const AnyView<1>& flat) { return flat ? flat.slice(0, first, count) : flat; };
    call.decay = decays ? spec.weight_decay : 0;
    call.master = part(state.master), call.gradient = part(state.gradient);
    call.m = part(state.m), call.v = part(state.v), call.weights = part(state.weights);
    ops.adamw(queue, call);
  }
}

}  // namespace longhaul::train
