// Presets and config.json: published parameter counts, both forms of a file, and what is refused by name.
#include "spec/model_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"

namespace longhaul::spec {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(std::string(TEST_SOURCE_DIR) + "/golden/" + path);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Presets, ParameterCountsArePublished) {
  const std::pair<const char*, double> counts[] = {{"llama3.1-8b", 8.030e9},
                                                   {"llama3-70b", 70.55e9},
                                                   {"llama3-405b", 405.85e9},
                                                   {"olmo3-7b", 7.298e9},
                                                   {"gemma4-31b", 30.70e9}};
  for (const auto& [name, published] : counts) {
    const ModelSpec* m = find_preset(name);
    ASSERT_NE(m, nullptr) << name;
    EXPECT_NEAR(count_parameters(*m) / published, 1, 0.5e-3) << name << " has " << count_parameters(*m);
  }
  EXPECT_EQ(count_parameters(*find_preset("llama3.1-8b")), 8030261248);
  EXPECT_EQ(count_parameters(*find_preset("llama3-70b")), 70553706496);
  EXPECT_EQ(count_parameters(*find_preset("llama3-405b")), 405853388800);
  EXPECT_EQ(count_parameters(*find_preset("olmo3-7b")), 7298011136);
}

TEST(Presets, OnlyPlannedFamiliesCannotRun) {
  for (const std::string& name : preset_names())
    EXPECT_EQ(find_preset(name)->cannot_run.empty(), name != "olmo3-7b" && name != "gemma4-31b") << name;
  EXPECT_EQ(find_preset("llama"), nullptr);
}

TEST(Config, OlderForm) {
  const ModelSpec m = parse_config_json(read("models/llama31/config.json"), "config.json");
  EXPECT_EQ(m.hidden, 32);
  EXPECT_EQ(m.layers, 2);
  EXPECT_EQ(m.q_heads, 4);
  EXPECT_EQ(m.kv_heads, 2);
  EXPECT_EQ(m.head_dim, 16);
  EXPECT_EQ(m.ffn, 48);
  EXPECT_EQ(m.vocabulary, 96);
  EXPECT_EQ(m.max_context, 512);
  EXPECT_EQ(m.norm_eps, 1e-5);
  EXPECT_FALSE(m.tied);
  EXPECT_EQ(m.rope.kind, RopeKind::kLlama3);
  EXPECT_EQ(m.rope.factor, 8);
  EXPECT_EQ(m.rope.original_context, 64);
  const ModelSpec packed = parse_config_json(read("models/llama32_packed/config.json"), "config.json");
  EXPECT_TRUE(packed.tied);
  EXPECT_EQ(packed.rope.factor, 32);
  EXPECT_EQ(parse_config_json(read("training/llama/config.json"), "c").rope.kind, RopeKind::kDefault);
}

constexpr const char* kNewer =
    R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "vocab_size": 96, "intermediate_size": 48, "dtype": "float32",
  "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})";

TEST(Config, NewerFormAndDefaultsOfTransformers) {
  const ModelSpec m = parse_config_json(kNewer, "c");
  EXPECT_EQ(m.rope.theta, 500000);
  EXPECT_EQ(m.rope.kind, RopeKind::kLlama3);
  EXPECT_EQ(m.kv_heads, 4);
  EXPECT_EQ(m.head_dim, 8);
  EXPECT_EQ(m.norm_eps, 1e-6);
  EXPECT_EQ(m.max_context, 2048);
  EXPECT_FALSE(m.tied);
}

void expect_same(const ModelSpec& a, const ModelSpec& b) {
  EXPECT_EQ(to_config_json(a), to_config_json(b));
  EXPECT_EQ(count_parameters(a), count_parameters(b));
  EXPECT_EQ(inverse_frequencies(a.rope, a.head_dim), inverse_frequencies(b.rope, b.head_dim));
}

TEST(Config, RoundTrips) {
  for (const std::string& name : preset_names()) {
    ModelSpec m = *find_preset(name);
    if (!m.cannot_run.empty()) continue;
    m.norm_eps = 0.1 + 0.2;  // needs all 17 digits
    const ModelSpec back = parse_config_json(to_config_json(m), "c");
    expect_same(m, back);
    EXPECT_EQ(back.norm_eps, m.norm_eps);
    EXPECT_EQ(back.tied, m.tied);
    EXPECT_EQ(back.max_context, m.max_context);
    EXPECT_EQ(back.init_std, m.init_std);
  }
}

// Puts `key: value` into a good file; the refusal must name the key.
void expect_refused(const std::string& key, const std::string& value, const std::string& named = "") {
  std::string text = read("models/llama31/config.json");
  const std::string quoted = "\"" + key + "\":";
  text.insert(text.rfind('}'), ", " + quoted + value);  // of equal keys the last counts
  try {
    parse_config_json(text, "m/config.json");
    ADD_FAILURE() << key << ": " << value << " was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::kInput);
    EXPECT_NE(std::string(e.what()).find(named.empty() ? key : named), std::string::npos) << e.what();
    EXPECT_EQ(e.where, "m/config.json");
    EXPECT_FALSE(e.hint.empty());
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  }
}

TEST(Config, RefusesByName) {
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"attention_bias", "true"},
           {"mlp_bias", "true"},
           {"sliding_window", "4096"},
           {"attention_dropout", "0.1"},
           {"hidden_act", "\"gelu\""},
           {"model_type", "\"mamba9\""},
           {"model_type", "7"},
           {"num_attention_heads", "0"},
           {"num_key_value_heads", "3"},
           {"hidden_size", "\"64\""},
           {"hidden_size", "32.0"},
           {"hidden_size", "null"},
           {"hidden_size", "-32"},
           {"hidden_size", "1e999"},
           {"hidden_size", "18446744073709551615"},
           {"num_hidden_layers", "10001"},
           {"vocab_size", "[96]"},
           {"vocab_size", "99999999999999999999999"},
           {"head_dim", "15"},
           {"head_dim", "578"},
           {"rms_norm_eps", "-1e-5"},
           {"rms_norm_eps", "true"},
           {"rope_theta", "0"},
           {"rope_theta", "\"big\""},
           {"tie_word_embeddings", "1"},
           {"rope_scaling", "[]"},
           {"rope_scaling", "8"},
           {"quantization_config", "{\"bits\": 4}"},
           {"final_logit_softcapping", "30.0"},
           {"partial_rotary_factor", "0.5"},
           {"num_experts", "8"},
           {"layer_types", "[\"sliding_attention\", \"full_attention\"]"},
           {"use_sliding_window", "true"},
           {"logits_scaling", "8"}})
    expect_refused(key, value, std::string(value) == "1e999" ? "JSON" : "");
  const std::string llama3 = R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": )";
  expect_refused("rope_scaling", R"({"rope_type": "spiral", "factor": 8.0})", "rope_scaling.rope_type");
  expect_refused("rope_scaling", R"({"type": "yarn", "factor": 8.0})", "rope_scaling.rope_type");
  expect_refused("rope_scaling", llama3 + R"(1.0, "original_max_position_embeddings": 64})",
                 "rope_scaling.high_freq_factor");
  expect_refused("rope_scaling", llama3 + R"(4.0})", "rope_scaling.original_max_position_embeddings");
  expect_refused("rope_scaling", llama3 + R"(4.0, "original_max_position_embeddings": 64, "mscale": 2})",
                 "rope_scaling.mscale");
  expect_refused("rope_parameters", R"({"rope_type": "default"})", "rope_scaling");
}

TEST(Config, RefusesWhatIsNoConfig) {
  for (const char* text : {"", "{", "[1, 2]", "null", "{\"a\": NaN}", "{}", "\xff\xfe"}) {
    EXPECT_THROW(parse_config_json(text, "c"), Error) << text;
  }
  EXPECT_THROW(parse_config_json(std::string(200000, '['), "c"), Error);
  std::string huge = kNewer;
  huge.replace(huge.find("32"), 2, "1048576");
  huge.replace(huge.find("48"), 2, "4194304");
  huge.replace(huge.find("96"), 2, "16777216");
  huge.replace(huge.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 10000, \"head_dim\": 8");
  EXPECT_THROW(parse_config_json(huge, "c"), Error);
}

// transformers 4.57's _compute_llama3_parameters gives these for theta 10000, head 16, factor 8, 1/4, 64: high
// frequencies stay, low ones are divided by 8, and those between are blended.
TEST(Rope, Llama3Scaling) {
  const RopeSpec rope{RopeKind::kLlama3, 10000, 8, 1, 4, 64};
  const auto f = inverse_frequencies(rope, 16);
  const auto plain = inverse_frequencies({RopeKind::kDefault, 10000, 1, 1, 4, 64}, 16);
  ASSERT_EQ(f.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(plain[i], std::pow(10.0, -0.5 * static_cast<double>(i)));
  EXPECT_EQ(f[0], plain[0]);                                   // wavelength 6.28 < 64/4
  const double smooth = (64 * plain[1] / (2 * M_PI) - 1) / 3;  // wavelength 19.9 between 16 and 64
  EXPECT_NEAR(f[1], plain[1] * ((1 - smooth) / 8 + smooth), 1e-16);
  const double smooth2 = (64 * plain[2] / (2 * M_PI) - 1) / 3;  // wavelength 62.8
  EXPECT_NEAR(f[2], plain[2] * ((1 - smooth2) / 8 + smooth2), 1e-16);
  for (std::size_t i = 3; i < 8; ++i) EXPECT_EQ(f[i], plain[i] / 8);
}

}  // namespace
}  // namespace longhaul::spec
