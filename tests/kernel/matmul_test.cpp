// What a table of cases does not show of the matrix product: scratch asked for once and used with fewer rows, slices.
#include <gtest/gtest.h>

#include "kernel/ops.h"
#include "tensors.h"

namespace longhaul::testing {
namespace {

struct Shape {
  Index m, k, n;
  bool a_transposed, b_transposed;
  DType storage;
};

std::string text(const Shape& s) {
  return "m " + std::to_string(s.m) + " k " + std::to_string(s.k) + " n " + std::to_string(s.n) +
         (s.a_transposed ? " a'" : "") + (s.b_transposed ? " b'" : "") + " " + name_of(s.storage);
}

// Small integers, so that both must agree exactly.
void check_product(const Shape& s, Index gap, Queue& queue, Bytes scratch) {
  Tensor a = s.a_transposed ? Tensor(s.storage, s.k, s.m, gap) : Tensor(s.storage, s.m, s.k, gap);
  Tensor b = s.b_transposed ? Tensor(s.storage, s.n, s.k, gap) : Tensor(s.storage, s.k, s.n, gap);
  Tensor c(DType::kF32, s.m, s.n, gap), want(DType::kF32, s.m, s.n);
  a.integers(1, 2), b.integers(2, 2), c.integers(3, 9), want.integers(3, 9);
  const AnyView<2> a_MK = s.a_transposed ? transpose(a.matrix()) : a.matrix();
  const AnyView<2> b_KN = s.b_transposed ? transpose(b.matrix()) : b.matrix();
  kernel::cpu_ops().matmul(queue, {a_MK, b_KN, c.matrix(), true}, scratch);
  kernel::reference_ops().matmul(queue, {a_MK, b_KN, want.matrix(), true}, {});
  EXPECT_EQ(c.values(), want.values()) << text(s) << " gap " << gap;
  EXPECT_TRUE(c.gaps_untouched()) << text(s) << " gap " << gap;
}

// A plan asks for the scratch of its longest sequence; shorter ones, and slices, must do with it.
TEST(Matmul, ScratchForManyRowsServesFewer) {
  constexpr Index kRows = 600;
  for (const DType storage : {DType::kF32, DType::kBF16})
    for (int way = 0; way < 3; ++way) {  // y = x W', dx = dy W, dW += dy' x
      CpuQueue queue(2);
      const Shape planned{way == 2 ? 48 : kRows, way == 2 ? kRows : 40, 72, way == 2, way == 0, storage};
      std::vector<std::byte> memory(kernel::cpu_ops().matmul_scratch(
          {planned.m, planned.k, planned.n, storage, DType::kF32, planned.a_transposed, planned.b_transposed, true},
          queue.team().threads));
      for (const Index rows : {1, 2, 31, 64, 257, 512, 600})
        for (const Index gap : {0, 8}) {
          Shape s = planned;
          (way == 2 ? s.k : s.m) = rows;
          check_product(s, gap, queue, {memory.data(), static_cast<Index>(memory.size())});
        }
    }
}

// One row or one column: strides that say nothing must not mislead.
TEST(Matmul, VectorsWithAnyStride) {
  CpuQueue queue(1);
  std::vector<std::byte> memory(kernel::cpu_ops().matmul_scratch({1, 5, 3}, 1));
  Tensor column(DType::kF32, 5, 1, 2), b(DType::kF32, 5, 3), c(DType::kF32, 1, 3), want(DType::kF32, 1, 3);
  column.integers(1, 3), b.integers(2, 3);
  AnyView<2> row = transpose(column.matrix());  // [1, 5], elements 3 apart: b's stride of 1 is the row's
  row.stride[0] = 1;
  kernel::reference_ops().matmul(queue, {row, b.matrix(), want.matrix()}, {});
  kernel::cpu_ops().matmul(queue, {row, b.matrix(), c.matrix()}, {memory.data(), static_cast<Index>(memory.size())});
  EXPECT_EQ(c.values(), want.values());
}

}  // namespace
}  // namespace longhaul::testing
