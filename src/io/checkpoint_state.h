// state.json of a checkpoint: counters, and the hashes by which the other files are known.
#pragma once

#include <map>
#include <string>

#include "io/checkpoint.h"

namespace longhaul::io {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kConfigJsonFile = "config.json";
constexpr const char* kConfigTomlFile = "config.toml";
constexpr const char* kStateFile = "state.json";
constexpr const char* kLatest = "latest";

struct StateFile {
  CheckpointState state;
  std::map<std::string, std::string> hashes;  // file name to hash
};
std::string to_json(const StateFile& file);
// input_error, naming `where`, when anything of it is damaged: the text has a hash of itself.
StateFile parse_state(const std::string& text, const std::string& where);

}  // namespace longhaul::io
