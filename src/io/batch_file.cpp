// Reads and checks given batches.
#include "io/batch_file.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "io/samples.h"

namespace longhaul::io {

BatchFile::BatchFile(const std::string& path, Index vocabulary) : file_(path) {
  tokens_ = file_.find("tokens");
  const bool one_step = tokens_ != nullptr && tokens_->shape.size() == 2;
  file_.require("tokens", Kind::kInteger,
                one_step ? std::span<const Index>(std::array<Index, 2>{-1, -1})
                         : std::span<const Index>(std::array<Index, 3>{-1, -1, -1}));
  std::copy(tokens_->shape.begin(), tokens_->shape.end(), extent_ + (one_step ? 1 : 0));
  if (tokens_->count() == 0)
    throw input_error("tensor 'tokens' of shape " + describe_shape(tokens_->shape) + " has no tokens", path,
                      "give at least one step, sequence and token");
  labels_ = find("labels");
  documents_ = find("segment_ids");
  positions_ = find("position_ids");
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  require_range(*tokens_, 0, vocabulary - 1, false);
  if (labels_ != nullptr) require_range(*labels_, 0, vocabulary - 1, true);
  if (documents_ != nullptr) require_range(*documents_, 0, kMost, false);
  if (positions_ != nullptr) require_range(*positions_, 0, kMost, false);
}

const TensorEntry* BatchFile::find(const char* name) const {
  return file_.find(name) == nullptr ? nullptr : &file_.require(name, Kind::kInteger, tokens_->shape);
}

void BatchFile::require_range(const TensorEntry& entry, std::int32_t low, Index high, bool no_label) const {
  std::array<std::int32_t, 4096> buffer;
  for (Index at = 0; at < entry.count(); at += static_cast<Index>(buffer.size())) {
    const auto piece = std::span(buffer).first(
        static_cast<std::size_t>(std::min<Index>(entry.count() - at, static_cast<Index>(buffer.size()))));
    file_.read(entry, at, piece);
    for (std::size_t i = 0; i < piece.size(); ++i)
      if ((piece[i] < low || piece[i] > high) && !(no_label && piece[i] == kNoLabel))
        throw input_error("tensor " + quote(entry.name) + " has " + std::to_string(piece[i]) + " at element " +
                              std::to_string(at + static_cast<Index>(i)) + ", outside [" + std::to_string(low) + ", " +
                              std::to_string(high) + "]",
                          path(), "check that the file and the model's vocabulary belong together");
  }
}

void BatchFile::fill(Index step, Index sequence, std::span<std::int32_t> tokens, std::span<std::int32_t> labels,
                     std::span<std::int32_t> documents, std::span<std::int32_t> positions) const {
  CHECK(0 <= step && step < steps() && 0 <= sequence && sequence < batch(), "step %ld of %ld, sequence %ld of %ld",
        step, steps(), sequence, batch());
  const auto length = static_cast<std::size_t>(context());
  CHECK(tokens.size() == length && labels.size() == length, "%zu tokens, %zu labels, context %ld", tokens.size(),
        labels.size(), context());
  CHECK(!has_documents() || documents.size() == length, "%zu documents", documents.size());
  CHECK(!has_positions() || positions.size() == length, "%zu positions", positions.size());
  const Index begin = (step * batch() + sequence) * context();
  file_.read(*tokens_, begin, tokens);
  if (has_documents()) file_.read(*documents_, begin, documents);
  if (has_positions()) file_.read(*positions_, begin, positions);
  if (labels_ != nullptr) return file_.read(*labels_, begin, labels);
  for (std::size_t i = 0; i < length; ++i) {
    bool follows = i + 1 < length;
    if (follows && has_documents()) follows = documents[i] != 0 && documents[i] == documents[i + 1];
    labels[i] = follows ? tokens[i + 1] : kNoLabel;
  }
}

}  // namespace longhaul::io
