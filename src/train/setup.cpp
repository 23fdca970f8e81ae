// From options through the plan to what every rank needs.
#include "train/setup.h"

#include "exec/reduce.h"
#include "kernel/ops.h"

namespace longhaul::train {
namespace {

LrSchedule lr_schedule_of(const std::string& name) {
  if (name == "linear") return LrSchedule::kLinear;
  if (name == "wsd") return LrSchedule::kWsd;
  return name == "constant" ? LrSchedule::kConstant : LrSchedule::kCosine;
}

OptimizerSpec optimizer_of(const spec::RunSpec& run) {
  OptimizerSpec o;
  o.lr = run.lr, o.warmup = run.warmup, o.schedule = lr_schedule_of(run.schedule), o.min_lr_ratio = run.min_lr_ratio;
  o.weight_decay = run.weight_decay, o.decay_norms = run.decay_norms;
  o.beta1 = run.betas[0], o.beta2 = run.betas[1], o.eps = run.eps, o.clip = run.clip;
  return o;
}

}  // namespace

plan::StepPlan plan_run(const spec::RunSpec& run, const spec::ModelSpec& model, const plan::Workload& workload) {
  return plan::make_plan({run, model, workload, plan::machine_at_hand(), kernel::cpu_ops(), exec::sum_scratch_bytes});
}

TrainSpec make_train_spec(const spec::RunSpec& run, const spec::ModelSpec& model, const plan::StepPlan& plan) {
  plan::require_runnable(plan);
  TrainSpec s;
  s.model = model, s.storage = plan.storage, s.mesh = plan.mesh;
  s.strategy = plan.choice.strategy, s.layout = plan.choice.layout;
  s.length = plan.length, s.batch = plan.batch, s.threads = plan.threads;
  s.trains = plan.sizes.gradients;
  s.optimizer = optimizer_of(run);
  s.activations = plan.activations, s.activation_bytes = plan.activation_bytes, s.policy = plan.policy;
  s.ops = &kernel::cpu_ops(), s.attention = plan.attention;
  return s;
}

}  // namespace longhaul::train
