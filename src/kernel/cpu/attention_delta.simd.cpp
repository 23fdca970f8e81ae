// delta: for each row of one head, the sum over V of do * o.
#include "kernel/cpu/attention_scores.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

LONGHAUL_INLINE void load_columns(const StridedRows& from, Index row, Index rows, Index column, int count,
                                  Floats (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    x[i] = i < rows ? load_row(from, (row + i) * from.row_stride + column, count) : Floats{};
  transpose(x);
}

}  // namespace

// Rows lie across the lanes, and each is summed in order by fma, as attention_backward sums do * v: where o = v, the
// difference of the two is exactly 0.
void attention_delta(const StridedRows& o, const StridedRows& d_o, Index rows, Index columns, float* delta,
                     Index stride) noexcept {
  for (Index r = 0; r < rows; r += kLanes) {
    Floats sum = {};
    for (Index c = 0; c < columns; c += kLanes) {
      const int count = static_cast<int>(columns - c < kLanes ? columns - c : kLanes);
      Floats x[kLanes], y[kLanes];
      load_columns(o, r, rows - r, c, count, x);
      load_columns(d_o, r, rows - r, c, count, y);
      for (int i = 0; i < count; ++i) sum = fma(y[i], x[i], sum);
    }
    for (int i = 0; i < kLanes && r + i < rows; ++i) delta[(r + i) * stride] = sum[i];
  }
}

}  // namespace longhaul::kernel::LONGHAUL_ISA
