// The tables of parameters and activations: shapes, types, lifetimes.
#include "spec/tensor_table.h"

#include <algorithm>

namespace longhaul::spec {

// ---- parameters -------------------------------------------------------------------------------------------------

namespace {

constexpr ParameterId kLayerOrder[] = {ParameterId::kInputNorm, ParameterId::kQ,  ParameterId::kK,
                                       ParameterId::kV,         ParameterId::kO,  ParameterId::kPostNorm,
                                       ParameterId::kGate,      ParameterId::kUp, ParameterId::kDown};
constexpr Index kPerLayer = std::size(kLayerOrder);

// Shape and Hugging Face suffix of a parameter; columns 0 marks a norm weight.
struct Declaration {
  const char* name;
  Index rows, columns;
};
Declaration declare(const ModelSpec& m, ParameterId id) {
  switch (id) {
    case ParameterId::kEmbedding:
      return {"model.embed_tokens.weight", m.vocabulary, m.hidden};
    case ParameterId::kInputNorm:
      return {"input_layernorm.weight", m.hidden, 0};
    case ParameterId::kQ:
      return {"self_attn.q_proj.weight", m.q_heads * m.head_dim, m.hidden};
    case ParameterId::kK:
      return {"self_attn.k_proj.weight", m.kv_heads * m.head_dim, m.hidden};
    case ParameterId::kV:
      return {"self_attn.v_proj.weight", m.kv_heads * m.head_dim, m.hidden};
    case ParameterId::kO:
      return {"self_attn.o_proj.weight", m.hidden, m.q_heads * m.head_dim};
    case ParameterId::kPostNorm:
      return {"post_attention_layernorm.weight", m.hidden, 0};
    case ParameterId::kGate:
      return {"mlp.gate_proj.weight", m.ffn, m.hidden};
    case ParameterId::kUp:
      return {"mlp.up_proj.weight", m.ffn, m.hidden};
    case ParameterId::kDown:
      return {"mlp.down_proj.weight", m.hidden, m.ffn};
    case ParameterId::kFinalNorm:
      return {"model.norm.weight", m.hidden, 0};
    case ParameterId::kHead:
      return {"lm_head.weight", m.vocabulary, m.hidden};
  }
  return {"?", 0, 0};
}

}  // namespace

ParameterTable parameters_of(const ModelSpec& model) {
  ParameterTable table;
  const auto add = [&](ParameterId id, int layer) {
    const Declaration d = declare(model, id);
    Parameter p;
    p.id = id, p.layer = layer;
    p.name = layer < 0 ? d.name : "model.layers." + std::to_string(layer) + "." + d.name;
    p.is_matrix = d.columns != 0;
    p.rows = d.rows, p.columns = p.is_matrix ? d.columns : 1;
    p.decays = p.is_matrix && id != ParameterId::kEmbedding;
    p.offset = table.total;
    table.total += p.count();
    table.rows.push_back(std::move(p));
  };
  table.rows.reserve(static_cast<std::size_t>(3 + model.layers * kPerLayer));
  add(ParameterId::kEmbedding, -1);
  for (int layer = 0; layer < model.layers; ++layer)
    for (ParameterId id : kLayerOrder) add(id, layer);
  add(ParameterId::kFinalNorm, -1);
  if (!model.tied) add(ParameterId::kHead, -1);
  return table;
}

const Parameter& ParameterTable::at(ParameterId id, int layer) const {
  for (const Parameter& p : rows)
    if (p.id == id && p.layer == layer) return p;
  CHECK(false, "no parameter %d of layer %d", static_cast<int>(id), layer);
}

// ---- activations ------------------------------------------------------------------------------------------------

const char* name_of(ActivationId id) noexcept {
  static constexpr const char* kNames[] = {"tokens", "labels", "cos",     "sin",  "x",  "norm",  "rstd",  "qkv",
                                           "q",      "k",      "v",       "o",    "m",  "l",     "x_mid", "gate_up",
                                           "h",      "logits", "dlogits", "loss", "dx", "dnorm", "dh",    "dgate_up",
                                           "do",     "delta",  "dq",      "dk",   "dv", "dqkv",  "slots", "scratch"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ActivationId::kScratch) + 1);
  return kNames[static_cast<std::size_t>(id)];
}

namespace {

class Declarer {
 public:
  Declarer(const ModelSpec& model, const LocalSizes& sizes, const std::vector<LayerPolicy>& policy)
      : model_(model), sizes_(sizes), policy_(policy), phases_{static_cast<int>(model.layers)} {}

  std::vector<Buffer> run() {
    inputs();
    residual_stream();
    attention_inputs_and_outputs();
    mlp();
    loss();
    if (sizes_.gradients) gradients();
    const int last = phases_.layers - 1;
    add(ActivationId::kSlots, -1, sizes_.slot_bytes, 1, DType::kU8,
        {phases_.forward(0), backward_or(0, phases_.forward(last))});
    add(ActivationId::kScratch, -1, sizes_.scratch_bytes, 1, DType::kU8,
        {phases_.embed(), sizes_.gradients ? phases_.update() : phases_.loss()});
    return std::move(buffers_);
  }

 private:
  void add(ActivationId id, int layer, Index rows, Index columns, DType dtype, Lifetime life) {
    buffers_.push_back({id, layer, {rows, columns}, dtype, life, -1});
  }
  // The last phase that reads what a layer kept: its backward phase, or `otherwise` where there is none.
  int backward_or(int layer, int otherwise) const { return sizes_.gradients ? phases_.backward(layer) : otherwise; }
  // The first layer with at least this policy; -1: none. Buffers shared by such layers live from its forward phase to
  // its backward phase, which enclose those of the later layers.
  int first_with(LayerPolicy least) const {
    for (int i = 0; i < phases_.layers; ++i)
      if (policy_[static_cast<std::size_t>(i)] >= least) return i;
    return -1;
  }
  Lifetime shared_from(int layer) const {
    return {phases_.forward(layer), backward_or(layer, phases_.forward(phases_.layers - 1))};
  }

  void inputs() {
    const Lifetime whole{phases_.embed(), sizes_.gradients ? phases_.embed_backward() : phases_.loss()};
    add(ActivationId::kTokens, -1, T, 1, DType::kI32, whole);
    add(ActivationId::kLabels, -1, T, 1, DType::kI32, whole);
    const Lifetime rotary{phases_.embed(), backward_or(0, phases_.loss())};
    add(ActivationId::kCos, -1, T, model_.head_dim / 2, a, rotary);
    add(ActivationId::kSin, -1, T, model_.head_dim / 2, a, rotary);
  }

  void residual_stream() {
    for (int i = 0; i <= phases_.layers; ++i) {
      const int first = i == 0 ? phases_.embed() : phases_.forward(i - 1);
      const int last = i == phases_.layers ? phases_.loss() : backward_or(i, phases_.forward(i));
      add(ActivationId::kX, i, T, E, s, {first, last});
    }
    const Lifetime all{phases_.forward(0), backward_or(0, phases_.loss())};
    add(ActivationId::kNorm, -1, T, E, s, all);
    add(ActivationId::kRstd, -1, T, 1, a, all);
  }

  void attention_inputs_and_outputs() {
    const int again = first_with(LayerPolicy::kRecomputeLayer);
    const int last_forward = phases_.forward(phases_.layers - 1);
    add(ActivationId::kQKV, -1, T, ND + 2 * GD, s,
        {phases_.forward(0), again < 0 ? last_forward : backward_or(again, last_forward)});
    const auto kept = [&](int layer, Lifetime life) {
      add(ActivationId::kQ, layer, T, ND, s, life);
      add(ActivationId::kK, layer, T, GD, s, life);
      add(ActivationId::kV, layer, T, GD, s, life);
      add(ActivationId::kO, layer, T, ND, s, life);
      add(ActivationId::kM, layer, T, model_.q_heads, a, life);
      add(ActivationId::kL, layer, T, model_.q_heads, a, life);
      add(ActivationId::kXMid, layer, T, E, s, life);
    };
    if (again >= 0) kept(-1, shared_from(again));
    for (int i = 0; i < phases_.layers; ++i)
      if (policy_[static_cast<std::size_t>(i)] != LayerPolicy::kRecomputeLayer)
        kept(i, {phases_.forward(i), backward_or(i, phases_.forward(i))});
  }

  void mlp() {
    const int again = first_with(LayerPolicy::kRecomputeMlp);
    if (again >= 0) add(ActivationId::kGateUp, -1, C, 2 * F, s, shared_from(again));
    for (int i = 0; i < phases_.layers; ++i)
      if (policy_[static_cast<std::size_t>(i)] == LayerPolicy::kKeep)
        add(ActivationId::kGateUp, i, T, 2 * F, s, {phases_.forward(i), backward_or(i, phases_.forward(i))});
    add(ActivationId::kH, -1, C, F, s, shared_from(0));
  }

  void loss() {
    const Lifetime at{phases_.loss(), phases_.loss()};
    add(ActivationId::kLogits, -1, Z, model_.vocabulary, a, at);
    if (sizes_.gradients && s != a) add(ActivationId::kDLogits, -1, Z, model_.vocabulary, s, at);
    add(ActivationId::kLoss, -1, T, 1, a, at);
  }

  void gradients() {
    add(ActivationId::kDX, -1, T, E, s, {phases_.loss(), phases_.embed_backward()});
    add(ActivationId::kDNorm, -1, T, E, s, {phases_.loss(), phases_.backward(0)});
    const Lifetime backward{phases_.backward(phases_.layers - 1), phases_.backward(0)};
    add(ActivationId::kDH, -1, C, F, s, backward);
    add(ActivationId::kDGateUp, -1, C, 2 * F, s, backward);
    add(ActivationId::kDO, -1, T, ND, s, backward);
    add(ActivationId::kDelta, -1, T, model_.q_heads, a, backward);
    add(ActivationId::kDQ, -1, T, ND, a, backward);
    add(ActivationId::kDK, -1, T, GD, a, backward);
    add(ActivationId::kDV, -1, T, GD, a, backward);
    add(ActivationId::kDQKV, -1, T, ND + 2 * GD, s, backward);
  }

  const ModelSpec& model_;
  const LocalSizes& sizes_;
  const std::vector<LayerPolicy>& policy_;
  Phases phases_;
  const Index T = sizes_.rows, E = model_.hidden, F = model_.ffn, C = sizes_.mlp_chunk, Z = sizes_.loss_chunk;
  const Index ND = model_.q_heads * model_.head_dim, GD = model_.kv_heads * model_.head_dim;
  const DType s = sizes_.storage, a = accumulator_of(sizes_.storage);
  std::vector<Buffer> buffers_;
};

}  // namespace

std::vector<Buffer> activations_of(const ModelSpec& model, const LocalSizes& sizes,
                                   const std::vector<LayerPolicy>& policy) {
  CHECK(model.layers > 0, "a model with %ld layers", model.layers);
  CHECK(static_cast<Index>(policy.size()) == model.layers, "%zu policies for %ld layers", policy.size(), model.layers);
  return Declarer(model, sizes, policy).run();
}

}  // namespace longhaul::spec
