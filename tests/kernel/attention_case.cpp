// The table of attention cases, and the runner.
#include "kernel/attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernel/attention_list.h"
#include "kernel/tensors.h"

namespace longhaul::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor tensor_of(const AttentionRun& run, Index rows, Index width, const std::vector<double>& values) {
  Tensor t(run.storage, rows, width, run.gap);
  for (Index i = 0; i < t.count(); ++i) t.set(i, values[i]);
  return t;
}

void poison_padding(Tensor& t, const std::vector<Token>& tokens, Index width) {
  for (Index i = 0; i < t.count(); ++i)
    if (tokens[i / width].document == 0) t.set(i, kNaN);
}

template <class F>
void in_ranges(Index tiles, Index calls, F&& f) {
  for (Index i = 0; i < calls; ++i)
    if (tiles * i / calls < tiles * (i + 1) / calls) f(tiles * i / calls, tiles * (i + 1) / calls);
}

struct Runner {
  Runner(const AttentionCase& c, const AttentionRun& run)
      : c{c},
        run{run},
        queue{run.threads},
        rows{std::ssize(c.q_tokens)},
        keys{std::ssize(c.k_tokens)},
        sums{accumulator_of(run.storage)},
        q{tensor_of(run, rows, c.q_heads * c.d_qk, c.q)},
        k{tensor_of(run, keys, c.kv_heads * c.d_qk, c.k)},
        v{tensor_of(run, keys, c.kv_heads * c.d_v, c.v)},
        d_o{tensor_of(run, rows, c.q_heads * c.d_v, c.d_o)},
        o{run.storage, rows, c.q_heads * c.d_v, run.gap},
        partial{sums, rows, c.q_heads * c.d_v, run.gap},
        m{sums, rows, c.q_heads, run.gap},
        l{sums, rows, c.q_heads, run.gap},
        delta{sums, rows, c.q_heads, run.gap},
        dq{sums, rows, c.q_heads * c.d_qk, run.gap},
        dk{sums, keys, c.kv_heads * c.d_qk, run.gap},
        dv{sums, keys, c.kv_heads * c.d_v, run.gap},
        sinks{sums, c.q_heads, 1},
        dsinks{sums, c.q_heads, 1},
        pieces{run.pieces} {
    if (pieces.empty()) pieces = {{0, keys}};
    for (std::size_t i = 0; i < c.sinks.size(); ++i) sinks.set(i, c.sinks[i]);
    partial.fill(0), m.fill(-kInf), l.fill(0), dsinks.fill(0), dq.fill(0), dk.fill(0), dv.fill(0);
    if (run.poison) {
      poison_padding(q, c.q_tokens, c.q_heads * c.d_qk), poison_padding(k, c.k_tokens, c.kv_heads * c.d_qk);
      poison_padding(v, c.k_tokens, c.kv_heads * c.d_v), poison_padding(d_o, c.q_tokens, c.q_heads * c.d_v);
    }
  }

  Bytes scratch_for(const AttentionShape& shape) {
    const Index bytes = run.variant->scratch_bytes(shape, run.threads);
    scratch.assign(bytes + 64, std::byte{run.poison ? std::uint8_t{0xff} : std::uint8_t{0}});
    auto at = reinterpret_cast<std::uintptr_t>(scratch.data());
    return {scratch.data() + (64 - at % 64) % 64, bytes};
  }
  template <class Args>
  void set_common(Args& a, Index begin, Index end) {
    a.params = c.params;
    a.q_head0 = c.q_head0, a.kv_head0 = c.kv_head0, a.group = c.group;
    a.q_TND = q.heads(c.q_heads);
    a.k_KGD = k.heads(c.kv_heads).slice(0, begin, end - begin);
    a.v_KGV = v.heads(c.kv_heads).slice(0, begin, end - begin);
    a.q_tokens = c.q_tokens;
    a.k_tokens = std::span(c.k_tokens).subspan(begin, end - begin);
    a.m_TN = m.matrix(), a.l_TN = l.matrix();
  }
  AttentionShape piece_shape(Index begin, Index end) const {
    AttentionShape s = c.shape(run.storage);
    s.k_rows = end - begin;
    return s;
  }

  void forward() {
    for (auto [begin, end] : pieces) {
      AttentionForward a;
      set_common(a, begin, end);
      a.o_TNV = partial.heads(c.q_heads);
      const AttentionShape shape = piece_shape(begin, end);
      in_ranges(run.variant->forward_tiles(shape), run.calls,
                [&](Index from, Index to) { run.variant->forward(queue, a, from, to, scratch_for(shape)); });
    }
    AttentionFinish finish{partial.heads(c.q_heads), m.matrix(), l.matrix(), {}, o.heads(c.q_heads)};
    if (!c.sinks.empty()) finish.sinks_N = sinks.column();
    kernel::attention_finish(queue, finish);
  }

  void backward() {
    kernel::attention_delta(queue, {o.heads(c.q_heads), d_o.heads(c.q_heads), delta.matrix()});
    for (auto [begin, end] : pieces) {
      AttentionBackward a;
      set_common(a, begin, end);
      a.do_TNV = d_o.heads(c.q_heads);
      a.delta_TN = delta.matrix();
      a.dq_TND = dq.heads(c.q_heads);
      a.dk_KGD = dk.heads(c.kv_heads).slice(0, begin, end - begin);
      a.dv_KGV = dv.heads(c.kv_heads).slice(0, begin, end - begin);
      const AttentionShape shape = piece_shape(begin, end);
      in_ranges(run.variant->backward_tiles(shape), run.calls,
                [&](Index from, Index to) { run.variant->backward(queue, a, from, to, scratch_for(shape)); });
    }
    if (!c.sinks.empty())
      kernel::attention_sink_gradient(
          queue, {sinks.column(), c.q_tokens, m.matrix(), l.matrix(), delta.matrix(), dsinks.column()});
  }

  AttentionOutputs outputs() const {
    std::vector<double> lse = m.values();
    for (std::size_t i = 0; i < lse.size(); ++i) lse[i] += l.get(i);
    AttentionOutputs all{
        {"o", o.values()}, {"lse", lse}, {"dq", dq.values()}, {"dk", dk.values()}, {"dv", dv.values()}};
    if (!c.sinks.empty()) all.push_back({"dsinks", dsinks.values()});
    return all;
  }

  const AttentionCase& c;
  const AttentionRun& run;
  CpuQueue queue;
  Index rows, keys;
  DType sums;
  Tensor q, k, v, d_o, o, partial, m, l, delta, dq, dk, dv, sinks, dsinks;
  std::vector<std::pair<Index, Index>> pieces;
  std::vector<std::byte> scratch;
};

}  // namespace

AttentionShape AttentionCase::shape(DType storage) const {
  return {storage, std::ssize(q_tokens), std::ssize(k_tokens), q_heads, kv_heads, d_qk, d_v};
}

std::ostream& operator<<(std::ostream& out, const AttentionRun& run) {
  out << run.variant->name << ' ' << name_of(run.storage) << " threads " << run.threads << " calls " << run.calls
      << " gap " << run.gap << (run.poison ? " poisoned" : "") << " pieces";
  for (auto [begin, end] : run.pieces) out << " [" << begin << ", " << end << ")";
  return out;
}

AttentionOutputs run_attention(const AttentionCase& c, const AttentionRun& run) {
  Runner r(c, run);
  r.forward();
  r.backward();
  for (const Tensor* t : {&r.partial, &r.o, &r.dq, &r.dk, &r.dv, &r.m, &r.l})
    EXPECT_TRUE(t->gaps_untouched()) << c.name << ", " << run;
  return r.outputs();
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return kInf;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return kInf;
    worst = std::max(worst, std::abs(got[i] - want[i]));
  }
  return worst;
}

double largest_magnitude(const std::vector<double>& values) {
  double top = 0;
  for (double x : values)
    if (std::isfinite(x)) top = std::max(top, std::abs(x));
  return top;
}

double ulp_allowance(const std::vector<double>& want, Index rows) {
  return 4 * 0x1p-23 * largest_magnitude(want) * std::log2(static_cast<double>(rows) + 1);
}

double cancellation_allowance(const AttentionCase& c) {
  double sum = 0;  // the largest sum over V of |do v| that a product of heads can have
  for (Index t = 0; t < std::ssize(c.q_tokens); ++t)
    for (Index n = 0; n < c.q_heads; ++n)
      for (Index j = 0; j < std::ssize(c.k_tokens); ++j) {
        if (!visible(c.params.mask, c.q_tokens[t], c.k_tokens[j])) continue;
        const Index g = (c.q_head0 + n) / c.group - c.kv_head0;
        double terms = 0;
        for (Index d = 0; d < c.d_v; ++d)
          terms += std::abs(c.d_o[(t * c.q_heads + n) * c.d_v + d] * c.v[(j * c.kv_heads + g) * c.d_v + d]);
        sum = std::max(sum, terms);
      }
  const double factor = c.params.scale * std::max(largest_magnitude(c.q), largest_magnitude(c.k));
  return 0x1p-23 * std::log2(static_cast<double>(c.d_v) + 1) * sum * factor;
}

double sink_allowance(const AttentionCase& c, const std::vector<double>& o, const std::vector<double>& lse) {
  std::vector<double> sums(c.sinks.size());
  for (std::size_t i = 0; i < lse.size(); ++i)
    for (Index d = 0; d < c.d_v && std::isfinite(lse[i]); ++d)
      sums[i % c.q_heads] +=
          std::exp(c.sinks[i % c.q_heads] - lse[i]) * std::abs(o[i * c.d_v + d] * c.d_o[i * c.d_v + d]);
  return 0x1p-9 * largest_magnitude(sums);
}

}  // namespace longhaul::testing
