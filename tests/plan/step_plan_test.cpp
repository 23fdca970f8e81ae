// Plans: rows add up, budgets are kept by giving up what the order says, mistakes are refused, and large models are
// planned in no time.
#include "plan/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "exec/reduce.h"
#include "kernel/ops.h"
#include "plan/memory.h"
#include "plan/products.h"

namespace longhaul::plan {
namespace {

using spec::LayerPolicy;

struct Asked {
  std::string model = "mini";
  std::vector<std::pair<std::string, std::string>> options;
  bool trains = true;
  Machine machine = {.cores = 2, .memory = 0};
};

StepPlan plan_of(const Asked& asked) {
  spec::RunSpec run = spec::defaults_of("plan");
  for (const auto& [name, value] : asked.options) spec::set_option(run, name, std::span(&value, 1), "--" + name);
  return make_plan({.run = run,
                    .model = *spec::find_preset(asked.model),
                    .work = {.length = run.context, .batch = run.batch, .trains = asked.trains, .saves = asked.trains},
                    .machine = asked.machine,
                    .ops = kernel::cpu_ops(),
                    .sum_scratch_bytes = exec::sum_scratch_bytes});
}

void expect_sound(const StepPlan& p, const std::string& which) {
  Index sum = 0, arena = 0;
  for (const MemoryRow& m : p.memory) sum += m.bytes;
  EXPECT_EQ(sum, p.peak_bytes) << which;
  for (const spec::Buffer& b : p.activations) {
    EXPECT_GE(b.offset, 0) << which;
    arena = std::max(arena, b.offset + b.bytes());
  }
  EXPECT_LE(arena, p.activation_bytes) << which;
  EXPECT_LE(static_cast<double>(p.activation_bytes), 1.05 * static_cast<double>(largest_live_bytes(p.activations)))
      << which;
  EXPECT_EQ(p.mesh.ulysses, p.choice.ulysses) << which;
  EXPECT_GT(p.seconds, 0) << which;
  EXPECT_FALSE(to_text(p).empty());
}

TEST(StepPlan, RowsAddUp) {
  for (const char* model : {"tiny", "mini", "llama3.1-8b"})
    for (const char* dtype : {"fp32", "bf16", "fp64"})
      for (const char* ranks : {"1", "2", "3", "8"})
        for (bool trains : {true, false})
          expect_sound(plan_of({model, {{"context", "2K"}, {"ranks", ranks}, {"dtype", dtype}}, trains}),
                       std::string(model) + " " + dtype + " ranks " + ranks + " trains " + std::to_string(trains));
}

TEST(StepPlan, StateOfAModel) {
  const StepPlan p = plan_of({"mini", {{"dtype", "fp32"}}});
  EXPECT_EQ(p.parameters, 426624);
  EXPECT_EQ(p.state_bytes, 4 * 4 * 426624);  // weights, gradients, two moments; 426,624 is a multiple of 16
  const StepPlan b = plan_of({"mini", {{"dtype", "bf16"}}});
  EXPECT_EQ(b.state_bytes, (4 * 4 + 2) * 426624);
  EXPECT_EQ(plan_of({"mini", {{"dtype", "fp32"}}, false}).state_bytes, 4 * 426624);
  EXPECT_EQ(p.outside_bytes, 8192 * 64 + 3 * 4 * 426624);  // tokens twice and rows; the snapshot
}

TEST(StepPlan, ScratchIsTheLargestOfAll) {
  const StepPlan p = plan_of({"tiny", {{"ranks", "2"}, {"context", "4K"}, {"dtype", "fp32"}, {"threads", "3"}}});
  const Ops& ops = kernel::cpu_ops();
  for (const ProductUse& use : products_of(*spec::find_preset("tiny"), p.sizes, p.policy))
    EXPECT_GE(p.sizes.scratch_bytes, ops.matmul_scratch(use.shape, 3)) << use.name;
  EXPECT_GE(p.sizes.scratch_bytes, ops.rms_norm_backward_scratch(2048, 64, DType::kF32, 3));
  EXPECT_GE(p.sizes.scratch_bytes, exec::sum_scratch_bytes(p.parameters, DType::kF32, 2));
  EXPECT_GE(p.sizes.scratch_bytes, p.attention->scratch_bytes({DType::kF32, 1024, 1024, 4, 2, 16, 16}, 3));
}

// Products of a step do the operations that flops_of_step counts without attention.
TEST(StepPlan, ProductsAreTheOperations) {
  for (const char* name : {"tiny", "mini", "llama3.1-8b"})
    for (LayerPolicy policy : {LayerPolicy::kKeep, LayerPolicy::kRecomputeMlp, LayerPolicy::kRecomputeLayer}) {
      const spec::ModelSpec& m = *spec::find_preset(name);
      const std::vector<LayerPolicy> policies(static_cast<std::size_t>(m.layers), policy);
      const spec::LocalSizes sizes{3000, 1024, 512, 0, 0, DType::kBF16, true};
      double flops = 0;
      for (const ProductUse& u : products_of(m, sizes, policies))
        flops += 2.0 * static_cast<double>(u.shape.m) * static_cast<double>(u.shape.k) *
                 static_cast<double>(u.shape.n) * u.calls;
      const spec::StepFlops f = spec::flops_of_step(m, {1, 3000, 0}, policies);
      EXPECT_NEAR(flops / f.hardware, 1, 1e-12) << name << " policy " << static_cast<int>(policy);
    }
}

TEST(StepPlan, GivesUpInOrderUntilTheBudgetIsKept) {
  const Asked whole{"mini", {{"context", "32K"}, {"ranks", "2"}, {"dtype", "fp32"}}};
  const StepPlan keep = plan_of(whole);
  EXPECT_EQ(std::ranges::count(keep.policy, LayerPolicy::kKeep), 2);
  EXPECT_TRUE(keep.fits);
  EXPECT_EQ(keep.budget_bytes, 0);
  int last = 0;
  for (double share : {1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5}) {
    Asked asked = whole;
    asked.options.push_back(
        {"memory", std::to_string(static_cast<Index>(share * static_cast<double>(keep.peak_bytes)))});
    const StepPlan p = plan_of(asked);
    expect_sound(p, "share " + std::to_string(share));
    EXPECT_EQ(p.fits, p.peak_bytes <= p.budget_bytes) << share;
    int given_up = 0;
    for (LayerPolicy q : p.policy) given_up += static_cast<int>(q);
    EXPECT_GE(given_up, last) << share;
    last = given_up;
  }
  EXPECT_GE(last, 3);  // at half of the memory a whole layer at least is made again
}

TEST(StepPlan, ABudgetThatCannotWork) {
  const StepPlan p = plan_of({"mini", {{"memory", "1K"}}});
  EXPECT_FALSE(p.fits);
  EXPECT_EQ(std::ranges::count(p.policy, LayerPolicy::kRecomputeLayer), 2);
  try {
    require_runnable(p);
    ADD_FAILURE() << "1 KiB was enough";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::kInput);
    EXPECT_NE(std::string(e.what()).find("1.00 KiB"), std::string::npos) << e.what();
  }
  require_runnable(plan_of({"mini", {}}));
  // Without --memory the machine's memory is shared by the ranks.
  const StepPlan shared = plan_of({"mini", {{"ranks", "4"}}, true, {.cores = 2, .memory = Index{1} << 32}});
  EXPECT_EQ(shared.budget_bytes, Index{1} << 30);
}

TEST(StepPlan, PlansForMoreThanItRuns) {
  for (const Asked& asked : {Asked{"olmo3-7b", {}}, Asked{"gemma4-31b", {}}, Asked{"llama3.1-8b", {{"fsdp", "2"}}},
                             Asked{"llama3.1-8b", {{"ranks", "4"}, {"tensor-parallel", "2"}}}}) {
    const StepPlan p = plan_of(asked);
    expect_sound(p, asked.model);
    EXPECT_FALSE(p.cannot_run.empty());
    EXPECT_THROW(require_runnable(p), Error);
  }
  const StepPlan whole = plan_of({"llama3.1-8b", {{"dtype", "bf16"}}}),
                 half = plan_of({"llama3.1-8b", {{"dtype", "bf16"}, {"fsdp", "2"}}});
  EXPECT_LT(half.state_bytes, whole.state_bytes * 0.6);
}

TEST(StepPlan, RefusesWhatCannotBe) {
  for (const Asked& asked : {Asked{"tiny", {{"ranks", "4"}, {"context-parallel", "3"}, {"data-parallel", "2"}}},
                             Asked{"tiny", {{"kernel", "tensor-cores"}}}, Asked{"tiny", {{"expert-parallel", "2"}}},
                             Asked{"tiny", {{"context-parallel", "2"}, {"strategy", "single"}}},
                             Asked{"tiny", {{"ranks", "4"}, {"ulysses", "3"}}}})
    EXPECT_THROW(plan_of(asked), Error) << asked.options[0].first;
  EXPECT_EQ(plan_of({"tiny", {{"ranks", "2"}, {"strategy", "single"}}}).mesh.data, 2);
}

TEST(StepPlan, ShortSequencesOnManyRanks) {
  for (const char* context : {"1", "2", "5", "31"})
    for (const char* strategy : {"auto", "ring", "all_gather", "ulysses", "usp"})
      expect_sound(plan_of({"tiny", {{"context", context}, {"ranks", "8"}, {"strategy", strategy}}}),
                   std::string(context) + " " + strategy);
}

TEST(StepPlan, LargeModelsTakeNoTime) {
  const std::clock_t start = std::clock();
  const StepPlan p =
      plan_of({"llama3-405b", {{"context", "1M"}, {"ranks", "512"}, {"fsdp", "8"}, {"tensor-parallel", "8"}}});
  plan_of({"llama3.1-8b", {{"context", "16M"}, {"ranks", "64"}}});
  EXPECT_LT(std::clock() - start, 4 * CLOCKS_PER_SEC);  // 0.3 s, tenfold for sanitizers
  EXPECT_EQ(p.parameters, 405853388800);
  EXPECT_EQ(p.mesh.context, 8);
}

TEST(StepPlan, DtypeAutoFollowsTheMachine) {
  Machine machine;
  EXPECT_EQ(storage_for("auto", machine), DType::kF32);
  machine.multiplies_bf16 = true;
  EXPECT_EQ(storage_for("auto", machine), DType::kBF16);
  EXPECT_EQ(storage_for("fp64", machine), DType::kF64);
  const Machine here = machine_at_hand();
  EXPECT_GE(here.cores, 1);
  EXPECT_GT(here.memory, Index{64} << 20);
}

}  // namespace
}  // namespace longhaul::plan
