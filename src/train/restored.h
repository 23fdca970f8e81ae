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
  Index context = 0, documents = 0, long_document_count = 0;
  double context_free_bits = 0;  // a byte
};
// Held-out loss of a checkpoint on run.data: the documents that train holds out. Data, context and document mask that
// are not given are those of the training run. `on_row` as in evaluate(), of rank 0.
EvalResult evaluate_checkpoint(spec::RunSpec run, const std::function<void(Index done, Index all)>& on_row = {});

// Continues run.prompt by run.length bytes; returns both. `on_byte` hears of each byte of both as soon as it is known.
std::string generate_text(const spec::RunSpec& run, const std::function<void(char)>& on_byte = {});

}  // namespace longhaul::train
