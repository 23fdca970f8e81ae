// Row kernels: what an op does to a stretch of one contiguous row, compiled once an instruction set (*_rows.simd.cpp).
// Arrays are indexed by storage type, 0 fp32 and 1 bf16, where nothing else is said; void points to such elements.
#pragma once

#include "base/check.h"

namespace longhaul::kernel {

struct NormRows {
  // Returns 1 / sqrt(mean(x^2) + eps).
  float (*forward[2])(const void* x, const void* w, void* y, Index width, float eps, float offset);
  // dx and dw are added to.
  void (*backward[2])(const void* dy, const void* x, const void* w, float rstd, void* dx, float* dw, Index width,
                      float offset);
};

struct RopeRow {
  const void* x;
  void* y;  // may be x
  const float *cos, *sin;
  Index heads, x_apart, y_apart;  // elements from head to head
  Index width, half;
  float sign;  // -1 turns back
};
struct RopeRows {
  void (*rotate[3])(const RopeRow& row);  // fp32, bf16, and fp32 to bf16
};

struct GatedRows {
  void (*forward[2])(bool gelu, const void* gate, const void* up, void* h, Index count);
  void (*backward[2])(bool gelu, const void* gate, const void* up, const void* dh, void* dgate, void* dup, Index count);
};

struct SoftmaxStatistic {
  float max;
  double sum;  // of exp(z - max)
};
struct LossRows {
  SoftmaxStatistic (*statistic)(const float* logits, Index vocabulary);
  // dlogits = exp(logits - max) * factor, 0 where that would be smaller than the smallest normal number.
  void (*gradient[2])(const float* logits, float max, float factor, void* dlogits, Index vocabulary);
};

struct AdamWFactors {
  float keep, scale, beta1, rest1, beta2, rest2, step, root, eps;  // names as in ref/adamw.cpp; root is its inverse
};
struct OptimizerRows {
  // `weights` is bf16, or null.
  void (*adamw)(const AdamWFactors& f, const float* gradient, float* master, float* m, float* v, void* weights,
                Index count);
  double (*sum_squares[2])(const void* x, Index count);
};

struct ElementRows {
  void (*add[2][2])(const void* from, void* to, Index count);   // [from][to]
  void (*cast[2][2])(const void* from, void* to, Index count);  // [from][to]
};

// Everything of one instruction set.
struct RowKernels {
  const NormRows& norm;
  const RopeRows& rope;
  const GatedRows& gated;
  const LossRows& loss;
  const OptimizerRows& optimizer;
  const ElementRows& elements;
};

#define LONGHAUL_ROWS_OF(isa)            \
  namespace isa {                        \
  extern const NormRows kNorm;           \
  extern const RopeRows kRope;           \
  extern const GatedRows kGated;         \
  extern const LossRows kLoss;           \
  extern const OptimizerRows kOptimizer; \
  extern const ElementRows kElements;    \
  }
LONGHAUL_ROWS_OF(avx512)
LONGHAUL_ROWS_OF(avx2)
LONGHAUL_ROWS_OF(baseline)
#undef LONGHAUL_ROWS_OF

}  // namespace longhaul::kernel
