// Weights of a directory: one file, shards with an index, shards without, and what can be wrong with them.
#include "io/weight_files.h"

#include "scratch.h"

namespace longhaul::io {
namespace {

constexpr auto kInput = Error::Kind::kInput;

void put_tensors(const std::string& path, const std::vector<std::string>& names, float first) {
  std::vector<TensorDescription> tensors;
  for (const auto& name : names) tensors.push_back({name, FileDType::kF32, {2}});
  SafetensorsWriter writer(path, tensors);
  for (const auto& name : names) {
    writer.write<float>(name, std::vector<float>{first, first + 1});
    first += 2;
  }
  writer.finish();
}

std::vector<float> values(const WeightFiles& weights, const std::string& name) {
  const auto place = weights.require(name, Kind::kFloat, {2});
  return place.file->read_all<float>(*place.entry);
}

TEST(WeightFiles, OneFile) {
  const Scratch scratch;
  put_tensors(scratch / "model.safetensors", {"a", "b"}, 1);
  scratch.put("optimizer.safetensors", "not looked at");
  for (const std::string& path : {scratch.path(), scratch / "model.safetensors"}) {
    const WeightFiles weights(path);
    EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(values(weights, "b"), (std::vector<float>{3, 4}));
    EXPECT_FALSE(weights.find("c"));
    expect_error(kInput, "'c' is missing", path, [&] { weights.require("c", Kind::kFloat, {2}); });
    expect_error(kInput, "instead of [3]", "model.safetensors", [&] { weights.require("a", Kind::kFloat, {3}); });
  }
}

TEST(WeightFiles, ShardsWithAndWithoutIndex) {
  const Scratch scratch;
  put_tensors(scratch / "model-00001-of-00002.safetensors", {"a", "b"}, 1);
  put_tensors(scratch / "model-00002-of-00002.safetensors", {"c"}, 5);
  const auto check = [&] {
    const WeightFiles weights(scratch.path());
    EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(values(weights, "b"), (std::vector<float>{3, 4}));
    EXPECT_EQ(values(weights, "c"), (std::vector<float>{5, 6}));
  };
  check();
  const std::string index = "model.safetensors.index.json";
  scratch.put(index, R"({"metadata":{"total_size":24},"weight_map":{"a":"model-00001-of-00002.safetensors",
    "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
  check();
  const struct {
    const char *text, *what, *where;
  } cases[] = {
      {"", "not JSON", "index.json"},
      {"[]", "no \"weight_map\"", "index.json"},
      {R"({"weight_map":[]})", "no \"weight_map\"", "index.json"},
      {R"({"weight_map":{"a":7}})", "names no file", "index.json"},
      {R"({"weight_map":{"a":"../x"}})", "names no file", "index.json"},
      {R"({"weight_map":{}})", "names no tensor", "index.json"},
      {R"({"weight_map":{"a":"gone.safetensors"}})", "No such file", "gone.safetensors"},
      {R"({"weight_map":{"a":"model-00002-of-00002.safetensors"}})", "'a' is not in", "index.json"},
  };
  for (const auto& c : cases) {
    scratch.put(index, c.text);
    expect_error(
        kInput, c.what, c.where, [&] { WeightFiles weights(scratch.path()); }, c.text);
  }
}

TEST(WeightFiles, Refusals) {
  const Scratch scratch;
  expect_error(kInput, "no model*.safetensors", scratch.path(), [&] { WeightFiles weights(scratch.path()); });
  expect_error(kInput, "No such file", "nope", [&] { WeightFiles weights(scratch / "nope"); });
  put_tensors(scratch / "model-1.safetensors", {"a"}, 1);
  put_tensors(scratch / "model-2.safetensors", {"a"}, 1);
  expect_error(kInput, "'a' is also in", "model-2", [&] { WeightFiles weights(scratch.path()); });
  const std::string golden = TEST_SOURCE_DIR "/golden/models/llama31";
  scratch.put("cut/model.safetensors", slurp(golden + "/model.safetensors").substr(0, 3000));
  expect_error(kInput, "", "cut/model.safetensors", [&] { WeightFiles weights(scratch / "cut"); });
  EXPECT_EQ(WeightFiles(golden).require("model.embed_tokens.weight", Kind::kFloat, {-1, -1}).entry->shape.size(), 2u);
}

}  // namespace
}  // namespace longhaul::io
