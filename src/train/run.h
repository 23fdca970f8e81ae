// What the ranks of a run share: its data, its length, its directory. Made once, before any rank starts.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "io/checkpoint.h"
#include "io/run_directory.h"
#include "train/batches.h"
#include "train/inputs.h"
#include "train/setup.h"

namespace longhaul::train {

// How long to train. Whichever of steps and minutes ends first.
struct RunLength {
  Index steps = 0;     // 0: not known yet, to be estimated from the first steps and `minutes`
  double minutes = 0;  // 0: no limit
};

// Text: rows to train on, held-out rows, and held-out documents long enough to ask whether context helps.
struct TextData {
  TextData(const spec::RunSpec& options, Index length);

  io::ByteCorpus corpus;
  io::DocumentRows rows;
  std::optional<io::DocumentRows> held_out;  // none when nothing could be held out
  std::vector<io::Document> long_documents;  // of at least 8 KB and `length` bytes, cut to `length`
  std::optional<io::DocumentRows> long_rows;
  std::unique_ptr<Batches> batches, held_out_batches, long_batches;
  double context_free_bits = 0;  // cross-entropy of the held-out bytes under the byte frequencies of the training text
};

struct Run {
  Run(const spec::RunSpec& options);

  spec::RunSpec options;
  ModelSource source;
  std::optional<io::WeightFiles> weights;
  std::optional<io::BatchFile> file;  // with --batches
  std::unique_ptr<TextData> text;     // else
  std::unique_ptr<Batches> given;     // of the file
  plan::StepPlan plan;
  TrainSpec spec;
  RunLength length;
  std::unique_ptr<io::RunDirectory> directory;  // none without --run
  std::optional<io::Checkpoint> checkpoint;     // to go on from
  std::vector<std::string> notes;               // for the reader, before the first step

  const Batches& batches() const { return text ? *text->batches : *given; }
  std::vector<io::TensorDescription> tensors() const;  // parameters in the flat order, as a checkpoint names them

 private:
  void require_model(const io::Checkpoint& from) const;  // input error: the checkpoint is of another model
  void tell_what_surprises(const plan::Workload& work);  // into notes
};

}  // namespace longhaul::train
