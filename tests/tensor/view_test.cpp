// Views address what their shapes say: every derived view is compared element by element with the index arithmetic.
#include "tensor/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace longhaul {
namespace {

std::vector<float> counted(Index n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

TEST(View, IsRowMajor) {
  std::vector<float> memory = counted(2 * 3 * 5);
  const AnyView<3> any = make_view<3>(memory.data(), DType::kF32, {2, 3, 5});
  const View<float, 3> v = any.as<float>();
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 5; ++k) EXPECT_EQ(v(i, j, k), static_cast<float>((i * 3 + j) * 5 + k));
  EXPECT_EQ(any.count(), 30);
  EXPECT_TRUE(any.contiguous());
  EXPECT_EQ(any.bytes().size, 120);
  EXPECT_EQ(any.as<const float>()(1, 2, 4), 29.0f);
}

TEST(View, SlicesOfEachDimension) {
  std::vector<float> memory = counted(4 * 6);
  const AnyView<2> a = make_view<2>(memory.data(), DType::kF32, {4, 6});
  const AnyView<2> rows = a.slice(0, 1, 2), columns = a.slice(1, 2, 3), both = rows.slice(1, 5, 1);
  EXPECT_TRUE(rows.contiguous());
  EXPECT_FALSE(columns.contiguous());
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 6; ++j) EXPECT_EQ(rows.as<float>()(i, j), static_cast<float>((i + 1) * 6 + j));
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(columns.as<float>()(i, j), static_cast<float>(i * 6 + j + 2));
  EXPECT_EQ(both.as<float>()(1, 0), 17.0f);
  EXPECT_EQ(a.slice(0, 4, 0).count(), 0);
  EXPECT_EQ(a.slice(0, 4, 0).bytes().size, 0);
}

TEST(View, TransposeMovesNothing) {
  std::vector<float> memory = counted(3 * 4);
  const AnyView<2> a = make_view<2>(memory.data(), DType::kF32, {3, 4}), t = transpose(a);
  EXPECT_EQ(t.extent[0], 4);
  EXPECT_EQ(t.extent[1], 3);
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 4; ++j) EXPECT_EQ(&t.as<float>()(j, i), &a.as<float>()(i, j));
  EXPECT_FALSE(t.contiguous());
  EXPECT_TRUE(transpose(t).contiguous());
  // One row or one column reads the same either way.
  EXPECT_TRUE(transpose(make_view<2>(memory.data(), DType::kF32, {1, 12})).contiguous());
  EXPECT_TRUE(transpose(make_view<2>(memory.data(), DType::kF32, {12, 1})).contiguous());
}

TEST(View, HeadsJoinAndSplit) {
  const Index T = 5, H = 3, D = 4, wide = 20;  // rows of 12 elements, 20 apart, as a part of a joint projection
  std::vector<float> memory = counted(T * wide);
  const AnyView<2> joint = make_view<2>(memory.data(), DType::kF32, {T, wide}).slice(1, 6, H * D);
  const AnyView<3> heads = split_heads(joint, H);
  for (Index t = 0; t < T; ++t)
    for (Index h = 0; h < H; ++h)
      for (Index d = 0; d < D; ++d) EXPECT_EQ(heads.as<float>()(t, h, d), static_cast<float>(t * wide + 6 + h * D + d));
  const AnyView<2> again = join_heads(heads);
  EXPECT_EQ(again.data, joint.data);
  for (int d = 0; d < 2; ++d) {
    EXPECT_EQ(again.extent[d], joint.extent[d]);
    EXPECT_EQ(again.stride[d], joint.stride[d]);
  }
  // A single head may have any stride.
  EXPECT_EQ(join_heads(heads.slice(1, 1, 1)).extent[1], D);
}

TEST(ViewDeathTest, MistakesStop) {
  std::vector<float> memory = counted(24);
  const AnyView<2> a = make_view<2>(memory.data(), DType::kF32, {4, 6});
  EXPECT_DEATH(a.as<double>(), "the view holds fp32");
  EXPECT_DEATH(a.slice(0, 3, 2), "slice \\[3, 5\\) of dimension 0 with 4");
  EXPECT_DEATH(a.slice(1, -1, 2), "CHECK failed");
  EXPECT_DEATH(a.slice(1, 0, 3).bytes(), "contiguous");
  EXPECT_DEATH(split_heads(a, 4), "6 columns, 4 heads");
  EXPECT_DEATH(split_heads(transpose(a), 2), "CHECK failed");
  EXPECT_DEATH(join_heads(make_view<3>(memory.data(), DType::kF32, {2, 3, 4}).slice(2, 0, 2)), "not adjacent");
}

TEST(DType, SizesNamesAndAccumulators) {
  EXPECT_EQ(size_of(DType::kF64) + size_of(DType::kI64), 16);
  EXPECT_EQ(size_of(DType::kF32) + size_of(DType::kI32), 8);
  EXPECT_EQ(size_of(DType::kBF16) + size_of(DType::kU8), 3);
  EXPECT_STREQ(name_of(DType::kBF16), "bf16");
  EXPECT_EQ(accumulator_of(DType::kBF16), DType::kF32);
  EXPECT_EQ(accumulator_of(DType::kF32), DType::kF32);
  EXPECT_EQ(accumulator_of(DType::kF64), DType::kF64);
}

}  // namespace
}  // namespace longhaul
