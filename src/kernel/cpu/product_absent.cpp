// Matrix products of a library, absent: matmul takes the reference.
#include "kernel/cpu/product.h"

namespace longhaul::kernel::cpu {

bool has_product() noexcept {
  return false;
}
bool has_bf16_product() noexcept {
  return false;
}
bool takes_gaps() noexcept {
  return false;
}

Index product_scratch(const Product&, int) noexcept {
  return 0;
}
Index product_scratch(Queue&, const Product&) noexcept {
  return 0;
}

void multiply(Queue&, const Product&, const void*, const void*, void*, Bytes) noexcept {
  CHECK(false, "this build has no library of matrix products");
}

}  // namespace longhaul::kernel::cpu
