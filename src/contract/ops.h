// The table of ops: the only door through which exec, model and train call kernels.
//
// Shape legend: T rows (tokens of this rank), E hidden, F feed-forward width, V vocabulary, N heads, D head width.
// "storage" is fp32, bf16 or fp64; "accumulator" is accumulator_of(storage). Every op runs on queue.team(), gives the
// same bits for the same threads, is noexcept, and CHECKs shapes and types. Zero rows are allowed everywhere.
#pragma once

#include <string_view>

#include "contract/attention.h"

namespace longhaul {

// c_MN = a_MK b_KN, or c += with accumulate. Any of a, b may be a transposed view (one stride must be 1).
// a and b have one storage type; c is that type or its accumulator. Sums are in the accumulator type.
struct Matmul {
  AnyView<2> a_MK, b_KN, c_MN;
  bool accumulate = false;
};
struct MatmulShape {
  Index m = 0, k = 0, n = 0;
  DType in = DType::kF32, out = DType::kF32;
  bool a_transposed = false, b_transposed = false, accumulate = false;
};

// y = x / sqrt(mean(x^2) + eps) * w (Zhang and Sennrich 2019); weight_offset 1 multiplies by (1 + w) (Gemma).
struct RmsNormForward {
  AnyView<2> x_TE;
  AnyView<1> w_E;
  double eps = 1e-5, weight_offset = 0;
  AnyView<2> y_TE;    // out
  AnyView<1> rstd_T;  // out, accumulator
};
struct RmsNormBackward {
  AnyView<2> dy_TE, x_TE;
  AnyView<1> w_E, rstd_T;
  double weight_offset = 0;
  AnyView<2> dx_TE;  // added to
  AnyView<1> dw_E;   // added to, accumulator
};

// cos and sin of position * inverse_frequency, angles in fp64, times `amplitude` (YaRN's attention factor).
struct RopeTable {
  std::span<const Token> tokens;              // T
  std::span<const double> inverse_frequency;  // D/2
  double amplitude = 1;
  AnyView<2> cos_TD, sin_TD;  // [T, D/2] out, accumulator
};
// Rotates pairs (d, d + D/2) of each head (Su et al. 2021, in the half-split order of Hugging Face), in place or not.
// The rotary width is twice the table's; further columns are copied. inverse: the transpose, for gradients.
struct Rope {
  AnyView<3> x_TND;
  AnyView<2> cos_TD, sin_TD;
  AnyView<3> y_TND;  // out; may be x; x may be accumulator with y storage (gradients of attention)
  bool inverse = false;
};

enum class Activation : std::uint8_t { kSilu, kGeluTanh };
// h = activation(gate) * up (Shazeer 2020).
struct GatedForward {
  Activation activation = Activation::kSilu;
  AnyView<2> gate_TF, up_TF;
  AnyView<2> h_TF;  // out
};
struct GatedBackward {
  Activation activation = Activation::kSilu;
  AnyView<2> gate_TF, up_TF, dh_TF;
  AnyView<2> dgate_TF, dup_TF;  // out; may be gate and up
};

struct EmbeddingForward {
  AnyView<1> tokens_T;  // int32, in [0, V)
  AnyView<2> table_VE;
  AnyView<2> x_TE;  // out
};
struct EmbeddingBackward {
  AnyView<1> tokens_T;
  AnyView<2> dx_TE;
  AnyView<2> dtable_VE;  // added to, accumulator; rows of equal tokens in row order
};

// One chunk of rows of the loss: loss_T = ln sum exp(z) - z[label], 0 where label < 0 (not in the loss).
// dlogits = (softmax(z) - onehot) * scale, exactly 0 where label < 0.
struct CrossEntropy {
  AnyView<2> logits_TV;   // accumulator type
  AnyView<1> labels_T;    // int32
  double scale = 1;       // 1 / valid tokens of the global batch
  AnyView<1> loss_T;      // out, accumulator
  AnyView<2> dlogits_TV;  // out, storage; may be logits; a null view when no gradient is wanted
};

// AdamW (Loshchilov and Hutter 2019) as in torch.optim.AdamW, on one tensor; all accumulator type but `weights`.
//   w *= 1 - lr*decay; m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= lr * (m / c1) / (sqrt(v / c2) + eps)
// with g multiplied by gradient_scale first, c1 = 1 - b1^step, c2 = 1 - b2^step.
struct AdamW {
  AnyView<1> master, gradient, m, v;
  AnyView<1> weights;  // out: master in the storage type; a null view when master is used itself
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0;
  double gradient_scale = 1, correction1 = 1, correction2 = 1;
};

struct Ops {
  const char* name;  // of the instruction set, for explain

  Index (*matmul_scratch)(const MatmulShape&, int threads) noexcept;
  void (*matmul)(Queue&, const Matmul&, Bytes scratch) noexcept;
  void (*rms_norm_forward)(Queue&, const RmsNormForward&) noexcept;
  Index (*rms_norm_backward_scratch)(Index rows, Index hidden, DType storage, int threads) noexcept;
  void (*rms_norm_backward)(Queue&, const RmsNormBackward&, Bytes scratch) noexcept;
  void (*rope_table)(Queue&, const RopeTable&) noexcept;
  void (*rope)(Queue&, const Rope&) noexcept;
  void (*gated_forward)(Queue&, const GatedForward&) noexcept;
  void (*gated_backward)(Queue&, const GatedBackward&) noexcept;
  void (*embedding_forward)(Queue&, const EmbeddingForward&) noexcept;
  void (*embedding_backward)(Queue&, const EmbeddingBackward&) noexcept;
  void (*cross_entropy)(Queue&, const CrossEntropy&) noexcept;
  void (*adamw)(Queue&, const AdamW&) noexcept;
  double (*sum_squares)(Queue&, const AnyView<1>& x) noexcept;                 // fp64 sum, in fixed blocks
  void (*add)(Queue&, const AnyView<2>& from, const AnyView<2>& to) noexcept;  // to += from; any of the float types
  void (*copy)(Queue&, const AnyView<3>& from,
               const AnyView<3>& to) noexcept;  // strided, with a cast between float types
  void (*fill)(Queue&, const AnyView<3>& to, double value) noexcept;

  std::span<const AttentionVariant> attention;  // best first, reference last
  void (*attention_finish)(Queue&, const AttentionFinish&) noexcept;
  void (*attention_delta)(Queue&, const AttentionDelta&) noexcept;
  void (*attention_sink_gradient)(Queue&, const AttentionSinkGradient&) noexcept;
};

// The first variant of the list that takes the problem; `wanted` is "auto" or a variant's name (nullptr if it refuses).
const AttentionVariant* choose_attention(const Ops& ops, std::string_view wanted, const AttentionShape& shape,
                                         const AttentionParams& params) noexcept;

}  // namespace longhaul
