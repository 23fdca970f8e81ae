// The all-to-all of ulysses: a group's heads to the members that attend for them, and results back. Internal to this
// folder.
#pragma once

#include "strategy/build.h"

namespace longhaul::strategy::build {

inline constexpr std::array kForwardInputs{Tensor::kK, Tensor::kV, Tensor::kQ};
inline constexpr std::array kForwardResults{Tensor::kO, Tensor::kM, Tensor::kL};
inline constexpr std::array kBackwardInputs{Tensor::kK, Tensor::kV,     Tensor::kQ, Tensor::kM,
                                            Tensor::kL, Tensor::kDelta, Tensor::kDO};
inline constexpr std::array kBackwardResults{Tensor::kDQ, Tensor::kDK, Tensor::kDV};

// Sends each member its heads of this rank's tensors, and receives this rank's heads of the members' shards into slots,
// whose places are added to `group`. Head ranges are packed two members at a time.
void exchange_in(Emitter& emit, std::span<const Tensor> tensors, Places& group);

// Sends each member this rank's heads of its shard, from `group`. What arrives goes into home: `op` kCopy for results,
// kAdd for gradients, member after member from this rank on, always in that order.
void exchange_out(Emitter& emit, std::span<const Tensor> tensors, const Places& group, Op op);

}  // namespace longhaul::strategy::build
