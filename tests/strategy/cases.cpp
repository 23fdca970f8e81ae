// How a case becomes tokens, visibility and schedules.
#include "cases.h"

#include <fmt/format.h>

#include "base/random.h"

namespace longhaul::strategy {
namespace {

std::vector<std::int32_t> documents_of(MaskCase mask, Index length, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  std::int32_t document = 7;
  for (Index i = 0; i < length; ++i) {
    const auto dice = [&](std::uint64_t sides) {
      return static_cast<std::int32_t>(
          random_bits(seed, static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(i)) % sides);
    };
    switch (mask) {
      case MaskCase::kSorted:
      case MaskCase::kSortedWindow:
        if (dice(6) == 0) ++document;
        ids.push_back(document);
        break;
      case MaskCase::kScattered:
        ids.push_back(dice(4));
        break;
      case MaskCase::kPadding:
        ids.push_back(i >= length - length / 3 ? 0 : 1);
        break;
      default:
        return {};
    }
  }
  return ids;
}

MaskSpec mask_of(const Case& c) {
  MaskSpec mask;
  if (c.mask == MaskCase::kFull) mask.order = Order::kFull;
  if (c.mask == MaskCase::kWindow || c.mask == MaskCase::kSortedWindow)
    mask.window = c.window != 0 ? c.window : 3 + c.length / 8;
  if (c.mask == MaskCase::kChunk) mask.chunk = 5;
  return mask;
}

}  // namespace

std::string text_of(const Case& c) {
  constexpr const char* kMaskNames[] = {"causal",        "full",      "window",  "sorted",
                                        "sorted window", "scattered", "padding", "chunk"};
  constexpr const char* kLayoutNames[] = {"contiguous", "zigzag", "striped"};
  return fmt::format("{} {} ranks {} ulysses {} mask {} length {} heads {}/{}{}", c.strategy,
                     kLayoutNames[static_cast<int>(c.layout)], c.ranks, c.ulysses, kMaskNames[static_cast<int>(c.mask)],
                     c.length, c.q_heads, c.kv_heads, c.seed == 1 ? "" : fmt::format(" seed {}", c.seed));
}

World::World(const Case& c) : layout{c.layout, c.length, c.ranks}, tokens(static_cast<std::size_t>(c.length)) {
  make_tokens(documents_of(c.mask, c.length, c.seed), {}, tokens);
  shard_tokens(layout, tokens, shards);
  visible.rebuild(layout, mask_of(c), shards);
  request = {.rank = 0,
             .ranks = c.ranks,
             .ulysses = c.ulysses,
             .shapes = {.q_heads = c.q_heads, .kv_heads = c.kv_heads, .d_qk = 3, .d_v = 4, .element_bytes = 2},
             .layout = &layout,
             .visible = &visible};
  schedules.resize(static_cast<std::size_t>(c.ranks));
  build(find_strategy(c.strategy)->build);
}

void World::build(Strategy strategy) {
  for (int r = 0; r < request.ranks; ++r) {
    Request mine = request;
    mine.rank = r;
    strategy(mine, schedules[static_cast<std::size_t>(r)]);
  }
}

}  // namespace longhaul::strategy
