// What each op demands of its arguments: extents that agree, storage or accumulator types, tokens and labels in range.
#include "kernel/shapes.h"

namespace longhaul::kernel {
namespace {

bool is_storage(DType t) {
  return t == DType::kF32 || t == DType::kBF16 || t == DType::kF64;
}

template <int R>
void check_same(const AnyView<R>& a, const AnyView<R>& b, const char* op) {
  for (int d = 0; d < R; ++d)
    CHECK(a.extent[d] == b.extent[d], "%s: dimension %d has %ld and %ld", op, d, a.extent[d], b.extent[d]);
}

template <int R>
void check_type(const AnyView<R>& a, DType wanted, const char* op) {
  CHECK(a.dtype == wanted, "%s: a view of %s where %s belongs", op, name_of(a.dtype), name_of(wanted));
}

void check_unit_stride(const AnyView<2>& a, const char* name) {
  const bool one = a.stride[0] == 1 || a.stride[1] == 1 || a.extent[0] <= 1 || a.extent[1] <= 1;
  CHECK(one, "matmul: %s has strides %ld and %ld", name, a.stride[0], a.stride[1]);
}

void check_tokens(const AnyView<1>& tokens_T, Index limit, const char* op) {
  const View<const std::int32_t, 1> tokens = tokens_T.as<const std::int32_t>();
  for (Index t = 0; t < tokens.extent[0]; ++t)
    CHECK(0 <= tokens(t) && tokens(t) < limit, "%s: token %d at row %ld, vocabulary of %ld", op, tokens(t), t, limit);
}

}  // namespace

void check_shapes(const Matmul& a) noexcept {
  CHECK(a.a_MK.extent[0] == a.c_MN.extent[0] && a.a_MK.extent[1] == a.b_KN.extent[0] &&
            a.b_KN.extent[1] == a.c_MN.extent[1],
        "matmul: a [%ld, %ld], b [%ld, %ld], c [%ld, %ld]", a.a_MK.extent[0], a.a_MK.extent[1], a.b_KN.extent[0],
        a.b_KN.extent[1], a.c_MN.extent[0], a.c_MN.extent[1]);
  CHECK(is_storage(a.a_MK.dtype), "matmul: a of %s", name_of(a.a_MK.dtype));
  check_type(a.b_KN, a.a_MK.dtype, "matmul");
  if (a.c_MN.dtype != a.a_MK.dtype) check_type(a.c_MN, accumulator_of(a.a_MK.dtype), "matmul");
  check_unit_stride(a.a_MK, "a");
  check_unit_stride(a.b_KN, "b");
  CHECK(a.c_MN.stride[1] == 1 || a.c_MN.extent[1] <= 1, "matmul: columns of c are %ld apart", a.c_MN.stride[1]);
}

void check_shapes(const RmsNormForward& a) noexcept {
  const char* op = "rms_norm_forward";
  CHECK(is_storage(a.x_TE.dtype), "%s: x of %s", op, name_of(a.x_TE.dtype));
  check_type(a.w_E, a.x_TE.dtype, op);
  check_type(a.y_TE, a.x_TE.dtype, op);
  check_type(a.rstd_T, accumulator_of(a.x_TE.dtype), op);
  check_same(a.x_TE, a.y_TE, op);
  CHECK(a.w_E.extent[0] == a.x_TE.extent[1] && a.rstd_T.extent[0] == a.x_TE.extent[0],
        "%s: x [%ld, %ld], w [%ld], rstd [%ld]", op, a.x_TE.extent[0], a.x_TE.extent[1], a.w_E.extent[0],
        a.rstd_T.extent[0]);
}

void check_shapes(const RmsNormBackward& a) noexcept {
  const char* op = "rms_norm_backward";
  CHECK(is_storage(a.x_TE.dtype), "%s: x of %s", op, name_of(a.x_TE.dtype));
  check_type(a.dy_TE, a.x_TE.dtype, op);
  check_type(a.w_E, a.x_TE.dtype, op);
  check_type(a.dx_TE, a.x_TE.dtype, op);
  check_type(a.rstd_T, accumulator_of(a.x_TE.dtype), op);
  check_type(a.dw_E, accumulator_of(a.x_TE.dtype), op);
  check_same(a.dy_TE, a.x_TE, op);
  check_same(a.dx_TE, a.x_TE, op);
  check_same(a.dw_E, a.w_E, op);
  CHECK(a.w_E.extent[0] == a.x_TE.extent[1] && a.rstd_T.extent[0] == a.x_TE.extent[0],
        "%s: x [%ld, %ld], w [%ld], rstd [%ld]", op, a.x_TE.extent[0], a.x_TE.extent[1], a.w_E.extent[0],
        a.rstd_T.extent[0]);
}

void check_shapes(const RopeTable& a) noexcept {
  const auto rows = static_cast<Index>(a.tokens.size()), half = static_cast<Index>(a.inverse_frequency.size());
  CHECK(a.cos_TD.dtype == DType::kF32 || a.cos_TD.dtype == DType::kF64, "rope_table: cos of %s",
        name_of(a.cos_TD.dtype));
  check_type(a.sin_TD, a.cos_TD.dtype, "rope_table");
  check_same(a.cos_TD, a.sin_TD, "rope_table");
  CHECK(a.cos_TD.extent[0] == rows && a.cos_TD.extent[1] == half, "rope_table: [%ld, %ld] for %ld tokens, %ld pairs",
        a.cos_TD.extent[0], a.cos_TD.extent[1], rows, half);
}

void check_shapes(const Rope& a) noexcept {
  CHECK(is_storage(a.y_TND.dtype), "rope: y of %s", name_of(a.y_TND.dtype));
  if (a.x_TND.dtype != a.y_TND.dtype) check_type(a.x_TND, accumulator_of(a.y_TND.dtype), "rope");
  check_type(a.cos_TD, accumulator_of(a.y_TND.dtype), "rope");
  check_type(a.sin_TD, a.cos_TD.dtype, "rope");
  check_same(a.x_TND, a.y_TND, "rope");
  check_same(a.cos_TD, a.sin_TD, "rope");
  CHECK(a.cos_TD.extent[0] == a.x_TND.extent[0] && 2 * a.cos_TD.extent[1] <= a.x_TND.extent[2],
        "rope: x [%ld, %ld, %ld], table [%ld, %ld]", a.x_TND.extent[0], a.x_TND.extent[1], a.x_TND.extent[2],
        a.cos_TD.extent[0], a.cos_TD.extent[1]);
}

void check_shapes(const GatedForward& a) noexcept {
  CHECK(is_storage(a.gate_TF.dtype), "gated_forward: gate of %s", name_of(a.gate_TF.dtype));
  for (const AnyView<2>* v : {&a.up_TF, &a.h_TF}) {
    check_type(*v, a.gate_TF.dtype, "gated_forward");
    check_same(*v, a.gate_TF, "gated_forward");
  }
}

void check_shapes(const GatedBackward& a) noexcept {
  CHECK(is_storage(a.gate_TF.dtype), "gated_backward: gate of %s", name_of(a.gate_TF.dtype));
  for (const AnyView<2>* v : {&a.up_TF, &a.dh_TF, &a.dgate_TF, &a.dup_TF}) {
    check_type(*v, a.gate_TF.dtype, "gated_backward");
    check_same(*v, a.gate_TF, "gated_backward");
  }
}

void check_shapes(const EmbeddingForward& a) noexcept {
  CHECK(is_storage(a.table_VE.dtype), "embedding_forward: table of %s", name_of(a.table_VE.dtype));
  check_type(a.x_TE, a.table_VE.dtype, "embedding_forward");
  CHECK(a.x_TE.extent[0] == a.tokens_T.extent[0] && a.x_TE.extent[1] == a.table_VE.extent[1],
        "embedding_forward: x [%ld, %ld], %ld tokens, table [%ld, %ld]", a.x_TE.extent[0], a.x_TE.extent[1],
        a.tokens_T.extent[0], a.table_VE.extent[0], a.table_VE.extent[1]);
  check_tokens(a.tokens_T, a.table_VE.extent[0], "embedding_forward");
}

void check_shapes(const EmbeddingBackward& a) noexcept {
  CHECK(is_storage(a.dx_TE.dtype), "embedding_backward: dx of %s", name_of(a.dx_TE.dtype));
  check_type(a.dtable_VE, accumulator_of(a.dx_TE.dtype), "embedding_backward");
  CHECK(a.dx_TE.extent[0] == a.tokens_T.extent[0] && a.dx_TE.extent[1] == a.dtable_VE.extent[1],
        "embedding_backward: dx [%ld, %ld], %ld tokens, table [%ld, %ld]", a.dx_TE.extent[0], a.dx_TE.extent[1],
        a.tokens_T.extent[0], a.dtable_VE.extent[0], a.dtable_VE.extent[1]);
  check_tokens(a.tokens_T, a.dtable_VE.extent[0], "embedding_backward");
}

void check_shapes(const CrossEntropy& a) noexcept {
  const char* op = "cross_entropy";
  const DType type = a.logits_TV.dtype;
  const Index rows = a.logits_TV.extent[0], vocabulary = a.logits_TV.extent[1];
  CHECK(type == DType::kF32 || type == DType::kF64, "%s: logits of %s", op, name_of(type));
  check_type(a.loss_T, type, op);
  CHECK(a.labels_T.extent[0] == rows && a.loss_T.extent[0] == rows, "%s: %ld rows, %ld labels, %ld losses", op, rows,
        a.labels_T.extent[0], a.loss_T.extent[0]);
  if (a.dlogits_TV) {
    check_same(a.dlogits_TV, a.logits_TV, op);
    CHECK(is_storage(a.dlogits_TV.dtype), "%s: dlogits of %s", op, name_of(a.dlogits_TV.dtype));
    check_type(a.logits_TV, accumulator_of(a.dlogits_TV.dtype), op);
  }
  const View<const std::int32_t, 1> labels = a.labels_T.as<const std::int32_t>();
  for (Index t = 0; t < rows; ++t)
    CHECK(labels(t) < vocabulary, "%s: label %d at row %ld, vocabulary of %ld", op, labels(t), t, vocabulary);
}

void check_shapes(const AdamW& a) noexcept {
  const DType type = a.master.dtype;
  CHECK(type == DType::kF32 || type == DType::kF64, "adamw: master of %s", name_of(type));
  for (const AnyView<1>* v : {&a.gradient, &a.m, &a.v}) {
    check_type(*v, type, "adamw");
    check_same(*v, a.master, "adamw");
  }
  if (a.weights) {
    check_same(a.weights, a.master, "adamw");
    CHECK(is_storage(a.weights.dtype), "adamw: weights of %s", name_of(a.weights.dtype));
    check_type(a.master, accumulator_of(a.weights.dtype), "adamw");
  }
}

}  // namespace longhaul::kernel
