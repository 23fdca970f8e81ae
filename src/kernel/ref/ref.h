// The reference: plain loops that define every op, one template an op over the storage type.
#pragma once

#include <type_traits>

#include "contract/ops.h"

namespace longhaul::kernel::ref {

Index matmul_scratch(const MatmulShape& shape, int threads) noexcept;
void matmul(Queue& queue, const Matmul& a, Bytes scratch) noexcept;
void rms_norm_forward(Queue& queue, const RmsNormForward& a) noexcept;
Index rms_norm_backward_scratch(Index rows, Index hidden, DType storage, int threads) noexcept;
void rms_norm_backward(Queue& queue, const RmsNormBackward& a, Bytes scratch) noexcept;
void rope_table(Queue& queue, const RopeTable& a) noexcept;
void rope(Queue& queue, const Rope& a) noexcept;
void gated_forward(Queue& queue, const GatedForward& a) noexcept;
void gated_backward(Queue& queue, const GatedBackward& a) noexcept;
void embedding_forward(Queue& queue, const EmbeddingForward& a) noexcept;
void embedding_backward(Queue& queue, const EmbeddingBackward& a) noexcept;
void cross_entropy(Queue& queue, const CrossEntropy& a) noexcept;
void adamw(Queue& queue, const AdamW& a) noexcept;
double sum_squares(Queue& queue, const AnyView<1>& x) noexcept;
void add(Queue& queue, const AnyView<2>& from, const AnyView<2>& to) noexcept;
void copy(Queue& queue, const AnyView<3>& from, const AnyView<3>& to) noexcept;
void fill(Queue& queue, const AnyView<3>& to, double value) noexcept;

// accumulator_of() for element types.
template <class Storage>
using Accumulator = std::conditional_t<std::is_same_v<Storage, double>, double, float>;

// Calls f(Storage{}) with the element type that `type` names; f takes the type from its argument.
template <class F>
void with_storage(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(bf16(0.0f));
    case DType::kF64:
      return f(double{});
    default:
      CHECK(false, "%s is no storage type", name_of(type));
  }
}

}  // namespace longhaul::kernel::ref
