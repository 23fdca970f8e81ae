// What a person and a file see of a run: lines on the terminal, lines in metrics.jsonl. Only rank 0 has one.
#pragma once

#include <string>
#include <string_view>

#include "io/run_directory.h"
#include "train/evaluation.h"
#include "train/step.h"

namespace longhaul::train {

struct StepRecord {
  Index step = 0;
  StepResult result;
  double seconds = 0;
  double sequence_tokens = 0;              // rows worked on, all ranks
  double mfu = 0, mfu_exact = 0, hfu = 0;  // see spec/flops.h
};

class Reporter {
 public:
  // bytes: tokens are bytes, so losses are also given in bits per byte.
  Reporter(io::RunDirectory* directory, bool bytes, bool json);

  void note(std::string_view text);  // one line for the reader
  void step(const StepRecord& record, Index steps, double seconds_left);
  void evaluation(Index step, const Evaluation& e);
  // Loss by position in the document: does longer context help?
  void by_position(const Evaluation& e, Index documents);
  void end_line();  // of a progress line that is still open

 private:
  std::string loss_text(double loss) const;

  io::RunDirectory* directory_;
  bool bytes_, json_, terminal_, open_line_ = false;
  double last_printed_ = -1e9;
};

}  // namespace longhaul::train
