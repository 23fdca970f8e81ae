// longhaul probe: logits, loss and gradients of given tokens.
#include "train/probe.h"

#include <fmt/format.h>

#include "cli/commands.h"

namespace longhaul::cli {

int run_probe(const spec::RunSpec& spec) {
  const train::ProbeResult r = train::probe(spec);
  if (spec.json)
    fmt::print("{{\"loss\": {}, \"grad_norm\": {}, \"tokens\": {}}}\n", r.loss, r.grad_norm, r.tokens);
  else
    fmt::print("loss {:.6f} over {} tokens, gradient norm {:.6f}; written to {}\n", r.loss, r.tokens, r.grad_norm,
               spec.out);
  return 0;
}

}  // namespace longhaul::cli
