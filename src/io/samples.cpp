// Cutting rows and permuting them.
#include "io/samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace longhaul::io {

SampleOrder::SampleOrder(Index rows, std::uint64_t seed) : rows_(rows), seed_(seed), half_bits_(1) {
  CHECK(1 <= rows && rows <= Index{1} << 62, "%ld rows", rows);
  while ((Index{1} << (2 * half_bits_)) < rows) ++half_bits_;
}

Index SampleOrder::row_of(Index sample) const noexcept {
  CHECK(sample >= 0, "sample %ld", sample);
  constexpr int kRounds = 6;
  const auto epoch = static_cast<std::uint64_t>(sample / rows_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<std::uint64_t>(sample % rows_);
  do {
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(seed_, epoch, right << 3 | round) & mask);
      left = right;
      right = mixed;
    }
    x = left << half_bits_ | right;
  } while (x >= static_cast<std::uint64_t>(rows_));
  return static_cast<Index>(x);
}

DocumentRows::DocumentRows(std::span<const Document> documents, Index context, LastRow last, const std::string& where)
    : documents_(documents), context_(context) {
  CHECK(context >= 1, "context %ld", context);
  Index at = 0;
  for (const Document& document : documents) {
    starts_.push_back(at);
    at += static_cast<Index>(document.bytes.size());
  }
  starts_.push_back(at);
  rows_ = at / context + (last == LastRow::kPad && at % context != 0 ? 1 : 0);
  if (last == LastRow::kDrop && rows_ == 0)
    throw input_error("data with less than one full row of context: " + std::to_string(at) +
                          " tokens to train on, a row has " + std::to_string(context),
                      where, "give more data, or a --context of at most " + std::to_string(std::max<Index>(at, 1)));
}

void DocumentRows::fill(Index row, std::span<std::int32_t> tokens, std::span<std::int32_t> labels,
                        std::span<std::int32_t> documents, std::span<std::int32_t> positions) const noexcept {
  const auto length = static_cast<std::size_t>(context_);
  CHECK(0 <= row && row < rows_, "row %ld of %ld", row, rows_);
  CHECK(tokens.size() == length && labels.size() == length && documents.size() == length && positions.size() == length,
        "%zu tokens, %zu labels, %zu documents, %zu positions, context %ld", tokens.size(), labels.size(),
        documents.size(), positions.size(), context_);
  const Index begin = row * context_, end = std::min(begin + context_, starts_.back());
  auto d = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin() - 1);
  std::size_t i = 0;
  for (std::int32_t id = 1; begin + static_cast<Index>(i) < end; ++id, ++d) {
    const std::span<const std::uint8_t> bytes = documents_[d].bytes;
    auto from = static_cast<std::size_t>(begin + static_cast<Index>(i) - starts_[d]);
    std::int32_t position = 0;
    for (; from < bytes.size() && i < length; ++from, ++i) {
      tokens[i] = bytes[from];
      labels[i] = from + 1 < bytes.size() ? bytes[from + 1] : kNoLabel;
      documents[i] = id;
      positions[i] = position++;
    }
  }
  for (; i < length; ++i) tokens[i] = 0, labels[i] = kNoLabel, documents[i] = 0, positions[i] = 0;
}

}  // namespace longhaul::io
