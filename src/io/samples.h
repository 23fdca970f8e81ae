// Samples: rows of T tokens cut from documents laid end to end, and the order in which training sees them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/documents.h"

namespace longhaul::io {

constexpr std::int32_t kNoLabel = -100;  // this position is not in the loss

// A permutation of [0, rows) for each epoch, as a function of (seed, epoch, index): no table and no state. Sample
// k*B + b is sequence b of the global batch of B at step k, on every mesh; each row comes once an epoch.
// A Feistel network (Luby and Rackoff, 1988) over the next power of four, walked until it lands in [0, rows) (Black and
// Rogaway, "Ciphers with arbitrary finite domains", 2002, method 2): at most 4 steps on average.
class SampleOrder {
 public:
  SampleOrder(Index rows, std::uint64_t seed);  // rows >= 1
  Index rows() const noexcept { return rows_; }
  Index epoch_of(Index sample) const noexcept { return sample / rows_; }
  Index row_of(Index sample) const noexcept;  // sample >= 0

 private:
  Index rows_;
  std::uint64_t seed_;
  int half_bits_;
};

// Row i of T tokens is tokens [i*T, (i+1)*T) of the documents laid end to end.
class DocumentRows {
 public:
  enum class LastRow : std::uint8_t {
    kDrop,  // tokens after the last full row are left out; less than one full row is an input_error
    kPad,   // the last row is filled up with document 0, token 0, no labels
  };
  // The documents must outlive this. `where` names them in messages.
  DocumentRows(std::span<const Document> documents, Index context, LastRow last, const std::string& where);
  Index rows() const noexcept { return rows_; }
  Index context() const noexcept { return context_; }       // T
  Index tokens() const noexcept { return starts_.back(); }  // of all documents

  // All [T]. labels: the next token of the same document, also when it stands in the next row; else kNoLabel.
  // documents: 1, 2, … in the row. positions: from the document's first token in this row, 0, 1, …
  // Allocates nothing.
  void fill(Index row, std::span<std::int32_t> tokens, std::span<std::int32_t> labels,
            std::span<std::int32_t> documents, std::span<std::int32_t> positions) const noexcept;

 private:
  std::span<const Document> documents_;
  std::vector<Index> starts_;  // first token of each document in all of them; then their total
  Index context_;
  Index rows_;
};

}  // namespace longhaul::io
