// Operation counts against loops and against published figures.
#include "spec/flops.h"

#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

std::vector<LayerPolicy> all(const ModelSpec& m, LayerPolicy p) {
  return std::vector<LayerPolicy>(static_cast<std::size_t>(m.layers), p);
}

TEST(Pairs, ClosedFormEqualsCounting) {
  for (Order order : {Order::kCausal, Order::kFull})
    for (Index window : {0, 1, 3, 8, 40})
      for (Index chunk : {0, 1, 5, 16})
        for (Index length : {1, 2, 7, 16, 33})
          for (const RowRange rows : {RowRange{0, length, 1}, RowRange{length / 3, length - length / 3, 1},
                                      RowRange{1, (length - 1 + 2) / 3, 3}}) {
            const MaskSpec mask{order, window, chunk};
            double counted = 0;
            for (Index i = 0; i < rows.count; ++i)
              for (Index j = 0; j < length; ++j) {
                const Index row = rows.first + i * rows.step;
                counted += visible(mask, Token{row, row, 1}, Token{j, j, 1});
              }
            EXPECT_EQ(visible_pairs(mask, length, rows), counted)
                << "order " << static_cast<int>(order) << " window " << window << " chunk " << chunk << " length "
                << length << " from " << rows.first << " step " << rows.step;
          }
}

// 6 x parameters x tokens + causal half attention x 3, written out: 426,624 parameters, tied; 2 layers, 128 wide.
TEST(Flops, MiniByTheConvention) {
  const ModelSpec& m = *find_preset("mini");
  const StepFlops f = flops_of_step(m, {1, 8192, -1}, all(m, LayerPolicy::kKeep));
  EXPECT_EQ(count_parameters(m), 426624);
  EXPECT_EQ(f.conventional, 6.0 * 426624 * 8192 + 3.0 * 2 * 2 * 8192.0 * 8192.0 * 128);
  EXPECT_LE(f.conventional, 1.3e11);
}

// GFLOP a token at 8K, 128K and 1M tokens: the models' published shapes by the same convention (4 digits each).
TEST(Flops, PublishedModels) {
  struct {
    const char* name;
    double at[3];
  } const rows[] = {
      {"llama3.1-8b", {51.5, 148, 870}}, {"llama3-70b", {449, 932, 4540}}, {"llama3-405b", {2524, 4046, 15411}}};
  for (const auto& row : rows)
    for (int i = 0; i < 3; ++i) {
      const Index length = Index{1} << (i == 0 ? 13 : i == 1 ? 17 : 20);
      const ModelSpec& m = *find_preset(row.name);
      const double f = flops_of_step(m, {1, length, -1}, all(m, LayerPolicy::kKeep)).conventional /
                       static_cast<double>(length) / 1e9;
      EXPECT_NEAR(f / row.at[i], 1, 3e-3) << row.name << " at " << length << ": " << f;
    }
  // Windows count in the exact figure: 46.6, 71.8, 252 for OLMo 3, 197, 318, 1,220 for Gemma 4.
  for (const auto& [name, want] : {std::pair{"olmo3-7b", 252.0}, std::pair{"gemma4-31b", 1220.0}}) {
    const ModelSpec& m = *find_preset(name);
    const double f = flops_of_step(m, {1, 1 << 20, -1}, all(m, LayerPolicy::kKeep)).exact / (1 << 20) / 1e9;
    EXPECT_NEAR(f / want, 1, 5e-3) << name << ": " << f;
  }
}

TEST(Flops, ExactCountsTheMaskAndHardwareWhatIsMadeAgain) {
  ModelSpec m = *find_preset("tiny");  // E 64, N 4, G 2, D 16, F 128, V 256, 2 layers
  const double matrices = 2 * (64.0 * 16 * (4 + 2 + 2 + 4) + 3 * 64 * 128) + 64 * 256, tokens = 3 * 100;
  const StepWork work{3, 100, -1};
  const StepFlops keep = flops_of_step(m, work, all(m, LayerPolicy::kKeep));
  const double pairs = 3 * 100 * 101 / 2.0, forward = 4 * 2 * 64 * pairs;
  EXPECT_DOUBLE_EQ(keep.exact, 6 * matrices * tokens + 3 * forward);
  EXPECT_DOUBLE_EQ(keep.hardware, 6 * matrices * tokens + 3.5 * forward);
  EXPECT_DOUBLE_EQ(flops_of_step(m, work, all(m, LayerPolicy::kRecomputeMlp)).hardware,
                   keep.hardware + 2 * tokens * 2 * 64 * 256);
  EXPECT_DOUBLE_EQ(flops_of_step(m, work, all(m, LayerPolicy::kRecomputeLayer)).hardware,
                   keep.hardware + 2 * tokens * 2 * 64 * (256 + 16 * 12) + forward);
  EXPECT_DOUBLE_EQ(flops_of_step(m, {3, 100, 500}, all(m, LayerPolicy::kKeep)).exact,
                   6 * matrices * tokens + 3 * 4 * 2 * 64 * 500.0);
  m.mask.window = 10;
  EXPECT_DOUBLE_EQ(flops_of_step(m, work, all(m, LayerPolicy::kKeep)).exact,
                   6 * matrices * tokens + 3 * 4 * 2 * 64 * 3 * (55 + 90 * 10.0));
  EXPECT_DOUBLE_EQ(flops_of_forward(m, work) * 3, flops_of_step(m, work, all(m, LayerPolicy::kKeep)).exact);
}

}  // namespace
}  // namespace longhaul::spec
