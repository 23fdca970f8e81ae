// Text from a model: the same forward pass as training, once a token.
#pragma once

#include <functional>

#include "train/trainer.h"

namespace longhaul::train {

struct Sampling {
  Index length = 200;        // tokens to add
  double temperature = 0.8;  // 0: the most likely token
  std::uint64_t seed = 0;
};

// Continues the prompt (at least one token) on all ranks of the mesh together; every rank gets the same tokens.
// The whole must fit into spec.length rows. `on_token` hears of each added token at once.
std::vector<std::int32_t> generate(Trainer& trainer, std::span<const std::int32_t> prompt, const Sampling& sampling,
                                   const std::function<void(std::int32_t)>& on_token = {});

}  // namespace longhaul::train
