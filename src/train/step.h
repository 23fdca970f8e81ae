// One training step.
#pragma once

#include "train/trainer.h"

namespace longhaul::train {

struct StepResult {
  double loss = 0;       // mean over the valid targets of the global batch, before the update
  double grad_norm = 0;  // before clipping
  double lr = 0;
  Index tokens = 0;          // valid targets of the global batch
  double visible_pairs = 0;  // (query, key) pairs that mask and documents leave, a layer, all sequences
};

// Step counts from 1; `steps` is the last of the run (the learning rate needs it).
StepResult train_step(Trainer& trainer, const Batches& batches, Index step, Index steps);

}  // namespace longhaul::train
