// Plain loops for attention forward and backward. A key that is not visible is never read.
#include "kernel/ref/attention.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernel/attention_shape.h"

namespace longhaul::kernel {
namespace {

template <class S>
using Sum = std::conditional_t<std::is_same_v<S, double>, double, float>;

// A value as it enters a product of the storage type.
template <class S>
Sum<S> rounded(Sum<S> x) noexcept {
  return static_cast<Sum<S>>(static_cast<S>(x));
}

// scale q.k with softcap, before the mask.
template <class A>
struct Score {
  A value, slope;  // slope: d value / d (scale q.k)
};
template <class S, class A = Sum<S>>
Score<A> score(const View<const S, 3>& q, const View<const S, 3>& k, Index t, Index n, Index j, Index g,
               const AttentionParams& params) noexcept {
  A dot = 0;
  for (Index d = 0; d < q.extent[2]; ++d) dot += static_cast<A>(q(t, n, d)) * static_cast<A>(k(j, g, d));
  const A s = dot * static_cast<A>(params.scale);
  if (params.softcap == 0) return {s, 1};
  const A cap = static_cast<A>(params.softcap), th = std::tanh(s / cap);
  return {cap * th, 1 - th * th};
}

// One query row of one head: its softmax over these keys, merged into the partial result.
template <class S>
struct Forward {
  using A = Sum<S>;
  explicit Forward(const AttentionForward& a)
      : args{a},
        q{a.q_TND.as<const S>()},
        k{a.k_KGD.as<const S>()},
        v{a.v_KGV.as<const S>()},
        o{a.o_TNV.as<A>()},
        m{a.m_TN.as<A>()},
        l{a.l_TN.as<A>()} {}

  // s_K is scratch: scores, then exponentials, -1 where a key is not visible.
  void row(Index t, Index n, A* s_K) const noexcept {
    constexpr A kNothing = -std::numeric_limits<A>::infinity();
    const Index g = kv_head_of(args, n), keys = k.extent[0];
    A top = kNothing;
    for (Index j = 0; j < keys; ++j) {
      if (!visible(args.params.mask, args.q_tokens[t], args.k_tokens[j])) continue;
      s_K[j] = score<S>(q, k, t, n, j, g, args.params).value;
      if (s_K[j] > top || std::isnan(s_K[j])) top = s_K[j];  // NaN stays: it must not look as if nothing were visible
    }
    if (top == kNothing) return;
    double z = 0;
    for (Index j = 0; j < keys; ++j) {
      const bool sees = visible(args.params.mask, args.q_tokens[t], args.k_tokens[j]);
      s_K[j] = sees ? std::exp(s_K[j] - top) : A(-1);
      if (sees) z += s_K[j];
    }
    // Summed and merged in fp64: the error of a row is then that of its exponentials and of the last rounding.
    // The partial result stands for weight exp(m + l), these keys for exp(top) z.
    const bool first = m(t, n) == kNothing;
    const A both = first ? top : std::max(m(t, n), top);
    const double before = first ? 0.0 : std::exp(static_cast<double>((m(t, n) - both) + l(t, n)));
    const double here = std::exp(static_cast<double>(top - both)) * z;
    const double total = before + here;
    for (Index d = 0; d < v.extent[2]; ++d) {
      double sum = 0;
      for (Index j = 0; j < keys; ++j)
        if (!(s_K[j] < 0)) sum += rounded<S>(static_cast<A>(s_K[j] / z)) * static_cast<A>(v(j, g, d));
      o(t, n, d) = static_cast<A>(first ? sum : before / total * o(t, n, d) + here / total * sum);
    }
    m(t, n) = both;
    l(t, n) = static_cast<A>(std::log(total));
  }

  const AttentionForward& args;
  View<const S, 3> q, k, v;
  View<A, 3> o;
  View<A, 2> m, l;
};

template <class S>
void forward_rows(Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
  const Forward<S> forward{a};
  auto* scores = reinterpret_cast<Sum<S>*>(scratch.data);
  parallel_for(queue.team(), end - begin, [&](Index i, int thread) {
    for (Index n = 0; n < a.q_TND.extent[1]; ++n) forward.row(begin + i, n, scores + thread * a.k_KGD.extent[0]);
  });
}

// The gradients that one visible pair adds.
template <class S>
struct Backward {
  using A = Sum<S>;
  explicit Backward(const AttentionBackward& a)
      : args{a},
        q{a.q_TND.as<const S>()},
        k{a.k_KGD.as<const S>()},
        v{a.v_KGV.as<const S>()},
        d_o{a.do_TNV.as<const S>()},
        m{a.m_TN.as<A>()},
        l{a.l_TN.as<A>()},
        delta{a.delta_TN.as<A>()},
        dq{a.dq_TND.as<A>()},
        dk{a.dk_KGD.as<A>()},
        dv{a.dv_KGV.as<A>()} {}

  void pair(Index t, Index n, Index j, Index g) const noexcept {
    const Score<A> s = score<S>(q, k, t, n, j, g, args.params);
    const A p = std::exp((s.value - m(t, n)) - l(t, n));
    A dp = 0;  // summed as attention_delta sums: where o = v, their difference is exactly 0
    for (Index d = 0; d < v.extent[2]; ++d) {
      dp = std::fma(static_cast<A>(d_o(t, n, d)), static_cast<A>(v(j, g, d)), dp);
      dv(j, g, d) += rounded<S>(p) * static_cast<A>(d_o(t, n, d));
    }
    const A ds = rounded<S>(p * (dp - delta(t, n)) * s.slope * static_cast<A>(args.params.scale));
    for (Index d = 0; d < q.extent[2]; ++d) {
      dq(t, n, d) += ds * static_cast<A>(k(j, g, d));
      dk(j, g, d) += ds * static_cast<A>(q(t, n, d));
    }
  }

  const AttentionBackward& args;
  View<const S, 3> q, k, v, d_o;
  View<A, 2> m, l, delta;
  View<A, 3> dq, dk, dv;
};

// A tile is a key/value head, so that no two threads add to the same gradient.
template <class S>
void backward_heads(Queue& queue, const AttentionBackward& a, Index begin, Index end) noexcept {
  const Backward<S> backward{a};
  parallel_for(queue.team(), end - begin, [&](Index i, int) {
    const Index g = begin + i;
    const HeadRange heads = query_heads_of(a, g);
    for (Index n = heads.begin; n < heads.end; ++n)
      for (Index t = 0; t < a.q_TND.extent[0]; ++t)
        for (Index j = 0; j < a.k_KGD.extent[0]; ++j)
          if (visible(a.params.mask, a.q_tokens[t], a.k_tokens[j])) backward.pair(t, n, j, g);
  });
}

const char* refuses(const AttentionShape&, const AttentionParams&) noexcept {
  return nullptr;
}

Index scratch_bytes(const AttentionShape& s, int threads) noexcept {
  return threads * s.k_rows * size_of(accumulator_of(s.storage));
}
Index forward_tiles(const AttentionShape& s) noexcept {
  return s.q_rows;
}
Index backward_tiles(const AttentionShape& s) noexcept {
  return s.kv_heads;
}

void forward(Queue& queue, const AttentionForward& a, Index begin, Index end, Bytes scratch) noexcept {
  const AttentionShape s = checked_shape(a);
  CHECK(0 <= begin && begin <= end && end <= forward_tiles(s), "tiles [%ld, %ld) of %ld", begin, end, forward_tiles(s));
  CHECK(scratch.size >= scratch_bytes(s, queue.team().threads), "scratch has %ld bytes", scratch.size);
  if (s.storage == DType::kF64) return forward_rows<double>(queue, a, begin, end, scratch);
  if (s.storage == DType::kBF16) return forward_rows<bf16>(queue, a, begin, end, scratch);
  forward_rows<float>(queue, a, begin, end, scratch);
}

void backward(Queue& queue, const AttentionBackward& a, Index begin, Index end, Bytes) noexcept {
  const AttentionShape s = checked_shape(a);
  CHECK(0 <= begin && begin <= end && end <= backward_tiles(s), "tiles [%ld, %ld) of %ld", begin, end,
        backward_tiles(s));
  if (s.storage == DType::kF64) return backward_heads<double>(queue, a, begin, end);
  if (s.storage == DType::kBF16) return backward_heads<bf16>(queue, a, begin, end);
  backward_heads<float>(queue, a, begin, end);
}

}  // namespace

constinit const AttentionVariant kReferenceAttention{"ref",          refuses, scratch_bytes, forward_tiles,
                                                     backward_tiles, forward, backward};

}  // namespace longhaul::kernel
