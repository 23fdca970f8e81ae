// The row, elementwise and optimizer ops on the CPU: each deals rows to threads and leaves the work on a row to the
// kernels of an instruction set. What those do not take (fp64, elements apart) goes to the reference.
#pragma once

#include "contract/ops.h"
#include "kernel/cpu/isa.h"
#include "kernel/cpu/rows.h"

namespace longhaul::kernel {

// The table of an instruction set, whether this machine has it or not.
const Ops& cpu_ops_of(Isa isa) noexcept;
const RowKernels& rows_of(Isa isa) noexcept;
// The best that this machine has.
Isa best_isa() noexcept;

namespace cpu {

void rms_norm_forward(Queue& queue, const RmsNormForward& a, const NormRows& rows) noexcept;
Index rms_norm_backward_scratch(Index rows, Index hidden, DType storage, int threads) noexcept;
void rms_norm_backward(Queue& queue, const RmsNormBackward& a, Bytes scratch, const NormRows& rows) noexcept;
void rope(Queue& queue, const Rope& a, const RopeRows& rows) noexcept;
void gated_forward(Queue& queue, const GatedForward& a, const GatedRows& rows) noexcept;
void gated_backward(Queue& queue, const GatedBackward& a, const GatedRows& rows) noexcept;
void embedding_forward(Queue& queue, const EmbeddingForward& a) noexcept;
void embedding_backward(Queue& queue, const EmbeddingBackward& a, const ElementRows& rows) noexcept;
void cross_entropy(Queue& queue, const CrossEntropy& a, const LossRows& rows) noexcept;
void adamw(Queue& queue, const AdamW& a, const OptimizerRows& rows) noexcept;
double sum_squares(Queue& queue, const AnyView<1>& x_I, const OptimizerRows& rows) noexcept;
void add(Queue& queue, const AnyView<2>& from, const AnyView<2>& to, const ElementRows& rows) noexcept;
void copy(Queue& queue, const AnyView<3>& from, const AnyView<3>& to, const ElementRows& rows) noexcept;
void fill(Queue& queue, const AnyView<3>& to, double value) noexcept;

}  // namespace cpu
}  // namespace longhaul::kernel
