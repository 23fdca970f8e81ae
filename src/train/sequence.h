// What the context ranks do with one sequence: its shards, what the mask needs of them, and this rank's schedule.
#pragma once

#include <span>
#include <vector>

#include "exec/attention.h"
#include "strategy/schedule.h"

namespace longhaul::train {

struct ContextSpec {
  const strategy::StrategyEntry* strategy = nullptr;
  strategy::LayoutKind layout = strategy::LayoutKind::kContiguous;
  int rank = 0, ranks = 1, ulysses = 1;  // in the context group
  strategy::Shapes shapes;
  MaskSpec mask;
};

class SequenceSchedule {
 public:
  explicit SequenceSchedule(const ContextSpec& spec) : spec_(spec) {}

  // From the tokens of the whole sequence, in row order. Any length; no allocation once the longest has been seen
  // under the fullest mask.
  void rebuild(std::span<const Token> row);

  const strategy::Layout& layout() const { return layout_; }
  const strategy::Schedule& schedule() const { return schedule_; }
  const ContextSpec& spec() const { return spec_; }
  std::span<const std::vector<Token>> tokens() const { return tokens_; }
  std::span<const Token> own_tokens() const { return tokens_[spec_.rank]; }
  Index rows() const { return layout_.rows(spec_.rank); }
  // (query, key) pairs that the mask leaves this rank's queries.
  double visible_pairs() const;
  // Equal on all context ranks exactly when they agree on what every one of them does.
  std::uint64_t hash() const;

 private:
  ContextSpec spec_;
  strategy::Layout layout_;
  std::vector<std::vector<Token>> tokens_;  // by context rank, in storage order
  strategy::Visibility visible_;
  strategy::Schedule schedule_;
};

// This rank's rows of a vector in row order.
template <class T>
void take_own_rows(const strategy::Layout& layout, int rank, std::span<const T> row, T* own) {
  for (int c = 0; c < layout.chunks(); ++c) {
    const strategy::Chunk chunk = layout.chunk(rank, c);
    for (Index i = 0; i < chunk.count; ++i) own[chunk.offset + i] = row[chunk.first + i * chunk.step];
  }
}

}  // namespace longhaul::train
