// longhaul probe: logits, loss and gradients of given tokens.
#include "train/probe.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"

namespace longhaul::cli {

int run_probe(const spec::RunSpec& spec) {
  for (const auto& [option, value] :
       {std::pair("--model", &spec.model), {"--tokens", &spec.tokens_file}, {"--out", &spec.out}})
    if (value->empty())
      throw input_error(fmt::format("{} is missing", option), "on the command line",
                        "longhaul probe --model DIR --tokens CASE.safetensors --out OUT.safetensors");
  const train::ProbeResult r = train::probe(spec);
  if (spec.json)
    fmt::print("{{\"loss\": {}, \"grad_norm\": {}, \"tokens\": {}}}\n", r.loss, r.grad_norm, r.tokens);
  else
    fmt::print("loss {:.6f} over {} tokens, gradient norm {:.6f}; written to {}\n", r.loss, r.tokens, r.grad_norm,
               spec.out);
  return 0;
}

}  // namespace longhaul::cli
