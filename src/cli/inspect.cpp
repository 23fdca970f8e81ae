// longhaul inspect: what a file or directory of this program holds.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/size.h"
#include "cli/commands.h"
#include "io/checkpoint.h"
#include "io/weight_files.h"
#include "train/inputs.h"

namespace longhaul::cli {
namespace {

using json = nlohmann::ordered_json;  // told in the order in which it is written below

json describe_tensors(std::span<const io::TensorEntry> tensors) {
  json all = json::array();
  for (const io::TensorEntry& t : tensors)
    all.push_back({{"name", t.name}, {"dtype", name_of(t.dtype)}, {"shape", t.shape}, {"bytes", t.bytes}});
  return all;
}

json describe_file(const std::string& path) {
  const io::SafetensorsFile file(path);
  return {{"kind", "safetensors"},
          {"path", path},
          {"metadata", file.metadata()},
          {"tensors", describe_tensors(file.tensors())}};
}

json describe_model(const std::string& path) {
  const train::ModelSource source = train::open_model(path);
  const spec::ModelSpec& m = source.spec;
  json out = {
      {"kind", "model"},        {"path", path},       {"family", m.family},         {"parameters", count_parameters(m)},
      {"layers", m.layers},     {"hidden", m.hidden}, {"heads", m.q_heads},         {"kv_heads", m.kv_heads},
      {"head_dim", m.head_dim}, {"ffn", m.ffn},       {"vocabulary", m.vocabulary}, {"tied", m.tied}};
  out["tensors"] = json::array();
  const io::WeightFiles weights(path);
  for (const auto& file : weights.files())
    for (const json& t : describe_tensors(file->tensors())) out["tensors"].push_back(t);
  return out;
}

json describe_checkpoint(const std::string& path) {
  const io::Checkpoint c(path);  // verifies the hash of every file
  json out = describe_model(path);
  out["kind"] = "checkpoint";
  out["step"] = c.state().step;
  out["samples"] = c.state().samples;
  out["sound"] = true;
  return out;
}

json describe_run(const std::string& path) {
  const std::string folder = path + "/checkpoints";
  json out = {{"kind", "run"}, {"path", path}, {"checkpoints", io::list_checkpoints(folder)}};
  const io::FoundCheckpoint found = io::find_latest_good(folder);
  for (const std::string& s : found.skipped) out["damaged"].push_back(s);
  if (found.checkpoint) out["latest"] = describe_checkpoint(found.checkpoint->path());
  return out;
}

json describe_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a path that cannot be looked up is not there
  if (!fs::exists(path, ignored))
    throw input_error("there is no such file or directory", path, "check the path given to --in");
  if (!fs::is_directory(path, ignored)) return describe_file(path);
  if (fs::exists(path + "/state.json", ignored)) return describe_checkpoint(path);
  if (fs::exists(path + "/config.json", ignored)) return describe_model(path);
  if (fs::exists(path + "/checkpoints", ignored)) return describe_run(path);
  throw input_error("nothing that this program knows", path,
                    "give a safetensors file, a model directory, a checkpoint or a run directory");
}

void print_for_people(const json& d) {
  for (const auto& [key, value] : d.items()) {
    if (key == "tensors" || key == "latest") continue;
    if (key == "damaged") {
      for (const json& one : value) fmt::print("{:<12} {}\n", key, one.get<std::string>());
      continue;
    }
    fmt::print("{:<12} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (d.contains("latest")) {
    fmt::print("\nlatest checkpoint\n");
    print_for_people(d["latest"]);
  }
  if (!d.contains("tensors")) return;
  fmt::print("\n");
  for (const json& t : d["tensors"])
    fmt::print("{:<48} {:<5} {:<16} {:>10}\n", t["name"].get<std::string>(), t["dtype"].get<std::string>(),
               t["shape"].dump(), format_bytes(t["bytes"].get<Index>()));
}

}  // namespace

int run_inspect(const spec::RunSpec& spec) {
  if (spec.in.empty()) throw input_error("no path is given", "--in", "longhaul inspect --in runs/first");
  const json d = describe_path(spec.in);
  if (spec.json)
    fmt::print("{}\n", d.dump(-1, ' ', false, json::error_handler_t::replace));
  else
    print_for_people(d);
  return 0;
}

}  // namespace longhaul::cli
