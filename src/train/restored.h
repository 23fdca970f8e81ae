// Commands that use a trained model: eval and generate.
#pragma once

#include <functional>
#include <optional>

#include "spec/run_spec.h"
#include "train/evaluation.h"
#include "train/inputs.h"

namespace longhaul::train {

// The directory that --checkpoint names: a checkpoint, a run directory (its latest checkpoint), or a Hugging Face
// directory. Input errors: none of these.
std::string resolve_checkpoint(const std::string& path);

struct EvalResult {
  Evaluation all;             // held-out rows
  Evaluation long_documents;  // by position; empty when there are none
  Index documents = 0, long_document_count = 0;
  double context_free_bits = 0;  // a byte
};
// Held-out loss of a checkpoint on run.data: the documents that train holds out.
EvalResult evaluate_checkpoint(const spec::RunSpec& run);

// Continues run.prompt by run.length bytes; returns both.
std::string generate_text(const spec::RunSpec& run);

}  // namespace longhaul::train
