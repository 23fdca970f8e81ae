// longhaul plan: what a training run will need, and how long a step will take.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "exec/reduce.h"
#include "kernel/ops.h"
#include "plan/step_plan.h"
#include "train/inputs.h"

namespace longhaul::cli {
namespace {

nlohmann::ordered_json to_json(const plan::StepPlan& p) {
  nlohmann::ordered_json j;
  j["parameters"] = p.parameters;
  j["fits"] = p.fits;
  j["peak_bytes"] = p.peak_bytes;
  j["strategy"] = p.choice.strategy->name;
  j["layout"] = plan::name_of(p.choice.layout);
  j["reason"] = p.choice.reason;
  j["budget_bytes"] = p.budget_bytes;
  j["cannot_run"] = p.cannot_run;
  j["mesh"] = {{"ranks", p.mesh.ranks()},   {"data", p.mesh.data},     {"fsdp", p.mesh.fsdp},
               {"context", p.mesh.context}, {"tensor", p.mesh.tensor}, {"ulysses", p.mesh.ulysses},
               {"threads", p.threads}};
  j["dtype"] = name_of(p.storage);
  j["kernel"] = p.attention->name;
  j["rows"] = p.sizes.rows;
  j["balance"] = p.choice.balance;
  j["bytes_sent_per_attention"] = p.choice.bytes;
  j["state_bytes"] = p.state_bytes;
  j["activation_bytes"] = p.activation_bytes;
  j["outside_bytes"] = p.outside_bytes;
  for (const plan::MemoryRow& m : p.memory)
    j["memory"].push_back({{"name", m.name}, {"bytes", m.bytes}, {"note", m.note}});
  j["flops"] = {{"conventional", p.flops.conventional}, {"exact", p.flops.exact}, {"hardware", p.flops.hardware}};
  j["seconds"] = p.seconds;
  j["rates"] = p.rates_from;
  return j;
}

}  // namespace

int run_plan(const spec::RunSpec& spec) {
  if (!spec.given("model"))
    throw input_error("no model is given", "--model",
                      "give a preset such as --model llama3.1-8b, or a Hugging Face directory");
  const train::ModelSource source = train::open_model(spec.model);
  const plan::StepPlan p = plan::make_plan({.run = spec,
                                            .model = source.spec,
                                            .work = {.length = spec.context, .batch = spec.batch},
                                            .machine = plan::machine_at_hand(),
                                            .ops = kernel::cpu_ops(),
                                            .sum_scratch_bytes = exec::sum_scratch_bytes});
  if (spec.json)
    fmt::print("{}\n", to_json(p).dump(2));
  else
    fmt::print("{}", plan::to_text(p));
  return 0;
}

}  // namespace longhaul::cli
