// The matrix product on the CPU: a library's, in the type that the machine multiplies fastest.
#pragma once

#include "contract/ops.h"

namespace longhaul::kernel::cpu {

Index matmul_scratch(const MatmulShape& shape, int threads) noexcept;
void matmul(Queue& queue, const Matmul& x, Bytes scratch) noexcept;

// The two ways that matmul chooses from: bf16 operands given to the library as they are, or turned into fp32.
Index matmul_native_scratch(const MatmulShape& shape, int threads) noexcept;
void matmul_native(Queue& queue, const Matmul& x, Bytes scratch) noexcept;
Index matmul_by_fp32_scratch(const MatmulShape& shape, int threads) noexcept;
void matmul_by_fp32(Queue& queue, const Matmul& x, Bytes scratch) noexcept;

}  // namespace longhaul::kernel::cpu
