// Attention forward on one block of queries: an online softmax over a panel of keys (Milakov and Gimelshein 2018; Dao
// 2023, "FlashAttention-2", algorithm 1), with queries across the lanes.
#include "kernel/cpu/attention_scores.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

struct Workspace {
  Workspace(float* at, Index d_qk, Index d_v)
      : rows{take(at, kBlock * (d_qk > d_v ? padded_width(d_qk) : padded_width(d_v)))},
        q{take(at, kBlock * padded_width(d_qk))},
        s{take(at, kBlock * kPanel)} {}
  float *rows, *q, *s;
};

// Scores of one panel of queries with a block of keys, masked: [kBlock, kPanel].
void finish_scores(const ForwardBlock& block, const KeyMarks& marks, Index first_key, Index first_query, bool partial,
                   float* s) {
  if (block.scoring.softcap != 0) {
    const Floats cap = broadcast(block.scoring.softcap);
    for (Index i = 0; i < kBlock * kPanel; i += kLanes) store(s + i, cap * tanh(load(s + i) / cap));
  }
  if (!partial) return;
  for (Index key = 0; key < kBlock; ++key)
    for (Index n = 0; n < kPanel; n += kLanes) {
      float* at = s + key * kPanel + n;
      store(at, select(visible(*block.bounds, first_query + n, marks, first_key + key), load(at), broadcast(kMasked)));
    }
}

LONGHAUL_INLINE bool any(Ints mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(mask)) != 0;
#else
  bool some = false;
  for (int i = 0; i < kLanes; ++i) some |= mask[i] != 0;
  return some;
#endif
}

// Turns scores into exponentials and takes their maximum and sum into the state; o is rescaled where a maximum grew.
LONGHAUL_INLINE void update_softmax(float* s, float* m, float* z, float* o, Index o_rows) {
  Floats top[kPanelVectors], sum[kPanelVectors];
#pragma GCC unroll 4
  for (int n = 0; n < kPanelVectors; ++n) top[n] = load(m + n * kLanes), sum[n] = Floats{};
  for (Index key = 0; key < kBlock; ++key)
#pragma GCC unroll 4
    for (int n = 0; n < kPanelVectors; ++n) top[n] = max(load(s + key * kPanel + n * kLanes), top[n]);

  Floats shift[kPanelVectors], keep[kPanelVectors];
  bool grew = false;
#pragma GCC unroll 4
  for (int n = 0; n < kPanelVectors; ++n) {
    const Floats before = load(m + n * kLanes);
    shift[n] = select(top[n] == kMasked, Floats{}, top[n]);  // a query that sees nothing yet: exp(-inf - 0) is 0
    keep[n] = exp(before - shift[n]);
    grew |= any(before < top[n]);
    store(m + n * kLanes, top[n]);
  }
  for (Index key = 0; key < kBlock; ++key)
#pragma GCC unroll 4
    for (int n = 0; n < kPanelVectors; ++n) {
      float* at = s + key * kPanel + n * kLanes;
      const Floats p = exp(load(at) - shift[n]);
      sum[n] += p;
      store(at, p);
    }
#pragma GCC unroll 4
  for (int n = 0; n < kPanelVectors; ++n) store(z + n * kLanes, fma(load(z + n * kLanes), keep[n], sum[n]));
  if (!grew) return;
  for (Index d = 0; d < o_rows; ++d)
#pragma GCC unroll 4
    for (int n = 0; n < kPanelVectors; ++n) {
      float* at = o + d * kPanel + n * kLanes;
      store(at, load(at) * keep[n]);
    }
}

Index forward_workspace(Index d_qk, Index d_v) noexcept {
  const Index d = padded_width(d_qk), v = padded_width(d_v);
  return taken(kBlock * (d > v ? d : v)) + taken(kBlock * d) + taken(kBlock * kPanel);
}

void forward_begin(const ForwardState& state, Index d_v) noexcept {
  for (Index i = 0; i < kBlock * padded_width(d_v); i += kLanes) store(state.o + i, Floats{});
  for (Index i = 0; i < kBlock; i += kLanes) store(state.m + i, broadcast(kMasked)), store(state.z + i, Floats{});
}

void forward(const ForwardBlock& block, const KeyPanel& panel) noexcept {
  const FlushDenormals flush;
  const Index d = padded_width(panel.d_qk), v = padded_width(panel.d_v);
  const Workspace w(block.workspace, panel.d_qk, panel.d_v);
  pack_rows(block.q, block.keep, block.rows, panel.d_qk, kBlock, w.rows);
  rows_to_panels(w.rows, d, w.q);
  for (Index b = 0; b < panel.blocks; ++b) {
    if (panel.classes[b] == kBlockEmpty) continue;
    for (Index p = 0; p < kPanels; ++p) {
      float* o = block.state.o + p * v * kPanel;
      rows_times_panel(panel.k + b * kBlock * d, d, w.q + p * d * kPanel, panel.d_qk, block.scoring.scale, w.s);
      finish_scores(block, panel.marks, b * kBlock, p * kPanel, panel.classes[b] == kBlockPartial, w.s);
      update_softmax(w.s, block.state.m + p * kPanel, block.state.z + p * kPanel, o, v);
      columns_times_panel(panel.v + b * kBlock * v, v, w.s, v, o);
    }
  }
}

void forward_end(const ForwardBlock& block, Index d_v, const ForwardResult& result) noexcept {
  const Index v = padded_width(d_v);
  const Workspace w(block.workspace, d_v, d_v);
  float keep[kBlock] = {}, share[kBlock] = {};
  for (Index i = 0; i < block.rows; ++i) {
    float here = block.state.m[i];
    const float z = block.state.z[i];
    if (z == 0) continue;  // saw nothing
    if (z != z) here = z;  // NaN scores must not look like none
    float& m = result.m[i * result.m_stride];
    float& l = result.l[i * result.l_stride];
    if (m == kMasked) {
      share[i] = 1 / z, m = here, l = __builtin_logf(z);
      continue;
    }
    // The partial result stands for weight exp(m + l), this state for exp(here) z.
    const float top = m > here ? m : here;
    const float before = __builtin_expf((m - top) + l), factor = __builtin_expf(here - top);
    const float total = before + factor * z;
    keep[i] = before / total, share[i] = factor / total;
    m = top, l = __builtin_logf(total);
  }
  panels_to_rows(block.state.o, v, share, w.rows);
  for (Index i = 0; i < block.rows; ++i)
    if (block.state.z[i] != 0) merge_row(result.o, i, keep[i], w.rows + i * v, d_v);
}

}  // namespace

// In the other *.simd.cpp of attention.
void attention_backward(const BackwardBlock& block, const KeyPanel& panel) noexcept;
Index attention_backward_workspace(Index d_qk, Index d_v) noexcept;
void attention_delta(const StridedRows& o, const StridedRows& d_o, Index rows, Index columns, float* delta,
                     Index stride) noexcept;

extern constinit const AttentionKernels kAttention{.pack_rows = pack_rows,
                                                   .add_rows = add_rows,
                                                   .forward_workspace = forward_workspace,
                                                   .forward_begin = forward_begin,
                                                   .forward = forward,
                                                   .forward_end = forward_end,
                                                   .backward_workspace = attention_backward_workspace,
                                                   .backward = attention_backward,
                                                   .delta = attention_delta};

}  // namespace longhaul::kernel::LONGHAUL_ISA
