// The golden attention cases (tests/golden/attention, made by PyTorch in fp64).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernel/attention_case.h"

namespace longhaul::testing {

struct GoldenAttention {
  AttentionCase problem;
  AttentionOutputs expected;
  // The error of the same explicit arithmetic in fp32, over max(largest value, 0.01), by tensor; from cases.json.
  std::map<std::string, double> float32_error;
};
std::vector<GoldenAttention> golden_attention();

}  // namespace longhaul::testing
