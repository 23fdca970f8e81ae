// The transformer on one rank's rows of one sequence: forward and backward, layer by layer.
//
// Shape legend: T rows of this rank, E hidden, N query heads, G KV heads, D head width, R = (N + 2G) D, F feed-forward
// width, V vocabulary. Weights are Hugging Face's [out, in] matrices. A gradient takes `d`.
#pragma once

#include <functional>

#include "contract/ops.h"
#include "exec/attention.h"
#include "model/activations.h"

namespace longhaul::model {

// Told when a phase of spec::Phases begins and ends: for debug runs that hold the memory plan against what happens.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void begin(int phase) = 0;
  virtual void end(int phase) = 0;
};

// What stays the same from step to step.
struct Model {
  const spec::ModelSpec& spec;
  const spec::ParameterTable& table;
  AnyView<1> weights;    // all parameters, storage type, in the order of `table`
  AnyView<1> gradients;  // the same in the accumulator type; a null view when only losses are wanted
  const Activations& activations;
  const std::vector<spec::LayerPolicy>& policy;  // by layer
  std::span<const double> inverse_frequency;     // D/2
  Queue& queue;
  const Ops& ops;
  PhaseObserver* observer = nullptr;

  bool trains() const { return static_cast<bool>(gradients); }
  AnyView<1> weight(spec::ParameterId id, int layer = -1) const;    // a norm's weight
  AnyView<1> gradient(spec::ParameterId id, int layer = -1) const;  // and its gradient
  // `parameters` adjacent matrices that share their columns, seen as one [out, in] matrix.
  AnyView<2> weight_matrix(spec::ParameterId first, int layer = -1, int parameters = 1) const;
  AnyView<2> gradient_matrix(spec::ParameterId first, int layer = -1, int parameters = 1) const;
  spec::ParameterId head() const;  // the output matrix: kHead, or kEmbedding when tied
};

// What is this rank's of the sequence at hand. Its rows' tokens and labels lie in kTokens and kLabels.
struct Sequence {
  Index rows = 0;
  std::span<const Token> tokens;  // in storage order
  const exec::AttentionContext& attention;
};

void embed_forward(const Model& model, const Sequence& sequence);
void embed_backward(const Model& model, const Sequence& sequence);
void block_forward(const Model& model, const Sequence& sequence, int layer);
void block_backward(const Model& model, const Sequence& sequence, int layer);
// Makes again what kRecomputeLayer did not keep and the backward pass of the block reads.
void block_restore(const Model& model, const Sequence& sequence, int layer);

// Logits of some of this rank's rows, [first, first + extent[0]), as they are made: for probe and generate.
using LogitsVisitor = std::function<void(Index first, const AnyView<2>& logits_ZV)>;

// Final norm, output matrix and cross-entropy, in chunks of rows; with gradients their backward too, multiplied by
// `scale`. Returns the sum of this rank's token losses; each lies in kLoss.
double head_and_loss(const Model& model, const Sequence& sequence, double scale, const LogitsVisitor& visit = {});

// The whole pass: embedding, blocks, loss, and when the model trains all of it backwards. Adds to model.gradients.
double run(const Model& model, const Sequence& sequence, double scale, const LogitsVisitor& visit = {});

}  // namespace longhaul::model
