// probe: logits, loss and every gradient of given tokens, under Hugging Face names.
#pragma once

#include "spec/run_spec.h"

namespace longhaul::train {

struct ProbeResult {
  double loss = 0, grad_norm = 0;
  Index tokens = 0;  // in the loss
};

// Runs run.model on run.tokens_file over the mesh and writes run.out: logits [B, T or logits_tail, V], loss (a scalar),
// and unless no_grad grad_norm and grad.NAME, all F32 but loss and grad_norm (F64). Nothing is written on failure.
ProbeResult probe(const spec::RunSpec& run);

}  // namespace longhaul::train
