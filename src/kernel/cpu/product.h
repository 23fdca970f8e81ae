// One matrix product of a library, as matmul.cpp cuts the work for it. Two files implement it, chosen at link time:
// product_onednn.cpp and product_absent.cpp.
#pragma once

#include "contract/ops.h"

namespace longhaul::kernel::cpu {

// c_MN (+)= a_MK b_KN of a or b stored by rows, or by columns when transposed; `a_apart` elements between those.
struct Product {
  Index m = 0, k = 0, n = 0;  // none is 0
  DType in = DType::kF32, out = DType::kF32;
  bool a_transposed = false, b_transposed = false, accumulate = false;
  Index a_apart = 0, b_apart = 0, c_apart = 0;
};

// Whether products in fp32 are there at all, and whether those in bf16 are at least as fast.
bool has_product() noexcept;
bool has_bf16_product() noexcept;
// Whether a product with gaps between rows is as good as one without.
bool takes_gaps() noexcept;

// Bytes that multiply() needs with so many threads.
Index product_scratch(const Product& product, int threads) noexcept;
Index product_scratch(Queue& queue, const Product& product) noexcept;

// The first call for a product makes what later calls reuse, in queue.library.
void multiply(Queue& queue, const Product& product, const void* a, const void* b, void* c, Bytes scratch) noexcept;

}  // namespace longhaul::kernel::cpu
