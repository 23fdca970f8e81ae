// Fills rows from text and from files.
#include "train/batches.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace longhaul::train {
namespace {

void make_one_document(Row& row) {
  std::fill(row.documents.begin(), row.documents.end(), 1);
  std::iota(row.positions.begin(), row.positions.end(), 0);
}

void fill_text(const io::DocumentRows& rows, Index index, bool document_mask, Row& row) {
  rows.fill(index, row.tokens, row.labels, row.documents, row.positions);
  if (!document_mask) make_one_document(row);
}

// The number of earlier rows of the same document, whose rows need not be adjacent.
void count_positions(Row& row) {
  std::unordered_map<std::int32_t, std::int32_t> length;
  for (std::size_t i = 0; i < row.documents.size(); ++i) row.positions[i] = length[row.documents[i]]++;
}

}  // namespace

CorpusBatches::CorpusBatches(const io::DocumentRows& rows, std::uint64_t seed, Index batch, bool document_mask)
    : rows_(rows), order_(rows.rows(), seed), batch_(batch), document_mask_(document_mask) {}

void CorpusBatches::fill(Index step, Index b, Row& row) const {
  fill_text(rows_, order_.row_of(step * batch_ + b), document_mask_, row);
}

void RowsInOrder::fill(Index, Index b, Row& row) const {
  fill_text(rows_, b, document_mask_, row);
}

void GivenBatches::fill(Index step, Index b, Row& row) const {
  file_.fill(step, b, row.tokens, row.labels, row.documents, row.positions);
  if (!file_.has_documents()) std::fill(row.documents.begin(), row.documents.end(), 1);
  if (file_.has_positions()) return;
  if (file_.has_documents())
    count_positions(row);
  else
    std::iota(row.positions.begin(), row.positions.end(), 0);
}

}  // namespace longhaul::train
