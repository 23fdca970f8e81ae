// Writes and reads state.json.
#include "io/checkpoint_state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"

namespace longhaul::io {
namespace {

constexpr std::uint64_t kFormat = 1;
constexpr const char* kHint = "resume from another checkpoint";

std::string hash_text(const std::string& text) {
  FileHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.digest();
}

}  // namespace

std::string to_json(const StateFile& file) {
  nlohmann::json root = {{"format", kFormat},
                         {"step", static_cast<std::uint64_t>(file.state.step)},
                         {"samples", static_cast<std::uint64_t>(file.state.samples)},
                         {"seed", file.state.seed},
                         {"files", file.hashes}};
  root["hash"] = hash_text(root.dump());
  return root.dump(2) + "\n";
}

StateFile parse_state(const std::string& text, const std::string& where) {
  nlohmann::json root = parse_json(text, 3, "the checkpoint's state", where);
  if (!root.is_object()) throw input_error("the checkpoint's state is not an object", where, kHint);
  const auto count = [&](const char* key) {
    if (!root.contains(key) || !root[key].is_number_unsigned())
      throw input_error(std::string("the checkpoint's state has no \"") + key + "\"", where, kHint);
    return root[key].get<std::uint64_t>();
  };
  if (count("format") > kFormat)
    throw input_error("the checkpoint has format " + std::to_string(count("format")) + ", this program knows up to " +
                          std::to_string(kFormat),
                      where, "use the version of longhaul that wrote it, or a later one");
  nlohmann::json rest = root;
  rest.erase("hash");
  if (!root.contains("hash") || root["hash"] != hash_text(rest.dump()))
    throw input_error("the checkpoint's state differs from its own hash", where, kHint);

  StateFile file;
  file.state = {static_cast<Index>(count("step")), static_cast<Index>(count("samples")), count("seed")};
  const bool valid = root.contains("files") && root["files"].is_object();
  for (const char* name : {kModelFile, kOptimizerFile, kConfigJsonFile, kConfigTomlFile}) {
    if (!valid || !root["files"].contains(name) || !root["files"][name].is_string())
      throw input_error("the checkpoint's state has no hash of " + std::string(name), where, kHint);
    file.hashes[name] = root["files"][name].get<std::string>();
  }
  return file;
}

}  // namespace longhaul::io
