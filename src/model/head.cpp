// The end of the transformer: final norm, output matrix and cross-entropy, a chunk of rows at a time, so that neither
// logits nor their gradient ever exist whole.
#include <algorithm>

#include "model/model.h"

namespace longhaul::model {

using spec::ActivationId;
using spec::ParameterId;

double head_and_loss(const Model& model, const Sequence& sequence, double scale, const LogitsVisitor& visit) {
  const auto& a = model.activations;
  const auto& ops = model.ops;
  Queue& queue = model.queue;
  const Index T = sequence.rows, layers = model.spec.layers;
  const Bytes scratch = a.bytes(ActivationId::kScratch);
  const AnyView<2> x = a.matrix(ActivationId::kX, T, static_cast<int>(layers)),
                   normed = a.matrix(ActivationId::kNorm, T);
  const AnyView<1> rstd = a.vector(ActivationId::kRstd, T), losses = a.vector(ActivationId::kLoss, T);
  const AnyView<1> labels = a.vector(ActivationId::kLabels, T), norm_weight = model.weight(ParameterId::kFinalNorm);
  const AnyView<2> w_VE = model.weight_matrix(model.head());
  const Bytes logits_bytes = a.bytes(ActivationId::kLogits);
  const Index Z = logits_bytes.size / (model.spec.vocabulary * size_of(accumulator_of(model.weights.dtype)));

  ops.rms_norm_forward(queue, {x, norm_weight, model.spec.norm_eps, 0.0, normed, rstd});
  for (Index first = 0; first < T; first += Z) {
    const Index rows = std::min(Z, T - first);
    const AnyView<2> normed_z = normed.slice(0, first, rows), logits = a.matrix(ActivationId::kLogits, rows);
    // Where storage and accumulator are one type the gradient takes the logits' own place.
    AnyView<2> dlogits;
    if (model.trains()) dlogits = a.has(ActivationId::kDLogits) ? a.matrix(ActivationId::kDLogits, rows) : logits;

    ops.matmul(queue, {normed_z, transpose(w_VE), logits, false}, scratch);
    if (visit) visit(first, logits);
    ops.cross_entropy(queue, {logits, labels.slice(0, first, rows), scale, losses.slice(0, first, rows), dlogits});
    if (!model.trains()) continue;
    ops.matmul(queue, {transpose(dlogits), normed_z, model.gradient_matrix(model.head()), true}, scratch);
    ops.matmul(queue, {dlogits, w_VE, a.matrix(ActivationId::kDNorm, T).slice(0, first, rows), false}, scratch);
  }
  if (model.trains()) {
    const AnyView<2> dx = a.matrix(ActivationId::kDX, T);
    ops.fill(queue, split_heads(dx, 1), 0.0);
    ops.rms_norm_backward(
        queue,
        {a.matrix(ActivationId::kDNorm, T), x, norm_weight, rstd, 0.0, dx, model.gradient(ParameterId::kFinalNorm)},
        scratch);
  }

  double sum = 0;  // in row order
  for (Index i = 0; i < T; ++i)
    sum += losses.dtype == DType::kF64 ? losses.as<const double>()(i) : losses.as<const float>()(i);
  return sum;
}

}  // namespace longhaul::model
