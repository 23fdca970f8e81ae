// Where the rows of a global batch come from: text, or given token batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"

namespace longhaul::train {

// One sequence in row order. Each vector has `length` entries, made once and filled again.
struct Row {
  explicit Row(Index length) : tokens(length), labels(length), documents(length), positions(length) {}
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;     // the token to predict at this row, or below 0: not in the loss
  std::vector<std::int32_t> documents;  // 0: padding
  std::vector<std::int32_t> positions;  // in the document
};

class Batches {
 public:
  virtual ~Batches() = default;
  // Sequence b of the global batch of a step (from 0): the same for every mesh, and across restarts.
  virtual void fill(Index step, Index b, Row& row) const = 0;
};

}  // namespace longhaul::train
