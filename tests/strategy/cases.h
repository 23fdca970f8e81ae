// Cases: sequences, masks and shapes, and the schedules of all ranks for them.
#pragma once

#include <memory>
#include <string>

#include "strategy/checker.h"
#include "strategy/layout.h"
#include "strategy/schedule.h"

namespace longhaul::strategy {

enum class MaskCase { kCausal, kFull, kWindow, kSorted, kSortedWindow, kScattered, kPadding, kChunk };
constexpr MaskCase kMaskCases[] = {MaskCase::kCausal,       MaskCase::kFull,      MaskCase::kWindow,  MaskCase::kSorted,
                                   MaskCase::kSortedWindow, MaskCase::kScattered, MaskCase::kPadding, MaskCase::kChunk};
constexpr LayoutKind kLayouts[] = {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped};

struct Case {
  std::string strategy = "ring";
  LayoutKind layout = LayoutKind::kContiguous;
  int ranks = 1, ulysses = 1;
  MaskCase mask = MaskCase::kCausal;
  Index length = 16, window = 0;  // window 0: 3 + length / 8 where the mask has one
  int q_heads = 2, kv_heads = 2;
  std::uint64_t seed = 1;  // of the documents
};
std::string text_of(const Case& c);

// The schedules of all ranks, and what they were made from. Not movable: request points into it.
struct World {
  explicit World(const Case& c);
  World(const World&) = delete;
  void build(Strategy strategy);
  Findings check_all() const { return check(schedules, request); }

  Layout layout;
  std::vector<Token> tokens;
  std::vector<std::vector<Token>> shards;
  Visibility visible;
  Request request;
  std::vector<Schedule> schedules;
};

}  // namespace longhaul::strategy
