// The attention that defines the others: plain loops over queries and keys, for fp32, bf16 and fp64.
#pragma once

#include "contract/attention.h"

namespace longhaul::kernel {

// "ref": takes every problem. With bf16 storage the probabilities and the gradients of the scores are rounded to bf16
// before they are multiplied, as an implementation on bf16 products does. A row's softmax is summed in fp64, all
// else in the accumulator type.
extern const AttentionVariant kReferenceAttention;

}  // namespace longhaul::kernel
