// Every tensor of a training step, declared once: parameters with what follows from them (gradient, optimizer state),
// and activations with their lifetimes. Sizing, placing, printing, saving and checking walk these tables.
#pragma once

#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace longhaul::spec {

// ---- parameters -------------------------------------------------------------------------------------------------

enum class ParameterId : std::uint8_t {
  kEmbedding,
  kInputNorm,
  kQ,
  kK,
  kV,
  kO,
  kPostNorm,
  kGate,
  kUp,
  kDown,
  kFinalNorm,
  kHead
};
struct Parameter {
  ParameterId id;
  int layer = -1;               // -1: not of a layer
  std::string name;             // Hugging Face's
  Index rows = 0, columns = 1;  // a matrix is [out, in]; a norm weight is [rows] with columns 1
  bool is_matrix = false;
  bool decays = false;  // weight decay applies by default: matrices except the embedding, tied or not
  Index offset = 0;     // elements before it in the flat buffer of all parameters
  Index count() const { return rows * columns; }
};
// In the order of the flat buffer, without padding: kQ, kK, kV of a layer are adjacent (one [N*D + 2*G*D, E] matrix),
// and so are kGate, kUp. A tied model has no kHead.
struct ParameterTable {
  std::vector<Parameter> rows;
  Index total = 0;
  const Parameter& at(ParameterId id, int layer = -1) const;
};
ParameterTable parameters_of(const ModelSpec& model);

// ---- activations ------------------------------------------------------------------------------------------------
// Legend: T rows of this rank, E hidden, N and G query and KV heads, D head width, F feed-forward width, V vocabulary,
// C rows of an MLP chunk, Z rows of a loss chunk, storage s, accumulator a.

enum class ActivationId : std::uint8_t {
  kTokens,  // [T] int32, input
  kLabels,  // [T] int32, input
  kCos,
  kSin,   // [T, D/2] a, of the rotary embedding
  kX,     // [T, E] s, input of each layer, and of the final norm (layer = layers)
  kNorm,  // [T, E] s, scratch: output of the norm at hand, made again in the backward pass
  kRstd,  // [T] a, scratch of the same
  kQKV,   // [T, (N+2G) D] s, scratch: the joint projection before RoPE
  kQ,
  kK,
  kV,  // [T, N D], [T, G D], [T, G D] s, after RoPE
  kO,  // [T, N D] s, output of attention
  kM,
  kL,        // [T, N] a, its row statistic
  kXMid,     // [T, E] s, the residual between attention and MLP
  kGateUp,   // [T, 2F] s when kept, or [C, 2F] scratch when made again chunk by chunk
  kH,        // [C, F] s, scratch: input of the down projection
  kLogits,   // [Z, V] a, scratch
  kDLogits,  // [Z, V] s, scratch; absent when s = a (the logits' own memory serves)
  kLoss,     // [T] a
  kDX,       // [T, E] s, gradient of the residual stream
  kDNorm,    // [T, E] s, scratch: gradient of the norm's output
  kDH,       // [C, F] s, scratch
  kDGateUp,  // [C, 2F] s, scratch
  kDO,       // [T, N D] s, scratch
  kDelta,    // [T, N] a, scratch
  kDQ,
  kDK,
  kDV,       // [T, N D], [T, G D], [T, G D] a, scratch: gradients of attention
  kDQKV,     // [T, (N+2G) D] s, scratch
  kSlots,    // bytes, of the attention schedule
  kScratch,  // bytes, the largest any op states
};
const char* name_of(ActivationId id) noexcept;

// Phases of a step, the unit of lifetimes: embed, forward of each layer, loss, backward of each layer, embed backward,
// sum of gradients over ranks, update.
struct Phases {
  int layers;
  int embed() const { return 0; }
  int forward(int layer) const { return 1 + layer; }
  int loss() const { return layers + 1; }
  int backward(int layer) const { return 2 * layers + 1 - layer; }
  int embed_backward() const { return 2 * layers + 2; }
  int reduce() const { return 2 * layers + 3; }
  int update() const { return 2 * layers + 4; }
  int count() const { return 2 * layers + 5; }
};
struct Lifetime {
  int first = 0, last = 0;  // phases, inclusive
};

// What may be given up to fit a byte budget, a layer at a time; chosen by plan/memory.
enum class LayerPolicy : std::uint8_t {
  kKeep,            // everything of the table that is "kept"
  kRecomputeMlp,    // kGateUp is made again in the backward pass
  kRecomputeLayer,  // only kX is kept; the layer's forward pass, attention included, runs again
};

struct LocalSizes {
  Index rows = 0;        // T: of the largest shard of the longest row
  Index mlp_chunk = 0;   // C
  Index loss_chunk = 0;  // Z
  Index slot_bytes = 0;  // of the attention schedule, worst case
  Index scratch_bytes = 0;
  DType storage = DType::kF32;
  bool gradients = true;  // false: evaluation only, no backward phases
};

struct Buffer {
  ActivationId id;
  int layer = -1;  // -1: shared by all layers
  Index extent[2] = {0, 0};
  DType dtype = DType::kF32;
  Lifetime life;
  Index offset = -1;  // bytes into the activation arena; set by plan/memory alone
  Index bytes() const { return extent[0] * extent[1] * size_of(dtype); }
};
// A layer's own buffer or the shared one, whichever the policy gives: with kRecomputeLayer kQ ... kXMid are shared.
std::vector<Buffer> activations_of(const ModelSpec& model, const LocalSizes& sizes,
                                   const std::vector<LayerPolicy>& policy);

}  // namespace longhaul::spec
