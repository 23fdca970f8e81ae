// ModelSpec from and to a Hugging Face config.json. What could change the result and is not understood is refused.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "spec/model_spec.h"

namespace longhaul::spec {
namespace {

using Json = nlohmann::json;

// Keys that do not change what this program computes: names, special tokens, generation and export settings of
// transformers' PretrainedConfig, and the type in which weights were published.
constexpr std::array kHarmless = {"_name_or_path",
                                  "architectures",
                                  "transformers_version",
                                  "auto_map",
                                  "bos_token_id",
                                  "eos_token_id",
                                  "pad_token_id",
                                  "sep_token_id",
                                  "decoder_start_token_id",
                                  "use_cache",
                                  "torch_dtype",
                                  "dtype",
                                  "pretraining_tp",
                                  "tokenizer_class",
                                  "id2label",
                                  "label2id",
                                  "return_dict",
                                  "output_hidden_states",
                                  "output_attentions",
                                  "torchscript",
                                  "is_encoder_decoder",
                                  "is_decoder",
                                  "problem_type",
                                  "task_specific_params",
                                  "finetuning_task",
                                  "prefix",
                                  "do_sample",
                                  "temperature",
                                  "top_k",
                                  "top_p",
                                  "max_length",
                                  "min_length",
                                  "max_window_layers",
                                  "chunk_size_feed_forward",
                                  "use_bfloat16",
                                  "tf_legacy_loss",
                                  "attn_implementation",
                                  "_attn_implementation",
                                  "_attn_implementation_autoset",
                                  "unsloth_version"};

constexpr Index kMostParameters = 100'000'000'000'000;

class Reader {
 public:
  Reader(const Json& object, std::string where, std::string prefix)
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  // The value, or nullptr when the key is absent or null. Marks the key as understood.
  const Json* find(const char* key) {
    seen_.emplace_back(key);
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  Index integer(const char* key, Index least, Index most, const Index* absent) {
    const Json* v = find(key);
    if (v == nullptr) {
      if (absent != nullptr) return *absent;
      fail(key, "is missing");
    }
    if (!v->is_number_integer()) fail(key, fmt::format("is {}, not an integer", v->dump()));
    const bool wraps = v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
    if (wraps || v->get<Index>() < least || v->get<Index>() > most)
      fail(key, fmt::format("is {}, not in [{}, {}]", v->dump(), least, most));
    return v->get<Index>();
  }
  double real(const char* key, double least, double most, const double* absent) {
    const Json* v = find(key);
    if (v == nullptr) {
      if (absent != nullptr) return *absent;
      fail(key, "is missing");
    }
    if (!v->is_number()) fail(key, fmt::format("is {}, not a number", v->dump()));
    const double x = v->get<double>();
    if (!(x >= least && x <= most)) fail(key, fmt::format("is {}, not in [{}, {}]", v->dump(), least, most));
    return x;
  }
  bool boolean(const char* key, bool absent) {
    const Json* v = find(key);
    if (v == nullptr) return absent;
    if (!v->is_boolean()) fail(key, fmt::format("is {}, not true or false", v->dump()));
    return v->get<bool>();
  }
  std::string text(const char* key, const char* absent) {
    const Json* v = find(key);
    if (v == nullptr) return absent;
    if (!v->is_string()) fail(key, fmt::format("is {}, not a string", v->dump()));
    return v->get<std::string>();
  }
  // A key that this program understands at one value only.
  void only(const char* key, const Json& value) {
    const Json* v = find(key);
    if (v != nullptr && *v != value)
      fail(key, fmt::format("is {}, and this program runs {} only", v->dump().substr(0, 60), value.dump()));
  }
  void understood(const char* key) { seen_.emplace_back(key); }
  void refuse_the_rest() const {
    for (const auto& [key, value] : object_.items())
      if (!value.is_null() && std::find(seen_.begin(), seen_.end(), key) == seen_.end())
        fail(key.c_str(), "is not known to this program and may change the result");
  }
  [[noreturn]] void fail(const std::string& key, const std::string& why) const {
    throw input_error(fmt::format("{}{} {}", prefix_, key, why), where_,
                      "give the config.json of a Llama model as transformers writes it");
  }

 private:
  const Json& object_;
  std::string where_, prefix_;
  std::vector<std::string> seen_;
};

RopeSpec parse_rope_object(const Json& object, const std::string& where, const char* key, double theta,
                           bool has_theta) {
  RopeSpec rope;
  rope.theta = theta;
  Reader r(object, where, std::string(key) + ".");
  if (has_theta) rope.theta = r.real("rope_theta", 1e-3, 1e15, &theta);
  const std::string type = r.text("rope_type", r.text("type", "default").c_str());
  r.only("partial_rotary_factor", 1.0);
  if (type == "llama3") {
    rope.kind = RopeKind::kLlama3;
    rope.factor = r.real("factor", 1, 1e6, nullptr);
    rope.low_frequency_factor = r.real("low_freq_factor", 1e-6, 1e6, nullptr);
    rope.high_frequency_factor = r.real("high_freq_factor", 1e-6, 1e6, nullptr);
    rope.original_context = r.integer("original_max_position_embeddings", 1, Index{1} << 40, nullptr);
    if (!(rope.high_frequency_factor > rope.low_frequency_factor))
      r.fail("high_freq_factor", "is not above low_freq_factor");
  } else if (type != "default") {
    r.fail("rope_type", fmt::format("is \"{}\", and this program runs \"default\" and \"llama3\" only", type));
  }
  r.refuse_the_rest();
  return rope;
}

// The older form has rope_theta and rope_scaling beside each other, the newer rope_parameters with both.
RopeSpec parse_rope(Reader& r, const std::string& where) {
  const double plain = 10000;
  const double theta = r.real("rope_theta", 1e-3, 1e15, &plain);
  const Json* newer = r.find("rope_parameters");
  const Json* older = r.find("rope_scaling");
  if (newer != nullptr && older != nullptr)
    r.fail("rope_scaling", "stands beside rope_parameters; only one may be given");
  RopeSpec rope;
  rope.theta = theta;
  for (const auto& [value, key] : {std::pair{newer, "rope_parameters"}, std::pair{older, "rope_scaling"}}) {
    if (value == nullptr) continue;
    if (!value->is_object()) r.fail(key, fmt::format("is {}, not an object", value->dump().substr(0, 60)));
    return parse_rope_object(*value, where, key, theta, value == newer);
  }
  return rope;
}

void check_shape(const ModelSpec& m, const Reader& r) {
  if (m.q_heads % m.kv_heads != 0)
    r.fail("num_key_value_heads", fmt::format("{} does not divide num_attention_heads {}", m.kv_heads, m.q_heads));
  if (m.head_dim % 2 != 0) r.fail("head_dim", fmt::format("{} is odd, and rotary embedding turns pairs", m.head_dim));
  // In floating point first: products of sizes at their limits stay below 2^63, their sum is checked here.
  const double attention = 2.0 * static_cast<double>((m.q_heads + m.kv_heads) * m.head_dim);
  const double layer = static_cast<double>(m.hidden) * (attention + 3.0 * static_cast<double>(m.ffn));
  const double all = layer * static_cast<double>(m.layers) + 2.0 * static_cast<double>(m.vocabulary * m.hidden);
  if (all > static_cast<double>(kMostParameters))
    r.fail("num_hidden_layers",
           fmt::format("and the other sizes give {:.1e} parameters, more than this program counts", all));
}

}  // namespace

ModelSpec parse_config_json(std::string_view text, const std::string& where) {
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception& e) {
    throw input_error(fmt::format("not a JSON document ({})", e.what()), where, "write the file again");
  }
  if (!root.is_object()) throw input_error("not a JSON object", where, "give a Hugging Face config.json");
  Reader r(root, where, "");
  ModelSpec m;
  m.name = where;
  m.family = r.text("model_type", "");
  if (m.family.empty()) r.fail("model_type", "is missing");
  if (m.family != "llama")
    r.fail("model_type", fmt::format("is \"{}\", and this program runs \"llama\" only", m.family));
  m.hidden = r.integer("hidden_size", 1, 1 << 20, nullptr);
  m.layers = r.integer("num_hidden_layers", 1, 10000, nullptr);
  m.q_heads = r.integer("num_attention_heads", 1, 1 << 14, nullptr);
  m.kv_heads = r.integer("num_key_value_heads", 1, 1 << 14, &m.q_heads);
  const Index even_share = m.hidden / m.q_heads;
  if (r.find("head_dim") == nullptr && (m.hidden % m.q_heads != 0 || even_share == 0))
    r.fail("num_attention_heads", fmt::format("{} does not divide hidden_size {}", m.q_heads, m.hidden));
  m.head_dim = r.integer("head_dim", 1, 576, &even_share);
  m.ffn = r.integer("intermediate_size", 1, 1 << 22, nullptr);
  m.vocabulary = r.integer("vocab_size", 1, 1 << 24, nullptr);
  const Index context = 2048;
  m.max_context = r.integer("max_position_embeddings", 1, Index{1} << 40, &context);
  const double eps = 1e-6, deviation = 0.02;
  m.norm_eps = r.real("rms_norm_eps", 0, 1, &eps);
  m.init_std = r.real("initializer_range", 0, 10, &deviation);
  m.tied = r.boolean("tie_word_embeddings", false);
  m.rope = parse_rope(r, where);
  r.only("hidden_act", "silu");
  r.only("attention_bias", false);
  r.only("mlp_bias", false);
  r.only("attention_dropout", 0.0);
  r.only("partial_rotary_factor", 1.0);
  r.only("use_sliding_window", false);
  if (const Json* kinds = r.find("layer_types")) {
    if (!kinds->is_array()) r.fail("layer_types", "is not a list");
    for (const Json& k : *kinds)
      if (k != "full_attention")
        r.fail("layer_types", fmt::format("has {}, and this program runs \"full_attention\" only", k.dump()));
  }
  for (const char* key : kHarmless) r.understood(key);
  r.refuse_the_rest();
  check_shape(m, r);
  return m;
}

std::string to_config_json(const ModelSpec& m) {
  CHECK(m.family == "llama" && m.mask == MaskSpec{}, "%s has no config.json here", m.name.c_str());
  nlohmann::ordered_json j;
  j["architectures"] = {"LlamaForCausalLM"};
  j["model_type"] = "llama";
  j["hidden_size"] = m.hidden;
  j["num_hidden_layers"] = m.layers;
  j["num_attention_heads"] = m.q_heads;
  j["num_key_value_heads"] = m.kv_heads;
  j["head_dim"] = m.head_dim;
  j["intermediate_size"] = m.ffn;
  j["vocab_size"] = m.vocabulary;
  j["max_position_embeddings"] = m.max_context;
  j["rms_norm_eps"] = m.norm_eps;
  j["initializer_range"] = m.init_std;
  j["tie_word_embeddings"] = m.tied;
  j["hidden_act"] = "silu";
  j["attention_bias"] = false;
  j["attention_dropout"] = 0.0;
  j["mlp_bias"] = false;
  j["rope_theta"] = m.rope.theta;
  if (m.rope.kind == RopeKind::kLlama3)
    j["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", m.rope.factor},
                         {"low_freq_factor", m.rope.low_frequency_factor},
                         {"high_freq_factor", m.rope.high_frequency_factor},
                         {"original_max_position_embeddings", m.rope.original_context}};
  else
    j["rope_scaling"] = nullptr;
  j["torch_dtype"] = "float32";
  j["use_cache"] = true;
  return j.dump(2) + "\n";
}

}  // namespace longhaul::spec
