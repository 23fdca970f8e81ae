// The order of the transformer: what a rank does with its rows, from tokens to gradients.
#include "model/model.h"

namespace longhaul::model {

using spec::ActivationId;
using spec::LayerPolicy;
using spec::ParameterId;

namespace {

template <class F>
void observed(const Model& model, int phase, F&& work) {
  if (model.observer != nullptr) model.observer->begin(phase);
  work();
  if (model.observer != nullptr) model.observer->end(phase);
}

}  // namespace

double run(const Model& model, const Sequence& sequence, double scale, const LogitsVisitor& visit) {
  const int layers = static_cast<int>(model.spec.layers);
  const spec::Phases phases{layers};

  observed(model, phases.embed(), [&] { embed_forward(model, sequence); });
  for (int layer = 0; layer < layers; ++layer)
    observed(model, phases.forward(layer), [&] { block_forward(model, sequence, layer); });
  double loss = 0;
  observed(model, phases.loss(), [&] { loss = head_and_loss(model, sequence, scale, visit); });
  if (!model.trains()) return loss;

  for (int layer = layers - 1; layer >= 0; --layer)
    observed(model, phases.backward(layer), [&] {
      if (model.policy[layer] == LayerPolicy::kRecomputeLayer) block_restore(model, sequence, layer);
      block_backward(model, sequence, layer);
    });
  observed(model, phases.embed_backward(), [&] { embed_backward(model, sequence); });
  return loss;
}

void embed_forward(const Model& model, const Sequence& sequence) {
  const auto& a = model.activations;
  const Index T = sequence.rows;
  model.ops.embedding_forward(model.queue,
                              {a.vector(ActivationId::kTokens, T), model.weight_matrix(ParameterId::kEmbedding),
                               a.matrix(ActivationId::kX, T, 0)});
  model.ops.rope_table(model.queue, {sequence.tokens, model.inverse_frequency, 1.0, a.matrix(ActivationId::kCos, T),
                                     a.matrix(ActivationId::kSin, T)});
}

void embed_backward(const Model& model, const Sequence& sequence) {
  const auto& a = model.activations;
  const Index T = sequence.rows;
  model.ops.embedding_backward(model.queue, {a.vector(ActivationId::kTokens, T), a.matrix(ActivationId::kDX, T),
                                             model.gradient_matrix(ParameterId::kEmbedding)});
}

namespace {

AnyView<1> part_of(const AnyView<1>& flat, const spec::Parameter& p) {
  return flat.slice(0, p.offset, p.count());
}

AnyView<2> matrix_of(const AnyView<1>& flat, const spec::ParameterTable& table, ParameterId first, int layer,
                     int parameters) {
  Index rows = 0;
  const spec::Parameter& p = table.at(first, layer);
  for (int i = 0; i < parameters; ++i) {
    const auto& next = table.at(static_cast<ParameterId>(static_cast<int>(first) + i), layer);
    CHECK(next.columns == p.columns && next.offset == p.offset + rows * p.columns, "%s is not adjacent",
          next.name.c_str());
    rows += next.rows;
  }
  const AnyView<1> part = flat.slice(0, p.offset, rows * p.columns);
  return make_view<2>(part.data, part.dtype, {rows, p.columns}, part.space);
}

}  // namespace

AnyView<1> Model::weight(ParameterId id, int layer) const {
  return part_of(weights, table.at(id, layer));
}
AnyView<1> Model::gradient(ParameterId id, int layer) const {
  return part_of(gradients, table.at(id, layer));
}
AnyView<2> Model::weight_matrix(ParameterId first, int layer, int parameters) const {
  return matrix_of(weights, table, first, layer, parameters);
}
AnyView<2> Model::gradient_matrix(ParameterId first, int layer, int parameters) const {
  return matrix_of(gradients, table, first, layer, parameters);
}
ParameterId Model::head() const {
  return spec.tied ? ParameterId::kEmbedding : ParameterId::kHead;
}

}  // namespace longhaul::model
