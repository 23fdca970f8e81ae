// Attention: softmax(scale q k^T, masked) v over the rows given, taken into a partial result; and its gradient.
//
// Shapes: T query rows, K key rows, N query heads here, G KV heads here, D query/key width, V value width.
// Types: q, k, v, do in a storage type; partial results, statistics and gradients in accumulator_of(storage).
// A row's statistic is two numbers, m (maximum score) and l = ln sum exp(s - m), so that p = exp((s - m) - l) keeps its
// accuracy when scores are large (Milakov and Gimelshein 2018 give the online form; a single LSE loses an ulp of |m|).
// A row that has seen nothing has o = 0, m = -inf, l = 0.
#pragma once

#include "mask/mask.h"
#include "tensor/queue.h"
#include "tensor/view.h"

namespace longhaul {

struct AttentionParams {
  MaskSpec mask;
  double scale = 1;
  double softcap = 0;  // 0: none. s = softcap * tanh(scale q.k / softcap), before the mask (Gemma 2)
};

struct AttentionForward {
  AttentionParams params;
  // Global query head n uses global KV head n / group; here are heads [q_head0, q_head0 + N) and [kv_head0, kv_head0 +
  // G).
  Index q_head0 = 0, kv_head0 = 0, group = 1;
  AnyView<3> q_TND, k_KGD, v_KGV;
  std::span<const Token> q_tokens, k_tokens;  // T, K
  AnyView<3> o_TNV;                           // in and out: normalised partial result
  AnyView<2> m_TN, l_TN;                      // in and out
};

struct AttentionBackward {
  AttentionParams params;
  Index q_head0 = 0, kv_head0 = 0, group = 1;
  AnyView<3> q_TND, k_KGD, v_KGV;
  std::span<const Token> q_tokens, k_tokens;
  AnyView<3> do_TNV;
  AnyView<2> m_TN, l_TN;              // final, sinks included
  AnyView<2> delta_TN;                // sum over V of do * o
  AnyView<3> dq_TND, dk_KGD, dv_KGV;  // in and out: added to
};

// What a variant's choice and scratch may depend on: extents only, so that plan can ask without data.
struct AttentionShape {
  DType storage = DType::kF32;
  Index q_rows = 0, k_rows = 0;
  Index q_heads = 1, kv_heads = 1;
  Index d_qk = 1, d_v = 1;
};

// One implementation. The call works on tiles [begin, end) of tiles(shape), in any cut into ranges with the same bits,
// so that messages can progress between them.
struct AttentionVariant {
  const char* name;
  // Why this variant does not take the problem on this machine; nullptr when it does.
  const char* (*refuses)(const AttentionShape&, const AttentionParams&) noexcept;
  Index (*scratch_bytes)(const AttentionShape&, int threads) noexcept;  // largest of forward and backward
  Index (*forward_tiles)(const AttentionShape&) noexcept;
  Index (*backward_tiles)(const AttentionShape&) noexcept;
  void (*forward)(Queue&, const AttentionForward&, Index begin, Index end, Bytes scratch) noexcept;
  void (*backward)(Queue&, const AttentionBackward&, Index begin, Index end, Bytes scratch) noexcept;
};

// Takes each head's sink (a logit without a key; may be a null view) into (m, l) and rescales, then casts.
// A row with m = -inf is padding, as every other row sees at least itself: the sink does not count for it, and it ends
// with o = 0, m = -inf, l = 0, so LSE = -inf.
struct AttentionFinish {
  AnyView<3> partial_TNV;  // in, accumulator type; unchanged
  AnyView<2> m_TN, l_TN;   // in and out: the final statistic
  AnyView<1> sinks_N;      // of these N heads, accumulator type
  AnyView<3> o_TNV;        // out, storage type
};

// delta_TN = sum over V of do * o.
struct AttentionDelta {
  AnyView<3> o_TNV, do_TNV;
  AnyView<2> delta_TN;
};

// dsinks_N += -sum over T of exp((sink - m) - l) * delta. Padding rows (document 0, m = -inf) contribute nothing, and
// their delta is not read.
struct AttentionSinkGradient {
  AnyView<1> sinks_N;
  std::span<const Token> q_tokens;
  AnyView<2> m_TN, l_TN, delta_TN;
  AnyView<1> dsinks_N;
};

}  // namespace longhaul
