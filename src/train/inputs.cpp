// Opens models.
#include "train/inputs.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "train/weights.h"

namespace longhaul::train {

ModelSource open_model(const std::string& name) {
  ModelSource source;
  std::error_code ignored;
  if (const spec::ModelSpec* preset = spec::find_preset(name)) {
    source.spec = *preset;
  } else if (std::filesystem::is_directory(name, ignored)) {
    const std::string path = name + "/config.json";
    source.spec = spec::parse_config_json(io::read_text(path), path);
    source.spec.name = name, source.directory = name;
  } else {
    std::string presets;
    for (const std::string& p : spec::preset_names()) presets += (presets.empty() ? "" : ", ") + p;
    if (name.empty())
      throw input_error("no model is given", "--model",
                        "give a directory with config.json and model.safetensors, or one of " + presets);
    throw input_error("there is no model \"" + name + "\"", "--model",
                      "give a directory with config.json and model.safetensors, or one of " + presets);
  }
  return source;
}

std::optional<io::WeightFiles> open_weights(const ModelSource& source) {
  if (source.directory.empty()) return std::nullopt;
  std::optional<io::WeightFiles> files(std::in_place, source.directory);
  check_weights(*files, spec::parameters_of(source.spec));
  return files;
}

}  // namespace longhaul::train
