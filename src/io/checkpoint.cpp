// Finds, verifies and loads checkpoints.
#include "io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "io/checkpoint_state.h"

namespace longhaul::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

std::optional<Index> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  Index step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return {};
  return step;
}

// Reads elements [first, first + out.size()) of tensors that lie one after the other, PREFIX before each name.
void read_flat(const SafetensorsFile& file, const std::string& prefix, std::span<const TensorDescription> tensors,
               Index first, std::span<float> out) {
  Index begin = 0;  // of the tensor at hand
  const Index end = first + static_cast<Index>(out.size());
  for (const TensorDescription& tensor : tensors) {
    const Index from = std::max(first, begin), to = std::min(end, begin + tensor.count());
    if (from < to)
      file.read(*file.find(prefix + tensor.name), from - begin,
                out.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(to - from)));
    begin += tensor.count();
  }
  CHECK(0 <= first && end <= begin, "elements [%ld, %ld) of %ld", first, end, begin);
}

void require_tensors(const SafetensorsFile& file, std::span<const char* const> prefixes,
                     std::span<const TensorDescription> tensors) {
  for (const char* prefix : prefixes)
    for (const TensorDescription& tensor : tensors) file.require(prefix + tensor.name, Kind::kFloat, tensor.shape);
  if (file.tensors().size() != prefixes.size() * tensors.size())
    throw input_error("the checkpoint has " + std::to_string(file.tensors().size()) + " tensors instead of " +
                          std::to_string(prefixes.size() * tensors.size()),
                      file.path(), "resume with the model that the checkpoint was written from");
}

}  // namespace

std::string checkpoint_name(Index step) {
  char name[32];
  std::snprintf(name, sizeof name, "step_%08ld", static_cast<long>(step));
  return name;
}

std::vector<Index> list_checkpoints(const std::string& folder) {
  std::vector<Index> steps;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    const auto step = step_of(name);
    if (step && checkpoint_name(*step) == name) steps.push_back(*step);
  }
  if (code && code != std::errc::no_such_file_or_directory)
    throw input_error("the folder of checkpoints cannot be read: " + code.message(), folder, "check the path");
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint::Checkpoint(std::string path, Verify verify) : path_(std::move(path)) {
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored))
    throw input_error("there is no checkpoint", path_, "name a folder step_* below a run's checkpoints");
  const std::string state_path = path_ + "/" + kStateFile;
  const StateFile state = parse_state(read_text(state_path), state_path);
  if (verify == Verify::kHashes)
    for (const auto& [name, hash] : state.hashes)
      if (hash_file(path_ + "/" + name) != hash)
        throw input_error("the checkpoint is damaged: a file differs from its hash", path_ + "/" + name,
                          "resume from another checkpoint");
  state_ = state.state;
  config_json_ = read_text(path_ + "/" + kConfigJsonFile);
  config_toml_ = read_text(path_ + "/" + kConfigTomlFile);
  model_ = std::make_unique<SafetensorsFile>(path_ + "/" + kModelFile);
  optimizer_ = std::make_unique<SafetensorsFile>(path_ + "/" + kOptimizerFile);
}

void Checkpoint::load(std::span<const TensorDescription> parameters, TrainingTensors into, Index first) const {
  constexpr const char* kNone[] = {""};
  constexpr const char* kMoments[] = {"optimizer.m.", "optimizer.v."};
  require_tensors(*model_, kNone, parameters);
  require_tensors(*optimizer_, kMoments, parameters);
  if (!into.parameters.empty()) read_flat(*model_, "", parameters, first, into.parameters);
  if (!into.first_moments.empty()) read_flat(*optimizer_, kMoments[0], parameters, first, into.first_moments);
  if (!into.second_moments.empty()) read_flat(*optimizer_, kMoments[1], parameters, first, into.second_moments);
}

FoundCheckpoint find_latest_good(const std::string& folder) {
  FoundCheckpoint found;
  std::vector<Index> steps = list_checkpoints(folder);
  std::error_code no_link;
  const fs::path latest = fs::read_symlink(folder + "/" + kLatest, no_link);
  if (const auto newest = step_of(latest.string()); !no_link && newest)
    std::erase_if(steps, [&](Index step) { return step > *newest; });
  for (; !steps.empty(); steps.pop_back()) {
    try {
      found.checkpoint.emplace(folder + "/" + checkpoint_name(steps.back()));
      return found;
    } catch (const Error& error) {
      found.skipped.push_back(std::string(error.what()) + ", " + error.where);
    }
  }
  if (!found.skipped.empty())
    throw input_error("every checkpoint is damaged; the newest: " + found.skipped.front(), folder,
                      "begin again with --resume never, or in another --run folder");
  return found;
}

}  // namespace longhaul::io
