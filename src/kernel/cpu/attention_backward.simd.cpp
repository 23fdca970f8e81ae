// Attention backward on one block of queries: five products with a panel of keys, probabilities recomputed from the
// final statistic (Dao 2023, "FlashAttention-2", algorithm 2), with queries across the lanes.
#include "kernel/cpu/attention_scores.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

struct Workspace {
  Workspace(float* at, Index d, Index v)  // padded widths
      : q_rows{take(at, kBlock * d)},
        do_rows{take(at, kBlock * v)},
        q{take(at, kBlock * d)},
        d_o{take(at, kBlock * v)},
        dq{take(at, kBlock * d)},
        p{take(at, kBlock * kBlock)},
        ds{take(at, kBlock * kBlock)},
        m{take(at, 3 * kBlock)} {}
  float *q_rows, *do_rows, *q, *d_o, *dq, *p, *ds, *m;
  float* l() const { return m + kBlock; }
  float* delta() const { return m + 2 * kBlock; }
};

// Rows that saw nothing, padding and rows beyond the block get m = inf, so that all their probabilities are 0.
void load_statistics(const BackwardBlock& block, const Workspace& w) {
  for (Index i = 0; i < kBlock; ++i) {
    const bool lives = i < block.rows && block.keep[i] != 0 && block.m[i * block.m_stride] != kMasked;
    w.m[i] = lives ? block.m[i * block.m_stride] : -kMasked;
    w.l()[i] = lives ? block.l[i * block.l_stride] : 0;
    w.delta()[i] = lives ? block.delta[i * block.delta_stride] : 0;
  }
}

// Of a panel of queries from first_query: scores in p become probabilities, do v in ds becomes the gradient of q k.
template <bool kPartial, bool kCapped>
LONGHAUL_INLINE void score_gradients(const BackwardBlock& block, const Workspace& w, const KeyMarks& marks,
                                     Index first_key, Index first_query, float* p, float* ds) {
  const Floats scale = broadcast(block.scoring.scale), cap = broadcast(block.scoring.softcap);
  Floats m[kPanelVectors], l[kPanelVectors], delta[kPanelVectors];
#pragma GCC unroll 4
  for (int n = 0; n < kPanelVectors; ++n) {
    const Index at = first_query + n * kLanes;
    m[n] = load(w.m + at), l[n] = load(w.l() + at), delta[n] = load(w.delta() + at);
  }
  for (Index key = 0; key < kBlock; ++key)
#pragma GCC unroll 4
    for (int n = 0; n < kPanelVectors; ++n) {
      const Index at = key * kPanel + n * kLanes;
      Floats s = load(p + at), slope = scale;
      if constexpr (kCapped) {
        const Floats th = tanh(s / cap);
        s = cap * th;
        slope = scale * (1.f - th * th);
      }
      if constexpr (kPartial)
        s = select(visible(*block.bounds, first_query + n * kLanes, marks, first_key + key), s, broadcast(kMasked));
      const Floats probability = exp((s - m[n]) - l[n]);
      store(p + at, probability);
      store(ds + at, probability * (load(ds + at) - delta[n]) * slope);
    }
}

void finish_scores(const BackwardBlock& block, const Workspace& w, const KeyMarks& marks, Index first_key,
                   Index first_query, bool partial, float* p, float* ds) {
  const bool capped = block.scoring.softcap != 0;
  if (partial && capped) return score_gradients<true, true>(block, w, marks, first_key, first_query, p, ds);
  if (partial) return score_gradients<true, false>(block, w, marks, first_key, first_query, p, ds);
  if (capped) return score_gradients<false, true>(block, w, marks, first_key, first_query, p, ds);
  score_gradients<false, false>(block, w, marks, first_key, first_query, p, ds);
}

}  // namespace

Index attention_backward_workspace(Index d_qk, Index d_v) noexcept {
  const Index d = kBlock * padded_width(d_qk), v = kBlock * padded_width(d_v);
  return 3 * taken(d) + 2 * taken(v) + 2 * taken(kBlock * kBlock) + taken(3 * kBlock);
}

void attention_backward(const BackwardBlock& block, const KeyPanel& panel) noexcept {
  const FlushDenormals flush;
  const Index d = padded_width(panel.d_qk), v = padded_width(panel.d_v);
  const Workspace w(block.workspace, d, v);
  load_statistics(block, w);
  pack_rows(block.q, block.keep, block.rows, panel.d_qk, kBlock, w.q_rows);
  pack_rows(block.d_o, block.keep, block.rows, panel.d_v, kBlock, w.do_rows);
  rows_to_panels(w.q_rows, d, w.q);
  rows_to_panels(w.do_rows, v, w.d_o);
  for (Index i = 0; i < kBlock * d; i += kLanes) store(w.dq + i, Floats{});
  for (Index b = 0; b < panel.blocks; ++b) {
    if (panel.classes[b] == kBlockEmpty) continue;
    const float* k = panel.k + b * kBlock * d;
    const float* values = panel.v + b * kBlock * v;
    for (Index i = 0; i < kPanels; ++i) {
      float *p = w.p + i * kBlock * kPanel, *ds = w.ds + i * kBlock * kPanel;
      rows_times_panel(k, d, w.q + i * d * kPanel, panel.d_qk, block.scoring.scale, p);
      rows_times_panel(values, v, w.d_o + i * v * kPanel, panel.d_v, 1, ds);
      finish_scores(block, w, panel.marks, b * kBlock, i * kPanel, panel.classes[b] == kBlockPartial, p, ds);
      columns_times_panel(k, d, ds, d, w.dq + i * d * kPanel);
    }
    panels_times_rows(w.p, w.do_rows, v, block.dv + b * kBlock * v);
    panels_times_rows(w.ds, w.q_rows, d, block.dk + b * kBlock * d);
  }
  float ones[kBlock];
  for (float& x : ones) x = 1;
  panels_to_rows(w.dq, d, ones, w.q_rows);
  for (Index i = 0; i < block.rows; ++i)
    if (block.keep[i] != 0) merge_row(block.dq, i, 1, w.q_rows + i * d, panel.d_qk);
}

}  // namespace longhaul::kernel::LONGHAUL_ISA
