// Meshes agree: a pairwise-covering set of meshes against one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "train/small_run.h"

namespace longhaul {
namespace {

using strategy::LayoutKind;
using test::SmallRun;

struct Heads {
  Index q, kv;
};
// The values of each factor: what differs between two runs.
constexpr std::array kData{1, 2, 3};
constexpr std::array kContext{1, 2, 3, 4, 5, 7, 8};
constexpr std::array kStrategy{"all_gather", "ring", "ulysses", "usp"};
constexpr std::array kLayout{LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped};
constexpr std::array<Index, 5> kLength{1, 3, 7, 23, 37};
constexpr std::array kHeads{Heads{4, 2}, Heads{5, 1}, Heads{3, 3}, Heads{8, 2}};
constexpr std::array kDocuments{1, 4};
constexpr std::array<Index, 2> kWindow{0, 5};
constexpr std::array<std::size_t, 8> kFactors{kData.size(),   kContext.size(), kStrategy.size(),  kLayout.size(),
                                              kLength.size(), kHeads.size(),   kDocuments.size(), kWindow.size()};
using Choice = std::array<int, 8>;

bool allowed(const Choice& c) {
  return kData[c[0]] * kContext[c[1]] <= 8;
}

// Greedy: each mesh is the best of some thousand random ones; in the end every pair of values that can occur together
// does occur.
std::vector<Choice> pairwise_covering() {
  std::set<std::array<int, 4>> open;  // factor, value, factor, value
  const auto pairs = [](const Choice& c, auto&& visit) {
    for (int a = 0; a < 8; ++a)
      for (int b = a + 1; b < 8; ++b) visit(std::array{a, c[a], b, c[b]});
  };
  for (int a = 0; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b)
      for (int x = 0; x < static_cast<int>(kFactors[a]); ++x)
        for (int y = 0; y < static_cast<int>(kFactors[b]); ++y)
          if (!(a == 0 && b == 1 && kData[x] * kContext[y] > 8)) open.insert({a, x, b, y});
  std::vector<Choice> chosen;
  std::uint64_t draw = 0;
  while (!open.empty()) {
    Choice best{};
    int most = -1;
    const auto& must = *open.begin();
    for (int i = 0; i < 400; ++i) {
      Choice c{};
      for (int f = 0; f < 8; ++f) c[f] = static_cast<int>(random_bits(5, 0, draw++) % kFactors[f]);
      c[must[0]] = must[1], c[must[2]] = must[3];
      if (!allowed(c)) continue;
      int n = 0;
      pairs(c, [&](const auto& p) { n += open.count(p) != 0; });
      if (n > most) most = n, best = c;
    }
    pairs(best, [&](const auto& p) { open.erase(p); });
    chosen.push_back(best);
  }
  return chosen;
}

SmallRun run_of(const Choice& c) {
  SmallRun r;
  r.data = kData[c[0]], r.context = kContext[c[1]], r.strategy = kStrategy[c[2]], r.layout = kLayout[c[3]];
  r.length = kLength[c[4]], r.q_heads = kHeads[c[5]].q, r.kv_heads = kHeads[c[5]].kv;
  r.documents = kDocuments[c[6]], r.mask.window = kWindow[c[7]];
  if (std::string(r.strategy) == "usp")
    for (int u = 2; u <= r.context; ++u)
      if (r.context % u == 0) {
        r.ulysses = u;
        break;
      }
  if (std::string(r.strategy) == "ulysses") r.ulysses = r.context;
  r.batch = 5;
  return r;
}

std::string describe(const SmallRun& r) {
  return std::string(r.strategy) + " data " + std::to_string(r.data) + " context " + std::to_string(r.context) +
         " ulysses " + std::to_string(r.ulysses) + " layout " + std::to_string(static_cast<int>(r.layout)) +
         " length " + std::to_string(r.length) + " heads " + std::to_string(r.q_heads) + "/" +
         std::to_string(r.kv_heads) + " documents " + std::to_string(r.documents) + " window " +
         std::to_string(r.mask.window);
}

struct Outcome {
  double first_loss = 0, last_loss = 0;
  std::vector<double> gradient, weights;  // of step 1, after step 5
};

Outcome train_five_steps(const SmallRun& run) {
  Outcome out;
  on_ranks(run, [&](train::Trainer& t) {
    const test::RandomBatches batches(run);
    for (Index step = 1; step <= 5; ++step) {
      const auto result = train_step(t, batches, step, 5);
      if (t.rank != 0) continue;
      if (step == 1) out.first_loss = result.loss, out.gradient = test::values_of(t.state.gradient);
      out.last_loss = result.loss;
    }
    if (t.rank == 0) out.weights = test::values_of(t.state.master);
  });
  return out;
}

SmallRun one_rank(SmallRun r) {
  r.data = r.context = r.ulysses = 1, r.strategy = "single", r.layout = LayoutKind::kContiguous;
  return r;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double d = 0;
  for (std::size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

double relative_rms(const std::vector<double>& a, const std::vector<double>& b) {
  double d = 0, n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) d += (a[i] - b[i]) * (a[i] - b[i]), n += b[i] * b[i];
  return std::sqrt(d / n);
}

// In fp64 only rounding may differ; in fp32 the error against fp64 may not exceed twice the one rank's own error and
// 4 ulp of the largest value x log2(T + 1), as for attention.
TEST(Meshes, AgreeWithOneRank) {
  const auto meshes = pairwise_covering();
  EXPECT_LE(meshes.size(), 60u);
  std::map<std::string, std::array<Outcome, 2>> oracles;
  for (const Choice& choice : meshes) {
    SmallRun run = run_of(choice);
    SCOPED_TRACE(describe(run));
    SmallRun alone = one_rank(run);
    auto& oracle = oracles[describe(alone)];
    if (oracle[0].weights.empty()) {
      alone.storage = DType::kF64;
      oracle[0] = train_five_steps(alone);
      alone.storage = DType::kF32;
      oracle[1] = train_five_steps(alone);
    }
    const Outcome& exact = oracle[0];
    const double ulps = 4 * 1.2e-7 * std::log2(static_cast<double>(run.length) + 1);

    run.storage = DType::kF64;
    const Outcome wide = train_five_steps(run);
    double top = 0;
    for (double g : exact.gradient) top = std::max(top, std::abs(g));
    EXPECT_NEAR(wide.first_loss, exact.first_loss, 1e-13 * (1 + exact.first_loss));
    EXPECT_LE(largest_difference(wide.gradient, exact.gradient), 1e-13 * (1 + top));
    EXPECT_LE(relative_rms(wide.weights, exact.weights), 1e-9);  // AdamW divides rounding by sqrt(v) + eps

    run.storage = DType::kF32;
    const Outcome got = train_five_steps(run);
    EXPECT_LE(std::abs(got.first_loss - exact.first_loss),
              2 * std::abs(oracle[1].first_loss - exact.first_loss) + ulps * exact.first_loss);
    EXPECT_LE(largest_difference(got.gradient, exact.gradient),
              2 * largest_difference(oracle[1].gradient, exact.gradient) + ulps * top);
    EXPECT_NEAR(got.last_loss, exact.last_loss, 1e-5 * (1 + exact.last_loss));
    EXPECT_LE(relative_rms(got.weights, exact.weights), 1e-4);
  }
}

TEST(Meshes, RepeatBitForBit) {
  for (const char* strategy : {"all_gather", "ring", "ulysses", "usp"}) {
    SmallRun run;
    run.strategy = strategy, run.context = 4,
    run.ulysses = std::string(strategy) == "usp"       ? 2
                  : std::string(strategy) == "ulysses" ? 4
                                                       : 1;
    run.layout = LayoutKind::kZigzag, run.documents = 3, run.threads = 2;
    EXPECT_EQ(train_five_steps(run).weights, train_five_steps(run).weights) << strategy;
  }
}

}  // namespace
}  // namespace longhaul
