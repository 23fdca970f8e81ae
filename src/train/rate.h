// The yardstick of every utilisation figure: how fast this rank multiplies matrices, measured when the run starts.
#pragma once

#include "contract/ops.h"

namespace longhaul::train {

// FLOP/s of a square product of `size` in the storage type on the queue's threads: the best of a few repeats.
// All ranks measure at the same time, so that what they share (cores, memory, power) is shared here too.
double measure_matmul_rate(Queue& queue, const Ops& ops, DType storage, Index size = 1024);

}  // namespace longhaul::train
