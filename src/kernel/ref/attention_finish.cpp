// The small ops around attention: sinks and the final cast, delta, and the gradient of the sinks.
#include <cmath>
#include <limits>

#include "kernel/attention_list.h"

namespace longhaul::kernel {
namespace {

template <int R, int Q>
void check_rows(const char* name, const AnyView<R>& v, const AnyView<Q>& like, DType dtype) {
  CHECK(v.dtype == dtype, "%s is %s, not %s", name, name_of(v.dtype), name_of(dtype));
  for (int d = 0; d < std::min(R, Q); ++d)
    CHECK(v.extent[d] == like.extent[d], "%s: dimension %d is %ld, not %ld", name, d, v.extent[d], like.extent[d]);
}

// Calls f with a value of the storage type and one of its accumulator type.
template <class F>
void with_storage(DType storage, F&& f) {
  if (storage == DType::kF64) return f(double{}, double{});
  if (storage == DType::kBF16) return f(bf16{}, float{});
  CHECK(storage == DType::kF32, "storage %s", name_of(storage));
  f(float{}, float{});
}

template <class S, class A>
void finish_row(const AttentionFinish& a, Index t, Index n) noexcept {
  const auto partial = a.partial_TNV.as<const A>();
  const auto o = a.o_TNV.as<S>();
  const Index width = o.extent[2];
  A& m = a.m_TN.as<A>()(t, n);
  A& l = a.l_TN.as<A>()(t, n);
  if (m == -std::numeric_limits<A>::infinity()) {
    for (Index d = 0; d < width; ++d) o(t, n, d) = static_cast<S>(A(0));
    return;
  }
  A keep = 1;
  if (a.sinks_N) {
    const A sink = a.sinks_N.as<const A>()(n), top = std::max(m, sink);
    const A keys = std::exp((m - top) + l), total = keys + std::exp(sink - top);
    keep = keys / total;
    m = top;
    l = std::log(total);
  }
  if (o.stride[2] == 1 && partial.stride[2] == 1) {  // for the compiler: the same with lanes
    const A* from = &partial(t, n, 0);
    S* to = &o(t, n, 0);
    for (Index d = 0; d < width; ++d) to[d] = static_cast<S>(keep * from[d]);
    return;
  }
  for (Index d = 0; d < width; ++d) o(t, n, d) = static_cast<S>(keep * partial(t, n, d));
}

// In order and by fma, as the backward passes sum do * v: where o = v, the difference of the two is exactly 0.
template <class S, class A>
void delta_row(const AttentionDelta& a, Index t) noexcept {
  const auto o = a.o_TNV.as<const S>(), d_o = a.do_TNV.as<const S>();
  const auto delta = a.delta_TN.as<A>();
  for (Index n = 0; n < o.extent[1]; ++n) {
    A sum = 0;
    for (Index d = 0; d < o.extent[2]; ++d)
      sum = std::fma(static_cast<A>(d_o(t, n, d)), static_cast<A>(o(t, n, d)), sum);
    delta(t, n) = sum;
  }
}

template <class A>
void sink_gradient_head(const AttentionSinkGradient& a, Index n) noexcept {
  const auto m = a.m_TN.as<const A>(), l = a.l_TN.as<const A>(), delta = a.delta_TN.as<const A>();
  const A sink = a.sinks_N.as<const A>()(n);
  double sum = 0;
  for (Index t = 0; t < m.extent[0]; ++t)
    if (a.q_tokens[t].document != 0 && m(t, n) != -std::numeric_limits<A>::infinity())
      sum += static_cast<double>(std::exp((sink - m(t, n)) - l(t, n)) * delta(t, n));
  a.dsinks_N.as<A>()(n) -= static_cast<A>(sum);
}

}  // namespace

void attention_finish(Queue& queue, const AttentionFinish& a) noexcept {
  const DType storage = a.o_TNV.dtype, sums = accumulator_of(storage);
  check_rows("partial_TNV", a.partial_TNV, a.o_TNV, sums);
  check_rows("m_TN", a.m_TN, a.o_TNV, sums);
  check_rows("l_TN", a.l_TN, a.o_TNV, sums);
  if (a.sinks_N)
    CHECK(a.sinks_N.dtype == sums && a.sinks_N.extent[0] == a.o_TNV.extent[1], "%ld sinks of %s for %ld heads",
          a.sinks_N.extent[0], name_of(a.sinks_N.dtype), a.o_TNV.extent[1]);
  with_storage(storage, [&]<class S, class A>(S, A) {
    parallel_for(queue.team(), a.o_TNV.extent[0], [&](Index t, int) {
      for (Index n = 0; n < a.o_TNV.extent[1]; ++n) finish_row<S, A>(a, t, n);
    });
  });
}

void check_delta(const AttentionDelta& a) noexcept {
  check_rows("do_TNV", a.do_TNV, a.o_TNV, a.o_TNV.dtype);
  check_rows("delta_TN", a.delta_TN, a.o_TNV, accumulator_of(a.o_TNV.dtype));
}

void reference_attention_delta(Queue& queue, const AttentionDelta& a) noexcept {
  check_delta(a);
  with_storage(a.o_TNV.dtype, [&]<class S, class A>(S, A) {
    parallel_for(queue.team(), a.o_TNV.extent[0], [&](Index t, int) { delta_row<S, A>(a, t); });
  });
}

void attention_sink_gradient(Queue& queue, const AttentionSinkGradient& a) noexcept {
  const DType sums = a.m_TN.dtype;
  check_rows("l_TN", a.l_TN, a.m_TN, sums);
  check_rows("delta_TN", a.delta_TN, a.m_TN, sums);
  CHECK(std::ssize(a.q_tokens) == a.m_TN.extent[0], "%zu tokens, %ld rows", a.q_tokens.size(), a.m_TN.extent[0]);
  const Index heads = a.m_TN.extent[1];
  CHECK(a.sinks_N.extent[0] == heads && a.dsinks_N.extent[0] == heads, "%ld sinks, %ld gradients, %ld heads",
        a.sinks_N.extent[0], a.dsinks_N.extent[0], heads);
  parallel_for(queue.team(), heads, [&](Index n, int) {
    if (sums == DType::kF64)
      sink_gradient_head<double>(a, n);
    else
      sink_gradient_head<float>(a, n);
  });
}

}  // namespace longhaul::kernel
