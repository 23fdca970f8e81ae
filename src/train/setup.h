// From what was asked to what every rank needs: model, mesh, memory plan.
#pragma once

#include "spec/run_spec.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace longhaul::train {

// What the data fixes: the rows of a sequence and the sequences of a step.
struct Workload {
  Index length = 0, batch = 1;
  bool trains = true;
};

// Chooses mesh, strategy, layout and what to keep within --memory, and places every buffer. Input errors: degrees that
// do not multiply to the ranks, features that cannot run, a budget that cannot work.
TrainSpec make_train_spec(const spec::RunSpec& run, const spec::ModelSpec& model, const Workload& workload);

}  // namespace longhaul::train
