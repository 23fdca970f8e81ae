// ModelSpec: a transformer as numbers. Filled from a preset or a Hugging Face config.json (text, handed in).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mask/mask.h"
#include "tensor/dtype.h"

namespace longhaul::spec {

enum class RopeKind : std::uint8_t { kDefault, kLlama3 };
struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double factor = 1, low_frequency_factor = 1, high_frequency_factor = 4;  // kLlama3
  Index original_context = 8192;
};
// One frequency a pair of dimensions, head_dim/2 in all, fp64 (Llama 3.1's scaling as in transformers'
// _compute_llama3_parameters).
std::vector<double> inverse_frequencies(const RopeSpec& rope, Index head_dim);

// Some layers whose attention differs from the rest, in families that are planned for only.
struct LayerKind {
  Index layers = 0, query_width = 0;  // query heads times head width
  Index window = 0;                   // 0: causal without a window
};

struct ModelSpec {
  std::string name;        // preset or directory
  std::string family;      // Hugging Face model_type
  std::string cannot_run;  // empty, or the sentence that says which feature this program plans for but does not run yet
  Index hidden = 0, layers = 0, q_heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0;
  Index max_context = 0;
  double norm_eps = 1e-5;
  double init_std = 0.02;  // initializer_range
  bool tied = false;       // the output matrix is the embedding
  RopeSpec rope;
  MaskSpec mask;                                               // of every layer
  Index extra_parameters_per_layer = 0, extra_parameters = 0;  // of families that are planned for only
  std::vector<LayerKind> kinds;                                // of the same; empty: all layers are alike

  Index group() const { return q_heads / kv_heads; }
};

ModelSpec parse_config_json(std::string_view text, const std::string& where);  // input errors name the key
std::string to_config_json(const ModelSpec& model);                            // loads in transformers
const ModelSpec* find_preset(std::string_view name);
std::vector<std::string> preset_names();
Index count_parameters(const ModelSpec& model);

}  // namespace longhaul::spec
