// The tables of parameters and activations: names, order, counts, and lifetimes that cover every use.
#include "spec/tensor_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace longhaul::spec {
namespace {

TEST(Parameters, NamesAndOrderOfTheFlatBuffer) {
  const ParameterTable t = parameters_of(*find_preset("tiny"));
  std::vector<std::string> names;
  for (const Parameter& p : t.rows) names.push_back(p.name);
  ASSERT_EQ(names.size(), 1 + 2 * 9 + 2u);
  EXPECT_EQ(names[0], "model.embed_tokens.weight");
  const char* layer1[] = {"input_layernorm",  "self_attn.q_proj", "self_attn.k_proj",
                          "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
                          "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(names[10 + i], std::string("model.layers.1.") + layer1[i] + ".weight");
  EXPECT_EQ(names[19], "model.norm.weight");
  EXPECT_EQ(names[20], "lm_head.weight");
  Index at = 0;
  for (const Parameter& p : t.rows) {
    EXPECT_EQ(p.offset, at) << p.name;
    at += p.count();
    EXPECT_EQ(p.decays, p.is_matrix && p.id != ParameterId::kEmbedding) << p.name;
  }
  EXPECT_EQ(at, t.total);
  EXPECT_EQ(t.at(ParameterId::kK, 1).offset - t.at(ParameterId::kQ, 1).offset, 4 * 16 * 64);
}

TEST(Parameters, TiedModelsHaveNoHead) {
  for (const Parameter& p : parameters_of(*find_preset("mini")).rows) EXPECT_NE(p.id, ParameterId::kHead);
}

LocalSizes sizes(DType storage, bool gradients) {
  return {32, 8, 16, 1000, 500, storage, gradients};
}

const Buffer* find(const std::vector<Buffer>& all, ActivationId id, int layer) {
  const Buffer* shared = nullptr;
  for (const Buffer& b : all) {
    if (b.id == id && b.layer == layer) return &b;
    if (b.id == id && b.layer == -1) shared = &b;
  }
  return shared;
}

// What the step reads or writes in each phase, said a second time from the side of the step.
struct Use {
  ActivationId id;
  int layer, phase;
};
void layer_forward(std::vector<Use>& u, int i, int phase) {
  using A = ActivationId;
  for (A a : {A::kX, A::kNorm, A::kRstd, A::kQKV, A::kCos, A::kSin, A::kQ, A::kK, A::kV, A::kO, A::kM, A::kL, A::kXMid,
              A::kSlots, A::kScratch})
    u.push_back({a, i, phase});
}
std::vector<Use> uses(int layers, const std::vector<LayerPolicy>& policy, bool gradients) {
  using A = ActivationId;
  const Phases p{layers};
  std::vector<Use> u;
  for (A a : {A::kTokens, A::kCos, A::kSin}) u.push_back({a, -1, p.embed()});
  u.push_back({A::kX, 0, p.embed()});
  for (int i = 0; i < layers; ++i) {
    layer_forward(u, i, p.forward(i));
    for (A a : {A::kGateUp, A::kH}) u.push_back({a, i, p.forward(i)});
    u.push_back({A::kX, i + 1, p.forward(i)});
  }
  for (A a : {A::kLabels, A::kNorm, A::kRstd, A::kLogits, A::kLoss, A::kScratch}) u.push_back({a, -1, p.loss()});
  u.push_back({A::kX, layers, p.loss()});
  if (!gradients) return u;
  for (A a : {A::kDX, A::kDNorm}) u.push_back({a, -1, p.loss()});
  for (int i = layers - 1; i >= 0; --i) {
    const int now = p.backward(i);
    if (policy[i] == LayerPolicy::kRecomputeLayer) layer_forward(u, i, now);
    for (A a : {A::kX,    A::kNorm,   A::kRstd, A::kQ,   A::kK,   A::kV,    A::kO,     A::kM,      A::kL,
                A::kXMid, A::kGateUp, A::kH,    A::kCos, A::kSin, A::kDX,   A::kDNorm, A::kDH,     A::kDGateUp,
                A::kDO,   A::kDelta,  A::kDQ,   A::kDK,  A::kDV,  A::kDQKV, A::kSlots, A::kScratch})
      u.push_back({a, i, now});
  }
  for (A a : {A::kTokens, A::kDX, A::kScratch}) u.push_back({a, -1, p.embed_backward()});
  u.push_back({A::kScratch, -1, p.update()});
  return u;
}

TEST(Activations, EveryUseIsInsideALifetime) {
  ModelSpec m = *find_preset("tiny");
  m.layers = 4;
  using P = LayerPolicy;
  for (const auto& policy :
       {std::vector<P>(4, P::kKeep), std::vector<P>(4, P::kRecomputeMlp), std::vector<P>(4, P::kRecomputeLayer),
        std::vector<P>{P::kKeep, P::kRecomputeLayer, P::kKeep, P::kRecomputeMlp},
        std::vector<P>{P::kRecomputeMlp, P::kKeep, P::kRecomputeLayer, P::kKeep}})
    for (bool gradients : {true, false}) {
      const auto all = activations_of(m, sizes(DType::kBF16, gradients), policy);
      for (const Use& u : uses(4, policy, gradients)) {
        const Buffer* b = find(all, u.id, u.layer);
        ASSERT_NE(b, nullptr) << name_of(u.id) << " of layer " << u.layer;
        EXPECT_TRUE(b->life.first <= u.phase && u.phase <= b->life.last)
            << name_of(u.id) << " of layer " << u.layer << " in phase " << u.phase << " lives " << b->life.first << ".."
            << b->life.last;
      }
      const Phases p{4};
      std::set<std::pair<ActivationId, int>> once;
      for (const Buffer& b : all) {
        EXPECT_TRUE(once.insert({b.id, b.layer}).second) << name_of(b.id) << " twice";
        EXPECT_GE(b.bytes(), 0);
        EXPECT_TRUE(b.life.first <= b.life.last && b.life.last < p.count()) << name_of(b.id);
        EXPECT_LE(b.life.last, gradients ? p.update() : p.loss()) << name_of(b.id);
      }
    }
}

TEST(Activations, ShapesAndTypes) {
  const ModelSpec& m = *find_preset("tiny");  // E 64, N 4, G 2, D 16, F 128, V 256
  const std::vector<LayerPolicy> policy = {LayerPolicy::kKeep, LayerPolicy::kRecomputeMlp};
  const auto all = activations_of(m, sizes(DType::kBF16, true), policy);
  EXPECT_EQ(find(all, ActivationId::kQKV, -1)->extent[1], (4 + 2 * 2) * 16);
  EXPECT_EQ(find(all, ActivationId::kGateUp, 0)->bytes(), 32 * 2 * 128 * 2);
  EXPECT_EQ(find(all, ActivationId::kGateUp, 1)->bytes(), 8 * 2 * 128 * 2);
  EXPECT_EQ(find(all, ActivationId::kDQ, -1)->bytes(), 32 * 64 * 4);
  EXPECT_EQ(find(all, ActivationId::kLogits, -1)->bytes(), 16 * 256 * 4);
  EXPECT_EQ(find(all, ActivationId::kDLogits, -1)->bytes(), 16 * 256 * 2);
  EXPECT_EQ(find(all, ActivationId::kCos, -1)->bytes(), 32 * 8 * 4);
  EXPECT_EQ(find(all, ActivationId::kSlots, -1)->bytes(), 1000);
  EXPECT_EQ(find(activations_of(m, sizes(DType::kF32, true), policy), ActivationId::kDLogits, -1), nullptr);
  EXPECT_EQ(find(activations_of(m, sizes(DType::kF64, true), policy), ActivationId::kLogits, -1)->dtype, DType::kF64);
}

}  // namespace
}  // namespace longhaul::spec
