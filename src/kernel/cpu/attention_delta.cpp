// Drives delta over rows and heads.
#include "kernel/attention_list.h"
#include "kernel/cpu/attention.h"
#include "kernel/cpu/attention_driver.h"

namespace longhaul::kernel {

void attention_delta(Queue& queue, const AttentionDelta& a) noexcept {
  const DType storage = a.o_TNV.dtype;
  const Index rows = a.o_TNV.extent[0], heads = a.o_TNV.extent[1], width = a.o_TNV.extent[2];
  if (storage == DType::kF64 || a.o_TNV.stride[2] != 1 || a.do_TNV.stride[2] != 1)
    return reference_attention_delta(queue, a);
  check_delta(a);
  const View<float, 2> delta = a.delta_TN.as<float>();
  const AttentionKernels& kernels = best_attention_kernels();
  parallel_for(queue.team(), ceil_divide(rows, kBlock), [&](Index block, int) {
    const Index row = block * kBlock;
    for (Index n = 0; n < heads; ++n)
      kernels.delta(rows_of(a.o_TNV, row, n), rows_of(a.do_TNV, row, n), std::min(kBlock, rows - row), width,
                    &delta(row, n), delta.stride[0]);
  });
}

}  // namespace longhaul::kernel
