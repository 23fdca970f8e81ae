// Where the rows of a global batch come from: text, or given token batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/batch_file.h"
#include "io/documents.h"
#include "io/samples.h"

namespace longhaul::train {

// One sequence in row order. Each vector has `length` entries, made once and filled again.
struct Row {
  explicit Row(Index length) : tokens(length), labels(length), documents(length, 1), positions(length) {}
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

// Rows of text in the stateless order of (seed, epoch, index): sample step * batch + b.
class CorpusBatches final : public Batches {
 public:
  // document_mask off: a row is one document to attention and RoPE; labels are the same.
  CorpusBatches(const io::DocumentRows& rows, std::uint64_t seed, Index batch, bool document_mask);
  void fill(Index step, Index b, Row& row) const override;

 private:
  const io::DocumentRows& rows_;
  io::SampleOrder order_;
  Index batch_;
  bool document_mask_;
};

// The first rows of some documents in their own order: row b, whatever the step. For evaluation.
class RowsInOrder final : public Batches {
 public:
  RowsInOrder(const io::DocumentRows& rows, bool document_mask) : rows_(rows), document_mask_(document_mask) {}
  void fill(Index step, Index b, Row& row) const override;

 private:
  const io::DocumentRows& rows_;
  bool document_mask_;
};

// Token batches of a file, in order: row [step, b].
class GivenBatches final : public Batches {
 public:
  explicit GivenBatches(const io::BatchFile& file) : file_(file) {}
  void fill(Index step, Index b, Row& row) const override;

 private:
  const io::BatchFile& file_;
};

}  // namespace longhaul::train
