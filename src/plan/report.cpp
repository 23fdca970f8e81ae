// The plan as text, for people.
#include <fmt/format.h>

#include "base/size.h"
#include "plan/step_plan.h"

namespace longhaul::plan {
namespace {

std::string mesh_text(const StepPlan& p) {
  const strategy::Mesh& m = p.mesh;
  std::string text = fmt::format("{} rank{} = data {} x fsdp {} x context {} x tensor {}", m.ranks(),
                                 m.ranks() == 1 ? "" : "s", m.data, m.fsdp, m.context, m.tensor);
  if (m.ulysses > 1) text += fmt::format(" (ulysses {})", m.ulysses);
  return text + fmt::format(", {} thread{} each", p.threads, p.threads == 1 ? "" : "s");
}

// A count that is easy to read at a glance: "8.03 billion".
std::string count_text(double n) {
  if (n < 1e6) return fmt::format("{:.0f} thousand", n / 1e3);
  return n < 1e9 ? fmt::format("{:.3g} million", n / 1e6) : fmt::format("{:.3g} billion", n / 1e9);
}

// One line a clause, each under the first.
std::string reason_text(const std::string& reason) {
  std::string text;
  for (std::size_t begin = 0; begin < reason.size();) {
    const std::size_t end = std::min(reason.find("; ", begin), reason.size());
    text += fmt::format("           {}\n", reason.substr(begin, end - begin));
    begin = end + 2;
  }
  return text;
}

std::string seconds_text(double s) {
  if (s < 1) return fmt::format("{:.0f} ms", s * 1e3);
  if (s < 600) return fmt::format("{:.1f} s", s);
  if (s < 2 * 86400) return fmt::format("{:.1f} hours", s / 3600);
  return fmt::format("{:.0f} days", s / 86400);
}

}  // namespace

std::string to_text(const StepPlan& p) {
  std::string text = fmt::format("model      {} parameters ({}), {} storage\n", p.parameters,
                                 count_text(static_cast<double>(p.parameters)), name_of(p.storage));
  text += fmt::format("sequences  of {} tokens, {} a step\n", p.length, p.batch);
  text += fmt::format("mesh       {}\n", mesh_text(p));
  text += fmt::format("strategy   {}, layout {}\n", p.choice.strategy->name, name_of(p.choice.layout)) +
          reason_text(p.choice.reason);
  text += fmt::format("kernel     {}\n\n", p.attention->name);
  text += "memory of the largest rank\n";
  for (const MemoryRow& m : p.memory)
    text += fmt::format("  {:<34} {:>10}  {}\n", m.name, format_bytes(m.bytes), m.note);
  text += fmt::format("  {:<34} {:>10}  {}\n", "all", format_bytes(p.peak_bytes),
                      p.budget_bytes == 0 ? "no budget is known"
                      : p.fits            ? fmt::format("fits {} a rank", format_bytes(p.budget_bytes))
                                          : fmt::format("does not fit {} a rank", format_bytes(p.budget_bytes)));
  text += fmt::format("\nstep       {:.3g} FLOP by convention, {:.3g} exact, {:.3g} with what is made again\n",
                      p.flops.conventional, p.flops.exact, p.flops.hardware);
  text += fmt::format("time       about {} a step (rates: {})\n", seconds_text(p.seconds), p.rates_from);
  if (!p.cannot_run.empty()) text += fmt::format("note       {}\n", p.cannot_run);
  return text;
}

}  // namespace longhaul::plan
