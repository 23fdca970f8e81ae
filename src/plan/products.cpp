// Every call of ops.matmul in model/block.cpp and model/head.cpp, as shapes.
#include "plan/products.h"

namespace longhaul::plan {
namespace {

// y_RO (+)= x_RI W^T and its two gradients, for `rows` R, `in` I and `out` O columns.
struct Projection {
  const char *forward, *to_input, *to_weight;
  Index rows, in, out;
  DType y;
  bool accumulate;
  double calls, again;  // forward calls, and those made again in the backward pass
};

}  // namespace

std::vector<ProductUse> products_of(const spec::ModelSpec& m, const spec::LocalSizes& sizes,
                                    const std::vector<spec::LayerPolicy>& policy) {
  const DType s = sizes.storage, a = accumulator_of(s);
  const Index E = m.hidden, F = m.ffn, V = m.vocabulary, ND = m.q_heads * m.head_dim,
              R = ND + 2 * m.kv_heads * m.head_dim;
  const double layers = static_cast<double>(m.layers), T = static_cast<double>(sizes.rows);
  const double chunks = T / static_cast<double>(sizes.mlp_chunk),
               loss_chunks = T / static_cast<double>(sizes.loss_chunk);
  double mlps_again = 0, layers_again = 0;
  for (spec::LayerPolicy p : policy) {
    mlps_again += p != spec::LayerPolicy::kKeep;
    layers_again += p == spec::LayerPolicy::kRecomputeLayer;
  }
  const Projection all[] = {
      {"qkv", "qkv, to input", "qkv, to weight", sizes.rows, E, R, s, false, layers, layers_again},
      {"o", "o, to input", "o, to weight", sizes.rows, ND, E, s, true, layers, layers_again},
      {"gate_up", "gate_up, to input", "gate_up, to weight", sizes.mlp_chunk, E, 2 * F, s, false, layers * chunks,
       mlps_again * chunks},
      {"down", "down, to input", "down, to weight", sizes.mlp_chunk, F, E, s, true, layers * chunks, 0},
      {"logits", "logits, to input", "logits, to weight", sizes.loss_chunk, E, V, a, false, loss_chunks, 0},
  };
  std::vector<ProductUse> uses;
  for (const Projection& p : all) {
    const double forward = p.calls + (sizes.gradients ? p.again : 0);
    uses.push_back({p.forward, {p.rows, p.in, p.out, s, p.y, false, true, p.accumulate}, forward});
    if (!sizes.gradients) continue;
    uses.push_back({p.to_input, {p.rows, p.out, p.in, s, s, false, false, false}, p.calls});
    uses.push_back({p.to_weight, {p.out, p.rows, p.in, s, a, true, false, true}, p.calls});
  }
  return uses;
}

}  // namespace longhaul::plan
