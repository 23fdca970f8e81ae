// Reads the golden attention cases.
#include "kernel/attention_golden.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/safetensors.h"

namespace longhaul::testing {
namespace {

const std::string kFolder = TEST_SOURCE_DIR "/golden/attention/";

GoldenAttention read_case(const nlohmann::json& listed) {
  GoldenAttention golden;
  AttentionCase& c = golden.problem;
  c.name = listed.at("name");
  const io::SafetensorsFile file(kFolder + c.name + ".safetensors");
  const auto values = [&](const char* name) { return file.read_all<double>(*file.find(name)); };
  const auto number = [&](const char* key) { return std::stod(file.metadata().find(key)->second); };

  const auto& q = file.find("q")->shape;
  c.q_heads = q[1], c.d_qk = q[2];
  c.kv_heads = file.find("k")->shape[1], c.d_v = file.find("v")->shape[2];
  c.group = c.q_heads / c.kv_heads;
  c.params.mask = {file.metadata().find("mask")->second == "causal" ? Order::kCausal : Order::kFull,
                   static_cast<Index>(number("window")), static_cast<Index>(number("chunk"))};
  c.params.scale = number("scale");
  c.params.softcap = number("softcap");
  std::vector<std::int32_t> documents;
  if (file.find("segment_ids")) documents = file.read_all<std::int32_t>(*file.find("segment_ids"));
  c.q_tokens.resize(q[0]);
  make_tokens(documents, {}, c.q_tokens);
  c.k_tokens = c.q_tokens;
  c.q = values("q"), c.k = values("k"), c.v = values("v"), c.d_o = values("do");
  if (file.find("sinks")) c.sinks = values("sinks");
  for (const char* name : {"o", "lse", "dq", "dk", "dv", "dsinks"})
    if (file.find(name)) {
      golden.expected.push_back({name, values(name)});
      golden.float32_error[name] = listed.at("float32_error").at(name);
    }
  return golden;
}

}  // namespace

std::vector<GoldenAttention> golden_attention() {
  std::ifstream list(kFolder + "cases.json");
  std::vector<GoldenAttention> all;
  for (const auto& listed : nlohmann::json::parse(list)) all.push_back(read_case(listed));
  return all;
}

}  // namespace longhaul::testing
