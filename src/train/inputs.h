// What a command is given: a model by preset or directory.
#pragma once

#include <optional>
#include <string>

#include "io/weight_files.h"
#include "spec/model_spec.h"

namespace longhaul::train {

struct ModelSource {
  spec::ModelSpec spec;
  std::string directory;  // empty for a preset
};

// A preset's name, or a directory with config.json. Input errors: neither, or a model that cannot run yet.
ModelSource open_model(const std::string& name);

// The weights of the directory, checked against the model; nothing for a preset. Throws what check_weights throws.
std::optional<io::WeightFiles> open_weights(const ModelSource& source);

}  // namespace longhaul::train
