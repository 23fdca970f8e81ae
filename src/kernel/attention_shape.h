// What every attention variant derives from its arguments: the shape, checked, and which heads belong together.
#pragma once

#include <algorithm>

#include "contract/attention.h"

namespace longhaul::kernel {

// CHECKs that types and extents of all views agree; returns the extents.
AttentionShape checked_shape(const AttentionForward& a) noexcept;
AttentionShape checked_shape(const AttentionBackward& a) noexcept;

struct HeadRange {
  Index begin = 0, end = 0;
};

// The local query heads that use local key/value head g; may be empty. `Args` is either struct of the contract.
template <class Args>
HeadRange query_heads_of(const Args& a, Index g) noexcept {
  const Index heads = a.q_TND.extent[1], first = (a.kv_head0 + g) * a.group - a.q_head0;
  return {std::clamp<Index>(first, 0, heads), std::clamp<Index>(first + a.group, 0, heads)};
}

// The local key/value head that local query head n uses.
template <class Args>
Index kv_head_of(const Args& a, Index n) noexcept {
  return (a.q_head0 + n) / a.group - a.kv_head0;
}

}  // namespace longhaul::kernel
