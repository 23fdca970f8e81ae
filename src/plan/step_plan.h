// StepPlan: everything about a training step that is decided before it runs: mesh, strategy, what is kept, where every
// byte lies, and how long it should take. Nothing here runs anything.
#pragma once

#include <string>
#include <vector>

#include "contract/ops.h"
#include "plan/machine.h"
#include "plan/strategy_choice.h"
#include "spec/flops.h"
#include "spec/run_spec.h"
#include "strategy/mesh.h"

namespace longhaul::plan {

// What the data fixes.
struct Workload {
  Index length = 0;    // rows of the longest sequence
  Index batch = 1;     // sequences of a step, over all ranks
  bool trains = true;  // false: losses only
  bool saves = true;   // rank 0 keeps memory for the snapshot of a checkpoint
};

struct PlanRequest {
  const spec::RunSpec& run;  // mesh options, dtype, kernel, memory, threads
  const spec::ModelSpec& model;
  Workload work;
  Machine machine;
  const Ops& ops;
  // exec::sum_scratch_bytes: scratch of the sum of gradients over ranks.
  Index (*sum_scratch_bytes)(Index elements, DType type, int ranks) noexcept = nullptr;
};

struct MemoryRow {
  std::string name;
  Index bytes = 0;
  std::string note;
};

struct StepPlan {
  std::string cannot_run;  // empty, or the sentence that says what this program plans for but does not run
  strategy::Mesh mesh;
  Choice choice;  // strategy, layout, ulysses degree, reason; mesh.ulysses is the same degree
  DType storage = DType::kF32;
  Index length = 0, batch = 1;
  int threads = 1;  // a rank
  const AttentionVariant* attention = nullptr;

  spec::LocalSizes sizes;
  std::vector<spec::LayerPolicy> policy;
  std::vector<spec::Buffer> activations;  // placed
  Index activation_bytes = 0;             // of their arena

  Index parameters = 0;     // of the whole model
  Index state_bytes = 0;    // parameters, gradients, optimizer state of one rank
  Index outside_bytes = 0;  // outside the arenas: rows and tokens in host lists, the snapshot of a checkpoint
  Index peak_bytes = 0;     // of the largest rank: all of the above
  Index budget_bytes = 0;   // of a rank; 0: none known
  bool fits = true;
  std::vector<MemoryRow> memory;  // the largest rank's, adding up to peak_bytes

  spec::StepFlops flops;  // over all ranks
  double seconds = 0;     // a step, predicted
  std::string rates_from;
};

// Input errors: degrees that do not multiply to the ranks, a strategy, kernel or degree that cannot be used.
// A plan that does not fit, or that cannot run, is returned all the same.
StepPlan make_plan(const PlanRequest& request);

// For commands that run: an input error with the sentence when the plan cannot run or does not fit.
void require_runnable(const StepPlan& plan);

// auto is bf16 where the machine multiplies it, else fp32.
DType storage_for(std::string_view dtype, const Machine& machine);

// The lines that `longhaul plan` prints.
std::string to_text(const StepPlan& plan);

}  // namespace longhaul::plan
