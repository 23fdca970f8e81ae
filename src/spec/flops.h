// Floating-point operations of a training step, counted in three ways. A multiply-add is two.
#pragma once

#include <vector>

#include "spec/tensor_table.h"

namespace longhaul::spec {

// Rows first, first + step, ... of a sequence of `length` rows.
struct RowRange {
  Index first = 0, count = 0, step = 1;
};
// Visible (query, key) pairs of one document of `length` rows, of the queries given. In closed form.
double visible_pairs(const MaskSpec& mask, Index length, RowRange queries);
double visible_pairs(const MaskSpec& mask, Index length);

// What is worked on in a step, over all ranks.
struct StepWork {
  double sequences = 1;
  Index length = 0;
  double pairs = -1;  // visible pairs of a layer, summed over the sequences; -1: as the model's mask alone gives them
};

struct StepFlops {
  // MaxText's convention (maxtext_utils.py): 6 a token and parameter, without the input embedding (a tied matrix
  // counted once), and attention at exactly half of all pairs, times 3 for forward and backward.
  double conventional = 0;
  // Matrices only, and the pairs that mask, window and documents leave.
  double exact = 0;
  // As exact, with what is made again and with attention's backward pass at 2.5 forward passes (five products for two).
  double hardware = 0;
  double hardware_attention = 0;  // attention's part of it
};
StepFlops flops_of_step(const ModelSpec& model, const StepWork& work, const std::vector<LayerPolicy>& policy);
// Of the forward pass alone, exact.
double flops_of_forward(const ModelSpec& model, const StepWork& work);

}  // namespace longhaul::spec
