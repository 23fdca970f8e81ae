// Rebuilds the schedule of a sequence in place.
#include "train/sequence.h"

#include "base/hash.h"

namespace longhaul::train {

void SequenceSchedule::rebuild(std::span<const Token> row) {
  layout_ = {spec_.layout, static_cast<Index>(row.size()), spec_.ranks};
  strategy::shard_tokens(layout_, row, tokens_);
  visible_.rebuild(layout_, spec_.mask, tokens_);
  spec_.strategy->build({spec_.rank, spec_.ranks, spec_.ulysses, spec_.shapes, &layout_, &visible_}, schedule_);
}

double SequenceSchedule::visible_pairs() const {
  double pairs = 0;
  for (const auto& keys : tokens_) pairs += static_cast<double>(count_visible(spec_.mask, own_tokens(), keys));
  return pairs;
}

// A schedule is a pure function of these inputs, so equal inputs stand for equal lists of all ranks.
std::uint64_t SequenceSchedule::hash() const {
  const std::int64_t numbers[] = {layout_.length,
                                  layout_.ranks,
                                  static_cast<std::int64_t>(layout_.kind),
                                  spec_.ulysses,
                                  spec_.shapes.q_heads,
                                  spec_.shapes.kv_heads,
                                  spec_.shapes.d_qk,
                                  spec_.shapes.d_v,
                                  static_cast<std::int64_t>(std::hash<std::string_view>{}(spec_.strategy->name))};
  return hash64_of(visible_.cells(), hash64_of(std::span<const std::int64_t>(numbers)));
}

}  // namespace longhaul::train
