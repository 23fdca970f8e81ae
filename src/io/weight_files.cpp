// Finds a model's safetensors files and the tensors in them.
#include "io/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.h"
#include "io/json.h"

namespace longhaul::io {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

// Tensor name to file name, as the index says.
std::map<std::string, std::string> read_index(const std::string& path) {
  const nlohmann::json root = parse_json(read_text(path), 8, "the index of the weights", path);
  const std::string hint = "get the model's directory again";
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object())
    throw input_error("the index of the weights has no \"weight_map\"", path, hint);
  std::map<std::string, std::string> index;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().empty() ||
        file.get_ref<const std::string&>().find('/') != std::string::npos)
      throw input_error("the index of the weights names no file of this directory for " + quote(name), path, hint);
    index.emplace(name, file.get<std::string>());
  }
  if (index.empty()) throw input_error("the index of the weights names no tensor", path, hint);
  return index;
}

std::set<std::string> list_model_files(const std::string& directory) {
  std::set<std::string> names;
  std::error_code code;
  for (std::filesystem::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors")) names.insert(name);
  }
  if (code) throw input_error("the folder cannot be read: " + code.message(), directory, "check its permissions");
  return names;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    open(path);
    return;
  }
  const std::filesystem::path directory(path);
  const std::string index_path = (directory / kIndexName).string();
  if (!std::filesystem::exists(index_path, ignored)) {
    const std::set<std::string> names = list_model_files(path);
    if (names.empty())
      throw input_error("the directory has no model*.safetensors", path,
                        "put the weights there, or train from random ones with --init random");
    for (const std::string& name : names) open((directory / name).string());
    return;
  }
  const auto index = read_index(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  for (const std::string& name : names) open((directory / name).string());
  for (const auto& [tensor, file] : index) {
    const Place place = find(tensor);
    if (!place || place.file->path() != (directory / file).string())
      throw input_error("tensor " + quote(tensor) + " is not in " + quote(file) + ", where the index has it",
                        index_path, "get the model's directory again");
  }
}

void WeightFiles::open(const std::string& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const TensorEntry& entry : files_.back()->tensors()) {
    const auto [at, added] = places_.emplace(entry.name, Place{files_.back().get(), &entry});
    if (!added)
      throw input_error("tensor " + quote(entry.name) + " is also in " + at->second.file->path(), file,
                        "leave the files of one model in the directory");
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

WeightFiles::Place WeightFiles::find(std::string_view name) const noexcept {
  const auto at = places_.find(name);
  return at == places_.end() ? Place{} : at->second;
}

WeightFiles::Place WeightFiles::require(std::string_view name, Kind kind, std::span<const Index> shape) const {
  const Place place = find(name);
  if (!place)
    throw input_error("tensor " + quote(name) + " is missing", path_,
                      "check that weights and config.json belong together");
  place.file->require(name, kind, shape);
  return place;
}

WeightFiles::Place WeightFiles::require(std::string_view name, Kind kind, std::initializer_list<Index> shape) const {
  return require(name, kind, std::span<const Index>(shape.begin(), shape.size()));
}

}  // namespace longhaul::io
