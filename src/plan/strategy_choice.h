// Which strategy and layout a group of context ranks uses: by the work of its busiest rank and the bytes that it sends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategy/schedule.h"

namespace longhaul::plan {

// What a machine does in a second. The rates are of one rank.
struct Rates {
  double flops = 0;  // matrix products and attention
  double bytes = 0;  // sent to another rank
};

struct ChoiceRequest {
  int ranks = 1;              // context degree
  int ulysses = 0;            // 0: not given
  std::string_view strategy;  // auto or a name
  std::string_view layout;    // auto or a name
  strategy::Shapes shapes;    // all heads of the model (of this tensor rank)
  MaskSpec mask;
  Index length = 0;  // rows of the longest sequence
  Rates rates;
};

struct Choice {
  const strategy::StrategyEntry* strategy = nullptr;
  strategy::LayoutKind layout = strategy::LayoutKind::kContiguous;
  int ulysses = 1;
  Index bytes = 0;  // the most that a rank sends for one attention, forward and backward, without document masks
  Index exposed_bytes = 0;  // of these, what no attention hides: all-to-alls and gathers
  Index slot_bytes = 0;     // the most that a rank's schedule needs, whatever the documents
  double balance = 1;       // visible pairs times heads of the busiest rank over the mean
  double pairs = 0;         // of the busiest rank, in visible pairs of all heads
  double seconds = 0;       // one attention, forward and backward, by the rates
  std::string reason;       // a sentence
};

// Of the candidates as quick as the quickest the one that sends and holds the fewest bytes. Input errors: a strategy
// that cannot be used with this degree.
Choice choose_strategy(const ChoiceRequest& request);

// Bytes of a schedule's slots, each aligned; forward and backward share them.
Index slot_bytes_of(const strategy::Schedule& schedule) noexcept;

const char* name_of(strategy::LayoutKind kind) noexcept;

}  // namespace longhaul::plan
