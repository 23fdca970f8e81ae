// Held-out loss, through the same forward pass as training.
#pragma once

#include <array>
#include <functional>

#include "train/trainer.h"

namespace longhaul::train {

// Sums over rows and ranks, the same on every rank.
struct Evaluation {
  static constexpr int kBuckets = 24;  // position p of a token in its document falls in bucket floor(log2(p + 1))
  double loss_sum = 0, tokens = 0;
  std::array<double, kBuckets> bucket_loss{}, bucket_tokens{};

  double mean() const { return tokens > 0 ? loss_sum / tokens : 0; }
};

// Rows [0, rows) of `batches`, each one sequence of step 0, dealt to data ranks like a batch. `on_row` hears, after
// each row of this rank, how many are done and how many there are.
Evaluation evaluate(Trainer& trainer, const Batches& batches, Index rows,
                    const std::function<void(Index done, Index all)>& on_row = {});

}  // namespace longhaul::train
