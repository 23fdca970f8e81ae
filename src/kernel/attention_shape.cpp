// Checks of the attention contract's shapes and types.
#include "kernel/attention_shape.h"

namespace longhaul::kernel {
namespace {

template <int R>
void check_view(const char* name, const AnyView<R>& v, DType dtype, const Index (&extent)[R]) {
  CHECK(v.space == Space::kCpu, "%s is not in host memory", name);
  CHECK(v.dtype == dtype, "%s is %s, not %s", name, name_of(v.dtype), name_of(dtype));
  for (int d = 0; d < R; ++d)
    CHECK(v.extent[d] == extent[d], "%s: dimension %d is %ld, not %ld", name, d, v.extent[d], extent[d]);
}

template <class Args>
AttentionShape check_inputs(const Args& a) {
  const AttentionShape s{a.q_TND.dtype,     a.q_TND.extent[0], a.k_KGD.extent[0], a.q_TND.extent[1],
                         a.k_KGD.extent[1], a.q_TND.extent[2], a.v_KGV.extent[2]};
  CHECK(s.storage == DType::kF32 || s.storage == DType::kBF16 || s.storage == DType::kF64, "storage %s",
        name_of(s.storage));
  check_view("q_TND", a.q_TND, s.storage, {s.q_rows, s.q_heads, s.d_qk});
  check_view("k_KGD", a.k_KGD, s.storage, {s.k_rows, s.kv_heads, s.d_qk});
  check_view("v_KGV", a.v_KGV, s.storage, {s.k_rows, s.kv_heads, s.d_v});
  const DType sums = accumulator_of(s.storage);
  check_view("m_TN", a.m_TN, sums, {s.q_rows, s.q_heads});
  check_view("l_TN", a.l_TN, sums, {s.q_rows, s.q_heads});
  CHECK(std::ssize(a.q_tokens) == s.q_rows, "%zu query tokens, %ld rows", a.q_tokens.size(), s.q_rows);
  CHECK(std::ssize(a.k_tokens) == s.k_rows, "%zu key tokens, %ld rows", a.k_tokens.size(), s.k_rows);
  CHECK(a.group >= 1, "group %ld", a.group);
  if (s.q_heads > 0) {
    CHECK(a.q_head0 / a.group >= a.kv_head0, "query head %ld of group %ld, first key head %ld", a.q_head0, a.group,
          a.kv_head0);
    CHECK(kv_head_of(a, s.q_heads - 1) < s.kv_heads, "query heads [%ld, %ld) of group %ld, key heads [%ld, %ld)",
          a.q_head0, a.q_head0 + s.q_heads, a.group, a.kv_head0, a.kv_head0 + s.kv_heads);
  }
  return s;
}

}  // namespace

AttentionShape checked_shape(const AttentionForward& a) noexcept {
  const AttentionShape s = check_inputs(a);
  check_view("o_TNV", a.o_TNV, accumulator_of(s.storage), {s.q_rows, s.q_heads, s.d_v});
  return s;
}

AttentionShape checked_shape(const AttentionBackward& a) noexcept {
  const AttentionShape s = check_inputs(a);
  const DType sums = accumulator_of(s.storage);
  check_view("do_TNV", a.do_TNV, s.storage, {s.q_rows, s.q_heads, s.d_v});
  check_view("delta_TN", a.delta_TN, sums, {s.q_rows, s.q_heads});
  check_view("dq_TND", a.dq_TND, sums, {s.q_rows, s.q_heads, s.d_qk});
  check_view("dk_KGD", a.dk_KGD, sums, {s.k_rows, s.kv_heads, s.d_qk});
  check_view("dv_KGV", a.dv_KGV, sums, {s.k_rows, s.kv_heads, s.d_v});
  return s;
}

}  // namespace longhaul::kernel
