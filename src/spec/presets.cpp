// The presets: models by name.
#include <array>
#include <cmath>
#include <numbers>

#include "spec/model_spec.h"
#include "spec/tensor_table.h"

namespace longhaul::spec {
namespace {

struct Shape {
  Index hidden, layers, q_heads, kv_heads, head_dim, ffn, vocabulary;
};

ModelSpec llama(const char* name, Shape s, Index max_context, bool tied, RopeSpec rope) {
  ModelSpec m;
  m.name = name, m.family = "llama";
  m.hidden = s.hidden, m.layers = s.layers, m.q_heads = s.q_heads, m.kv_heads = s.kv_heads, m.head_dim = s.head_dim;
  m.ffn = s.ffn, m.vocabulary = s.vocabulary;
  m.max_context = max_context, m.tied = tied, m.rope = rope;
  return m;
}

RopeSpec plain_rope(double theta) {
  return {RopeKind::kDefault, theta, 1, 1, 4, 8192};
}
RopeSpec llama3_rope() {
  return {RopeKind::kLlama3, 500000, 8, 1, 4, 8192};
}

// OLMo 3 7B (allenai/Olmo-3-1025-7B): norms on the outputs, QK norms over all heads, 3 of 4 layers see 4,096 rows.
ModelSpec olmo3_7b() {
  ModelSpec m = llama("olmo3-7b", {4096, 32, 32, 32, 128, 11008, 100278}, 65536, false, plain_rope(500000));
  m.family = "olmo3", m.norm_eps = 1e-6;
  m.cannot_run =
      "olmo3-7b has norms after attention and MLP, QK norms and two kinds of layers: planned for, not run yet";
  m.extra_parameters_per_layer = 2 * 4096;  // q_norm, k_norm
  m.kinds = {{24, 32 * 128, 4096}, {8, 32 * 128, 0}};
  return m;
}

// Gemma 4 31B, text: 50 local layers (32/16 heads of 256) and 10 global ones (32/4 heads of 512, keys used as values).
ModelSpec gemma4_31b() {
  ModelSpec m = llama("gemma4-31b", {5376, 60, 32, 16, 256, 21504, 262144}, 262144, true, plain_rope(1000000));
  m.family = "gemma4", m.norm_eps = 1e-6;
  m.cannot_run =
      "gemma4-31b has two kinds of layers, keys used as values, GELU and four norms a layer: planned for, not run yet";
  m.extra_parameters_per_layer = 2 * 5376 + 1 + 2 * 256;  // two more norms, the layer scalar, q_norm and k_norm
  const Index local = 5376 * (2 * 32 + 2 * 16) * 256, global = 5376 * (2 * 32 + 4) * 512;
  m.extra_parameters = 10 * (global - local + 2 * (512 - 256));
  m.kinds = {{50, 32 * 256, 1024}, {10, 32 * 512, 0}};
  return m;
}

const std::array<ModelSpec, 7>& presets() {
  static const std::array<ModelSpec, 7> kPresets = {
      llama("tiny", {64, 2, 4, 2, 16, 128, 256}, 131072, false, plain_rope(10000)),
      llama("mini", {128, 2, 2, 1, 64, 384, 256}, 1 << 20, true, plain_rope(10000)),
      llama("llama3.1-8b", {4096, 32, 32, 8, 128, 14336, 128256}, 131072, false, llama3_rope()),
      llama("llama3-70b", {8192, 80, 64, 8, 128, 28672, 128256}, 8192, false, plain_rope(500000)),
      llama("llama3-405b", {16384, 126, 128, 8, 128, 53248, 128256}, 131072, false, llama3_rope()),
      olmo3_7b(),
      gemma4_31b(),
  };
  return kPresets;
}

}  // namespace

const ModelSpec* find_preset(std::string_view name) {
  for (const ModelSpec& m : presets())
    if (m.name == name) return &m;
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelSpec& m : presets()) names.push_back(m.name);
  return names;
}

Index count_parameters(const ModelSpec& model) {
  return parameters_of(model).total + model.layers * model.extra_parameters_per_layer + model.extra_parameters;
}

std::vector<double> inverse_frequencies(const RopeSpec& rope, Index head_dim) {
  std::vector<double> f(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < f.size(); ++i)
    f[i] = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  if (rope.kind == RopeKind::kDefault) return f;
  const double original = static_cast<double>(rope.original_context);
  const double longest = original / rope.low_frequency_factor, shortest = original / rope.high_frequency_factor;
  for (double& x : f) {
    const double wavelength = 2.0 * std::numbers::pi / x;
    if (wavelength > longest) {
      x /= rope.factor;
    } else if (wavelength >= shortest) {
      const double smooth = (original / wavelength - rope.low_frequency_factor) /
                            (rope.high_frequency_factor - rope.low_frequency_factor);
      x = (1 - smooth) * x / rope.factor + smooth * x;
    }
  }
  return f;
}

}  // namespace longhaul::spec
