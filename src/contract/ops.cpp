// Choice from the ordered list of attention variants.
#include "contract/ops.h"

namespace longhaul {

const AttentionVariant* choose_attention(const Ops& ops, std::string_view wanted, const AttentionShape& shape,
                                         const AttentionParams& params) noexcept {
  for (const AttentionVariant& v : ops.attention)
    if ((wanted == "auto" || wanted == v.name) && v.refuses(shape, params) == nullptr) return &v;
  return nullptr;
}

}  // namespace longhaul
