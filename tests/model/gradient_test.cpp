// The whole model in fp64 against central differences of its own loss, parameter by parameter.
#include <gtest/gtest.h>

#include <cmath>

#include "train/small_run.h"

namespace longhaul {
namespace {

using spec::LayerPolicy;
using test::SmallRun;

double loss_of_rows(train::Trainer& t, const train::Batches& batches, double scale, bool gradients) {
  double sum = 0;
  for (Index b = 0; b < t.spec.batch; ++b) {
    batches.fill(0, b, t.row);
    t.load(t.row);
    sum += t.run_loaded(scale, gradients);
  }
  return sum * scale;
}

// One random direction a parameter tensor: (L(w + h d) - L(w - h d)) / 2h = g . d, to the truncation error of h^2.
void check_gradients(const SmallRun& run) {
  on_ranks(run, [&](train::Trainer& t) {
    const test::RandomBatches batches(run);
    const double scale = 1.0 / 31;
    t.spec.ops->fill(t.queue, as_3d(t.state.gradient), 0.0);
    loss_of_rows(t, batches, scale, true);
    const auto w = t.state.master.as<double>();
    const auto g = t.state.gradient.as<double>();
    const double h = 1e-5;
    for (std::size_t p = 0; p < t.table.rows.size(); ++p) {
      const spec::Parameter& row = t.table.rows[p];
      double along = 0, norm = 0;
      const auto shift = [&](double by) {
        for (Index i = 0; i < row.count(); ++i)
          w(row.offset + i) += by * random_normal(11, p, static_cast<std::uint64_t>(i));
      };
      for (Index i = 0; i < row.count(); ++i) {
        along += g(row.offset + i) * random_normal(11, p, static_cast<std::uint64_t>(i));
        norm += g(row.offset + i) * g(row.offset + i);
      }
      shift(h);
      const double up = loss_of_rows(t, batches, scale, false);
      shift(-2 * h);
      const double down = loss_of_rows(t, batches, scale, false);
      shift(h);
      EXPECT_GT(norm, 0) << row.name;
      EXPECT_NEAR((up - down) / (2 * h), along,
                  1e-7 * (1 + std::sqrt(norm) * std::sqrt(static_cast<double>(row.count()))))
          << row.name << " layer " << row.layer;
    }
  });
}

TEST(ModelGradient, AgreesWithFiniteDifferences) {
  SmallRun run;
  run.storage = DType::kF64;
  check_gradients(run);
}

TEST(ModelGradient, TiedPackedAndWindowed) {
  SmallRun run;
  run.storage = DType::kF64, run.tied = true, run.documents = 4, run.mask.window = 6;
  check_gradients(run);
}

// The same gradient, bit for bit, whatever a layer keeps: what is made again is made the same way.
TEST(ModelGradient, DoesNotDependOnWhatIsKept) {
  std::vector<double> want;
  for (LayerPolicy policy : {LayerPolicy::kKeep, LayerPolicy::kRecomputeMlp, LayerPolicy::kRecomputeLayer}) {
    SmallRun run;
    run.policy = policy, run.documents = 3;
    on_ranks(run, [&](train::Trainer& t) {
      train_step(t, test::RandomBatches(run), 1, 5);
      const auto got = test::values_of(t.state.gradient);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << "policy " << static_cast<int>(policy);
    });
  }
}

}  // namespace
}  // namespace longhaul
