// Planted faults of the training step: each is a one-line mistake as the field has made it, and must be caught by the
// comparison with one rank (or by a check at run time) that passes without it.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "exec/reduce.h"
#include "train/evaluation.h"
#include "train/small_run.h"

namespace longhaul {
namespace {

using spec::ActivationId;
using test::SmallRun;

SmallRun two_ranks() {
  SmallRun r;
  r.storage = DType::kF64, r.context = 2, r.strategy = "ring", r.layout = strategy::LayoutKind::kZigzag;
  r.documents = 2, r.batch = 1, r.length = 23;
  return r;
}
SmallRun alone(SmallRun r) {
  r.context = r.data = 1, r.strategy = "single", r.layout = strategy::LayoutKind::kContiguous;
  return r;
}

struct Outcome {
  double loss = 0, valid = 0;
  std::vector<double> gradient;
};

// Mistakes that a run may make: before the row is loaded, after it, and in what the loss is multiplied by.
struct Mistake {
  std::function<void(train::Trainer&, train::Row&)> before_load = [](train::Trainer&, train::Row&) {};
  std::function<void(train::Trainer&)> after_load = [](train::Trainer&) {};
  double loss_factor = 1;
};

Outcome run_with(const SmallRun& run, const Mistake& mistake = {}) {
  Outcome out;
  on_ranks(run, [&](train::Trainer& t) {
    const test::RandomBatches batches(run);
    batches.fill(0, 0, t.row);
    mistake.before_load(t, t.row);
    t.spec.ops->fill(t.queue, as_3d(t.state.gradient), 0.0);
    t.load(t.row);
    mistake.after_load(t);
    const auto labels = t.activations.vector(ActivationId::kLabels, t.sequence.rows()).as<std::int32_t>();
    double sums[2] = {0, 0};
    for (Index i = 0; i < t.sequence.rows(); ++i) sums[1] += labels(i) >= 0;
    exec::sum_over(t.queue, t.world.all(), {&sums[1], 1});
    sums[0] = t.run_loaded(mistake.loss_factor / sums[1], true);
    exec::sum_over(t.queue, t.world.all(), {&sums[0], 1});
    exec::sum_over(t.queue, *t.spec.ops, t.world.all(), t.state.gradient, t.activations.bytes(ActivationId::kScratch));
    if (t.rank != 0) return;
    out = {sums[0] / sums[1] * mistake.loss_factor, sums[1], test::values_of(t.state.gradient)};
  });
  return out;
}

// What the mesh tests ask: the same number of scored tokens, loss and gradient as one rank, to fp64 rounding.
bool agrees(const Outcome& got, const Outcome& want) {
  double top = 0, difference = 0;
  for (std::size_t i = 0; i < want.gradient.size(); ++i) {
    top = std::max(top, std::abs(want.gradient[i]));
    difference = std::max(difference, std::abs(got.gradient[i] - want.gradient[i]));
  }
  return got.valid == want.valid && std::abs(got.loss - want.loss) <= 1e-13 * (1 + want.loss) &&
         difference <= 1e-13 * (1 + top);
}

class TrainFaults : public ::testing::Test {
 protected:
  const SmallRun run = two_ranks();
  const Outcome want = run_with(alone(run));

  void SetUp() override { ASSERT_TRUE(agrees(run_with(run), want)) << "without a fault the mesh must agree"; }
  void expect_caught(const Mistake& mistake) { EXPECT_FALSE(agrees(run_with(run, mistake), want)); }
  static View<std::int32_t, 1> labels_of(train::Trainer& t) {
    return t.activations.vector(ActivationId::kLabels, t.sequence.rows()).as<std::int32_t>();
  }
};

// Labels made by shifting the shard instead of the sequence: the last row of a chunk predicts another chunk's token.
TEST_F(TrainFaults, LabelShiftAtAShardEdge) {
  SmallRun whole = run;
  whole.documents = 1;  // every edge is inside a document
  const Mistake shift_the_shard{.after_load = [](train::Trainer& t) {
    const auto labels = labels_of(t);
    const auto tokens = t.activations.vector(ActivationId::kTokens, t.sequence.rows()).as<std::int32_t>();
    for (Index i = 0; i + 1 < t.sequence.rows(); ++i) labels(i) = tokens(i + 1);
  }};
  const Outcome right = run_with(alone(whole));
  EXPECT_TRUE(agrees(run_with(whole), right));
  EXPECT_FALSE(agrees(run_with(whole, shift_the_shard), right));
}

// One token a shard left out of the loss.
TEST_F(TrainFaults, LabelLostAtAShardEdge) {
  expect_caught({.after_load = [](train::Trainer& t) {
    const auto labels = labels_of(t);
    for (int c = 0; c < t.sequence.layout().chunks(); ++c) {
      const auto chunk = t.sequence.layout().chunk(t.sequence.spec().rank, c);
      if (chunk.count > 0) labels(chunk.offset + chunk.count - 1) = -100;
    }
  }});
}

// The angle of a row from its place in the shard.
TEST_F(TrainFaults, RopeByShardOffset) {
  expect_caught({.before_load = [](train::Trainer& t, train::Row& row) {
    const strategy::Layout layout{t.spec.layout, static_cast<Index>(row.tokens.size()), t.spec.mesh.context};
    for (int r = 0; r < layout.ranks; ++r)
      for (Index i = 0; i < layout.rows(r); ++i) row.positions[layout.row(r, i)] = static_cast<std::int32_t>(i);
  }});
}

// Angles from the row in the sequence. A document whose rows are adjacent does not feel it (RoPE sees differences), so
// the rows of two documents alternate here.
TEST_F(TrainFaults, RopeNotRestartedPerDocument) {
  const auto alternate = [](train::Trainer&, train::Row& row) {
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      row.documents[i] = 1 + static_cast<std::int32_t>(i % 2), row.positions[i] = static_cast<std::int32_t>(i / 2);
      row.labels[i] = i + 2 < row.tokens.size() ? row.tokens[i + 2] : -100;
    }
  };
  const Outcome right = run_with(alone(run), {.before_load = alternate});
  EXPECT_TRUE(agrees(run_with(run, {.before_load = alternate}), right));
  const auto by_row = [&](train::Trainer& t, train::Row& row) {
    alternate(t, row);
    std::iota(row.positions.begin(), row.positions.end(), 0);
  };
  EXPECT_FALSE(agrees(run_with(run, {.before_load = by_row}), right));
}

// The mean of the ranks' means: wrong as soon as ranks have unequal numbers of valid targets.
TEST_F(TrainFaults, MeanOfMeans) {
  double faulty = 0;
  on_ranks(run, [&](train::Trainer& t) {
    test::RandomBatches(run).fill(0, 0, t.row);
    t.load(t.row);
    double own = 0, mean = 0;
    for (Index i = 0; i < t.sequence.rows(); ++i) own += labels_of(t)(i) >= 0;
    mean = t.run_loaded(0, false) / own / t.spec.mesh.context;
    exec::sum_over(t.queue, t.world.all(), {&mean, 1});
    if (t.rank == 0) faulty = mean;
  });
  EXPECT_FALSE(agrees({faulty, want.valid, want.gradient}, want));
}

// The loss multiplied by the context degree, as where a framework divides by it elsewhere.
TEST_F(TrainFaults, LossTimesDegree) {
  expect_caught({.loss_factor = 2});
}

// An evaluation of its own that divides by this rank's targets only: cp times the truth.
TEST_F(TrainFaults, EvalOnAnotherPath) {
  const auto eval_loss = [](const SmallRun& r, bool faulty) {
    double loss = 0;
    on_ranks(r, [&](train::Trainer& t) {
      const test::RandomBatches batches(r);
      train::Evaluation e = evaluate(t, batches, 1);
      double own = 0;
      for (Index i = 0; i < t.sequence.rows(); ++i) own += labels_of(t)(i) >= 0;
      if (t.rank == 0) loss = faulty ? e.loss_sum / own : e.mean();
    });
    return loss;
  };
  const double truth = eval_loss(alone(run), false);
  EXPECT_NEAR(truth, want.loss, 1e-13 * (1 + truth));
  EXPECT_NEAR(eval_loss(run, false), truth, 1e-13 * (1 + truth));
  EXPECT_FALSE(std::abs(eval_loss(run, true) - truth) <= 1e-13 * (1 + truth));
}

// Ranks of one sequence that read different samples are stopped before they compute anything.
TEST_F(TrainFaults, SampleOrderByRank) {
  EXPECT_THROW(
      run_with(run, {.before_load = [](train::Trainer& t,
                                       train::Row& row) { test::RandomBatches(two_ranks()).fill(0, t.rank, row); }}),
      Error);
}

}  // namespace
}  // namespace longhaul
