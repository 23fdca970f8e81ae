// Sums over ranks, always in rank order, so that the same mesh gives the same bits.
#pragma once

#include <span>

#include "comm/comm.h"
#include "contract/ops.h"

namespace longhaul::exec {

// values[i] = sum over ranks of values[i], fp64 sums in rank order. Control traffic; at most 64 values.
void sum_over(Queue& queue, comm::Group& group, std::span<double> values);

// x = sum over ranks of x (accumulator type, contiguous). Rank r sums the r-th part of x in rank order and sends the
// result to all (reduce-scatter, then all-gather). Scratch: sum_scratch_bytes().
Index sum_scratch_bytes(Index elements, DType type, int ranks) noexcept;
void sum_over(Queue& queue, const Ops& ops, comm::Group& group, const AnyView<1>& x, Bytes scratch);

// Throws a run error naming the ranks when `value` is not the same on all ranks of the group.
void check_equal(Queue& queue, comm::Group& group, std::uint64_t value, const char* what);

}  // namespace longhaul::exec
