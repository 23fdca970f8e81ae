// What one rank holds while it trains: memory, model, optimizer state, its place in the mesh.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"
#include "model/model.h"
#include "strategy/mesh.h"
#include "tensor/arena.h"
#include "train/batches.h"
#include "train/optimizer.h"
#include "train/sequence.h"

namespace longhaul::train {

// All that a step needs to know, the same on every rank. Made from a StepPlan.
struct TrainSpec {
  spec::ModelSpec model;
  DType storage = DType::kF32;
  strategy::Mesh mesh;
  const strategy::StrategyEntry* strategy = nullptr;
  strategy::LayoutKind layout = strategy::LayoutKind::kContiguous;
  Index length = 0;  // rows of a sequence
  Index batch = 1;   // global sequences a step
  int threads = 1;   // a rank
  OptimizerSpec optimizer;
  bool trains = true;                     // false: losses only, no gradients and no optimizer state
  std::vector<spec::Buffer> activations;  // placed
  Index activation_bytes = 0;
  std::vector<spec::LayerPolicy> policy;
  const Ops* ops = nullptr;
  const AttentionVariant* attention = nullptr;
};

strategy::Shapes shapes_of(const spec::ModelSpec& model, DType storage);
// Bytes of weights, and when training of gradients and optimizer state, on one rank.
Index state_bytes(const TrainSpec& spec);

class Trainer {
 public:
  Trainer(const TrainSpec& spec, comm::World& world);

  // Puts a row's tokens, labels and schedule in place; the row may be shorter than spec.length.
  void load(const Row& row);
  // Forward (and backward, adding to the gradients) of the loaded row; returns this rank's sum of losses.
  double run_loaded(double scale, bool with_gradients, const model::LogitsVisitor& visit = {});

  // Copies master weights into the storage type that the model reads.
  void refresh_weights();
  void initialize(std::uint64_t seed);  // normal(0, init_std), norms 1, from (seed, parameter, element) alone

  const TrainSpec& spec;
  comm::World& world;
  std::unique_ptr<comm::Group> context;  // ranks that share a sequence
  CpuQueue queue;
  spec::ParameterTable table;
  Arena state_memory, activation_memory;
  OptimizerState state;
  std::vector<double> inverse_frequency;
  model::Activations activations;
  model::Model model;
  SequenceSchedule sequence;
  Row row;                    // the one at hand
  std::vector<Token> tokens;  // of it, in row order
  int rank, data_index, context_index;
};

}  // namespace longhaul::train
