// Token batches given as a file, for comparison with other programs (golden data, `--batches`, `--tokens`).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/safetensors.h"

namespace longhaul::io {

// Tensors: tokens [steps, B, T] or [B, T] (one step), and of the same shape, each optional: labels (the token to
// predict at this position, kNoLabel for none), segment_ids (0 is padding), position_ids. Other tensors are ignored.
class BatchFile {
 public:
  // input_error when a tensor is not of this form, a token or label is outside [0, vocabulary), an id or position is
  // negative. Everything is read once to see that; rows are then read when they are asked for.
  BatchFile(const std::string& path, Index vocabulary);
  const std::string& path() const noexcept { return file_.path(); }
  Index steps() const noexcept { return extent_[0]; }
  Index batch() const noexcept { return extent_[1]; }    // B
  Index context() const noexcept { return extent_[2]; }  // T
  bool has_documents() const noexcept { return documents_ != nullptr; }
  bool has_positions() const noexcept { return positions_ != nullptr; }

  // All [T]. Labels that the file does not have are the tokens shifted by one: kNoLabel at the row's last, and with
  // segment_ids where the next token is of another document or this one is padding. documents and positions are
  // written when the file has them, else left as they are. Allocates nothing. run_error when the file cannot be read.
  void fill(Index step, Index sequence, std::span<std::int32_t> tokens, std::span<std::int32_t> labels,
            std::span<std::int32_t> documents, std::span<std::int32_t> positions) const;

 private:
  const TensorEntry* find(const char* name) const;
  void require_range(const TensorEntry& entry, std::int32_t low, Index high, bool no_label) const;

  SafetensorsFile file_;
  Index extent_[3] = {1, 0, 0};
  const TensorEntry *tokens_ = nullptr, *labels_ = nullptr, *documents_ = nullptr, *positions_ = nullptr;
};

}  // namespace longhaul::io
