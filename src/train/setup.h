// From what was asked to what every rank needs: mesh, memory plan, optimizer.
#pragma once

#include "plan/step_plan.h"
#include "spec/run_spec.h"
#include "train/trainer.h"

namespace longhaul::train {

// The plan of this machine with the ops of this program.
plan::StepPlan plan_run(const spec::RunSpec& run, const spec::ModelSpec& model, const plan::Workload& workload);

// What the ranks need of a plan. Input errors: a model that cannot run, a budget that cannot work.
TrainSpec make_train_spec(const spec::RunSpec& run, const spec::ModelSpec& model, const plan::StepPlan& plan);

}  // namespace longhaul::train
