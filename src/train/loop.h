// A training run from its options to its last checkpoint.
#pragma once

#include <atomic>

#include "spec/run_spec.h"

namespace longhaul::train {

// Trains, resumes, evaluates, saves. `stop` may be set at any time (Ctrl-C): the run then saves and returns after the
// step at hand. Throws input errors before anything runs, run errors when a rank, a disk or the arithmetic fails.
void train(const spec::RunSpec& options, const std::atomic<bool>& stop);

}  // namespace longhaul::train
