// One transformer block, forward and backward side by side:
//   mid = x + O(attention(rope(QKV(norm(x)))));  y = mid + down(silu(gate(norm(mid))) * up(norm(mid)))
#include <algorithm>
#include <cmath>

#include "model/model.h"

namespace longhaul::model {
namespace {

using spec::ActivationId;
using spec::LayerPolicy;
using spec::ParameterId;

// The views of one layer that forward and backward share. Names and shapes: spec/tensor_table.h.
struct Layer {
  const Model& model;
  const Activations& a;
  Queue& queue;
  const Ops& ops;
  Index T, N, G, D;
  int layer;
  Bytes scratch;

  Layer(const Model& m, const Sequence& s, int layer)
      : model(m),
        a(m.activations),
        queue(m.queue),
        ops(m.ops),
        T(s.rows),
        N(m.spec.q_heads),
        G(m.spec.kv_heads),
        D(m.spec.head_dim),
        layer(layer),
        scratch(a.bytes(ActivationId::kScratch)) {}

  AnyView<2> at(ActivationId id) const { return a.matrix(id, T, layer); }
  AnyView<3> heads(ActivationId id, Index count) const { return split_heads(at(id), count); }
  AnyView<2> weights(ParameterId first, int parameters = 1) const {
    return model.weight_matrix(first, layer, parameters);
  }
  AnyView<2> gradients(ParameterId first, int parameters = 1) const {
    return model.gradient_matrix(first, layer, parameters);
  }

  // y (+)= x W^T, and its gradients dx = dy W, dW += dy^T x.
  void project(const AnyView<2>& x, const AnyView<2>& w, const AnyView<2>& y, bool accumulate = false) const {
    ops.matmul(queue, {x, transpose(w), y, accumulate}, scratch);
  }
  void project_back(const AnyView<2>& dy, const AnyView<2>& w, const AnyView<2>& dx) const {
    ops.matmul(queue, {dy, w, dx, false}, scratch);
  }
  void weight_gradient(const AnyView<2>& dy, const AnyView<2>& x, const AnyView<2>& dw) const {
    ops.matmul(queue, {transpose(dy), x, dw, true}, scratch);
  }

  // kNorm = norm(x); made again in the backward pass rather than kept.
  AnyView<2> norm(const AnyView<2>& x, ParameterId id) const {
    ops.rms_norm_forward(queue, {x, model.weight(id, layer), model.spec.norm_eps, 0.0, at(ActivationId::kNorm),
                                 a.vector(ActivationId::kRstd, T)});
    return at(ActivationId::kNorm);
  }
  // kDX += the gradient through the norm of kDNorm.
  void norm_back(const AnyView<2>& x, ParameterId id) const {
    ops.rms_norm_backward(queue,
                          {at(ActivationId::kDNorm), x, model.weight(id, layer), a.vector(ActivationId::kRstd, T), 0.0,
                           at(ActivationId::kDX), model.gradient(id, layer)},
                          scratch);
  }

  exec::AttentionTensors attention_tensors() const {
    exec::AttentionTensors t;
    t.q_TND = heads(ActivationId::kQ, N), t.k_TGD = heads(ActivationId::kK, G), t.v_TGV = heads(ActivationId::kV, G);
    t.o_TNV = heads(ActivationId::kO, N), t.m_TN = at(ActivationId::kM), t.l_TN = at(ActivationId::kL);
    return t;
  }
  AttentionParams attention_params() const { return {model.spec.mask, 1.0 / std::sqrt(static_cast<double>(D)), 0.0}; }
  // The three parts of a [T, (N+2G) D] buffer, by heads.
  AnyView<3> part(ActivationId id, Index first_head, Index count) const {
    return heads(id, N + 2 * G).slice(1, first_head, count);
  }

  bool keeps_gate_up() const { return model.trains() && model.policy[layer] == LayerPolicy::kKeep; }
  Index chunk_rows() const { return a.bytes(ActivationId::kH).size / (model.spec.ffn * size_of(model.weights.dtype)); }
  // Gate and up of rows [first, first + rows): the layer's own memory when kept, else one chunk's.
  AnyView<2> gate_up(Index first, Index rows) const {
    return keeps_gate_up() ? at(ActivationId::kGateUp).slice(0, first, rows)
                           : a.matrix(ActivationId::kGateUp, rows, layer);
  }
};

void attention_forward(const Layer& L, const Sequence& sequence) {
  const AnyView<2> x = L.at(ActivationId::kX), mid = L.at(ActivationId::kXMid);
  const AnyView<2> cos = L.at(ActivationId::kCos), sin = L.at(ActivationId::kSin);
  const Index N = L.N, G = L.G;

  const AnyView<2> normed = L.norm(x, ParameterId::kInputNorm);
  L.project(normed, L.weights(ParameterId::kQ, 3), L.at(ActivationId::kQKV));
  L.ops.rope(L.queue, {L.part(ActivationId::kQKV, 0, N), cos, sin, L.heads(ActivationId::kQ, N), false});
  L.ops.rope(L.queue, {L.part(ActivationId::kQKV, N, G), cos, sin, L.heads(ActivationId::kK, G), false});
  L.ops.copy(L.queue, L.part(ActivationId::kQKV, N + G, G), L.heads(ActivationId::kV, G));
  exec::attention_forward(sequence.attention, L.attention_params(), L.attention_tensors());
  L.ops.copy(L.queue, split_heads(x, 1), split_heads(mid, 1));
  L.project(L.at(ActivationId::kO), L.weights(ParameterId::kO), mid, true);
}

// kDX holds the gradient of mid and leaves with that of x.
void attention_backward(const Layer& L, const Sequence& sequence) {
  const AnyView<2> x = L.at(ActivationId::kX), dx = L.at(ActivationId::kDX);
  const AnyView<2> cos = L.at(ActivationId::kCos), sin = L.at(ActivationId::kSin);
  const Index N = L.N, G = L.G;

  L.weight_gradient(dx, L.at(ActivationId::kO), L.gradients(ParameterId::kO));
  L.project_back(dx, L.weights(ParameterId::kO), L.at(ActivationId::kDO));
  exec::AttentionTensors t = L.attention_tensors();
  t.do_TNV = L.heads(ActivationId::kDO, N), t.delta_TN = L.at(ActivationId::kDelta);
  t.dq_TND = L.heads(ActivationId::kDQ, N), t.dk_TGD = L.heads(ActivationId::kDK, G),
  t.dv_TGV = L.heads(ActivationId::kDV, G);
  exec::attention_backward(sequence.attention, L.attention_params(), t);
  L.ops.rope(L.queue, {t.dq_TND, cos, sin, L.part(ActivationId::kDQKV, 0, N), true});
  L.ops.rope(L.queue, {t.dk_TGD, cos, sin, L.part(ActivationId::kDQKV, N, G), true});
  L.ops.copy(L.queue, t.dv_TGV, L.part(ActivationId::kDQKV, N + G, G));
  const AnyView<2> normed = L.norm(x, ParameterId::kInputNorm);
  L.weight_gradient(L.at(ActivationId::kDQKV), normed, L.gradients(ParameterId::kQ, 3));
  L.project_back(L.at(ActivationId::kDQKV), L.weights(ParameterId::kQ, 3), L.at(ActivationId::kDNorm));
  L.norm_back(x, ParameterId::kInputNorm);
}

// In chunks of rows, so that the wide activation never exists whole unless the policy keeps it.
void mlp_forward(const Layer& L) {
  const AnyView<2> mid = L.at(ActivationId::kXMid), y = L.a.matrix(ActivationId::kX, L.T, L.layer + 1);
  const Index F = L.model.spec.ffn, C = L.chunk_rows();

  const AnyView<2> normed = L.norm(mid, ParameterId::kPostNorm);
  L.ops.copy(L.queue, split_heads(mid, 1), split_heads(y, 1));
  for (Index first = 0; first < L.T; first += C) {
    const Index rows = std::min(C, L.T - first);
    const AnyView<2> gate_up = L.gate_up(first, rows), h = L.a.matrix(ActivationId::kH, rows);
    L.project(normed.slice(0, first, rows), L.weights(ParameterId::kGate, 2), gate_up);
    L.ops.gated_forward(L.queue, {Activation::kSilu, gate_up.slice(1, 0, F), gate_up.slice(1, F, F), h});
    L.project(h, L.weights(ParameterId::kDown), y.slice(0, first, rows), true);
  }
}

// kDX holds the gradient of y and leaves with that of mid.
void mlp_backward(const Layer& L) {
  const AnyView<2> mid = L.at(ActivationId::kXMid), dx = L.at(ActivationId::kDX);
  const Index F = L.model.spec.ffn, C = L.chunk_rows();

  const AnyView<2> normed = L.norm(mid, ParameterId::kPostNorm);
  for (Index first = 0; first < L.T; first += C) {
    const Index rows = std::min(C, L.T - first);
    const AnyView<2> gate_up = L.gate_up(first, rows), h = L.a.matrix(ActivationId::kH, rows);
    const AnyView<2> dh = L.a.matrix(ActivationId::kDH, rows), dgate_up = L.a.matrix(ActivationId::kDGateUp, rows);
    const AnyView<2> gate = gate_up.slice(1, 0, F), up = gate_up.slice(1, F, F);
    const AnyView<2> normed_c = normed.slice(0, first, rows), dx_c = dx.slice(0, first, rows);
    if (!L.keeps_gate_up()) L.project(normed_c, L.weights(ParameterId::kGate, 2), gate_up);
    L.ops.gated_forward(L.queue, {Activation::kSilu, gate, up, h});
    L.weight_gradient(dx_c, h, L.gradients(ParameterId::kDown));
    L.project_back(dx_c, L.weights(ParameterId::kDown), dh);
    L.ops.gated_backward(L.queue, {Activation::kSilu, gate, up, dh, dgate_up.slice(1, 0, F), dgate_up.slice(1, F, F)});
    L.weight_gradient(dgate_up, normed_c, L.gradients(ParameterId::kGate, 2));
    L.project_back(dgate_up, L.weights(ParameterId::kGate, 2), L.at(ActivationId::kDNorm).slice(0, first, rows));
  }
  L.norm_back(mid, ParameterId::kPostNorm);
}

}  // namespace

void block_forward(const Model& model, const Sequence& sequence, int layer) {
  const Layer L(model, sequence, layer);
  attention_forward(L, sequence);
  mlp_forward(L);
}

// The MLP's backward pass makes its own wide activation again, so only the attention half runs.
void block_restore(const Model& model, const Sequence& sequence, int layer) {
  attention_forward(Layer(model, sequence, layer), sequence);
}

void block_backward(const Model& model, const Sequence& sequence, int layer) {
  const Layer L(model, sequence, layer);
  mlp_backward(L);
  attention_backward(L, sequence);
}

}  // namespace longhaul::model
