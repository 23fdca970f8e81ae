// Writes a checkpoint under a temporary name and gives it its own when it is whole and on the disk.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "io/checkpoint.h"
#include "io/checkpoint_state.h"

namespace longhaul::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartialPrefix = "partial_";  // before it is whole
constexpr const char* kRemovedPrefix = "removed_";  // once it no longer is

Error failed(const std::string& what, int code, const std::string& path) {
  return run_error(what + ": " + describe_errno(code), path, "check the disk and the permissions of the folder");
}

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw failed("the checkpoint cannot be renamed", errno, to);
}

// Removes a checkpoint so that its name never stands for a part of it.
void remove_checkpoint(const std::string& folder, const std::string& name) {
  const std::string removed = folder + "/" + kRemovedPrefix + name;
  std::error_code ignored;
  fs::remove_all(removed, ignored);
  rename_folder(folder + "/" + name, removed);
  fs::remove_all(removed, ignored);
}

// Gives `partial` its name. A checkpoint of that step that is there (left by the run that this one resumed) is
// exchanged in one move where the file system can do that.
void put_in_place(const std::string& folder, const std::string& partial, const std::string& name) {
  const std::string place = folder + "/" + name;
  std::error_code ignored;
  if (!fs::exists(place, ignored)) {
    rename_folder(partial, place);
  } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(partial, ignored);
  } else {
    remove_checkpoint(folder, name);
    rename_folder(partial, place);
  }
  sync_folder(folder);
}

void point_latest_to(const std::string& folder, const std::string& name) {
  const std::string latest = folder + "/" + kLatest, temporary = latest + ".tmp";
  ::unlink(temporary.c_str());
  if (::symlink(name.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), latest.c_str()) != 0)
    throw failed("the link to the latest checkpoint cannot be made", errno, latest);
  sync_folder(folder);
}

void remove_leftovers(const std::string& folder) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    for (const std::string prefix : {kPartialPrefix, kRemovedPrefix})
      if (name.starts_with(prefix + "step_")) leftovers.push_back(at->path());
  }
  for (const auto& path : leftovers) fs::remove_all(path, ignored);
}

std::vector<TensorDescription> optimizer_tensors(std::span<const TensorDescription> parameters) {
  std::vector<TensorDescription> tensors;
  for (const char* prefix : {"optimizer.m.", "optimizer.v."})
    for (const TensorDescription& parameter : parameters)
      tensors.push_back({prefix + parameter.name, FileDType::kF32, parameter.shape});
  return tensors;
}

// Tensors that lie in `values` one after the other.
std::string write_tensors(const std::string& path, const std::vector<TensorDescription>& tensors,
                          std::span<const float> values) {
  SafetensorsWriter writer(path, tensors, {{"format", "pt"}});  // transformers wants to be told
  for (const TensorDescription& tensor : tensors) {
    const auto n = static_cast<std::size_t>(tensor.count());
    writer.write<float>(tensor.name, values.first(n));
    values = values.subspan(n);
  }
  return writer.finish();
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string folder, std::vector<TensorDescription> parameters, Options options)
    : folder_(std::move(folder)), parameters_(std::move(parameters)), options_(std::move(options)) {
  for (const TensorDescription& parameter : parameters_) {
    CHECK(parameter.dtype == FileDType::kF32, "%s is %s", parameter.name.c_str(), name_of(parameter.dtype));
    total_ += parameter.count();
  }
  make_folders(folder_);
  remove_leftovers(folder_);
  memory_.resize(static_cast<std::size_t>(3 * total_));
}

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointWriter::set_config_toml(std::string text) {
  wait();
  options_.config_toml = std::move(text);
}

TrainingTensors CheckpointWriter::prepare() {
  wait();
  const std::span<float> all(memory_);
  const auto n = static_cast<std::size_t>(total_);
  return {all.first(n), all.subspan(n, n), all.subspan(2 * n, n)};
}

void CheckpointWriter::start(const CheckpointState& state) {
  CHECK(!writing_.valid(), "start() without prepare() at step %ld", state.step);
  writing_ = std::async(std::launch::async, [this, state] { write(state); });
}

void CheckpointWriter::save(const CheckpointState& state, std::span<const float> parameters,
                            std::span<const float> first_moments, std::span<const float> second_moments) {
  const TrainingTensors to = prepare();
  CHECK(parameters.size() == to.parameters.size() && first_moments.size() == parameters.size() &&
            second_moments.size() == parameters.size(),
        "%zu, %zu and %zu values, %ld parameters", parameters.size(), first_moments.size(), second_moments.size(),
        total_);
  std::copy(parameters.begin(), parameters.end(), to.parameters.begin());
  std::copy(first_moments.begin(), first_moments.end(), to.first_moments.begin());
  std::copy(second_moments.begin(), second_moments.end(), to.second_moments.begin());
  start(state);
}

void CheckpointWriter::wait() {
  if (writing_.valid()) writing_.get();
}

void CheckpointWriter::write_files(const CheckpointState& state, const std::string& partial) const {
  const std::span<const float> all(memory_);
  const auto n = static_cast<std::size_t>(total_);
  StateFile file{state, {}};
  file.hashes[kModelFile] = write_tensors(partial + "/" + kModelFile, parameters_, all.first(n));
  file.hashes[kOptimizerFile] =
      write_tensors(partial + "/" + kOptimizerFile, optimizer_tensors(parameters_), all.subspan(n));
  file.hashes[kConfigJsonFile] = write_text(partial + "/" + kConfigJsonFile, options_.config_json);
  file.hashes[kConfigTomlFile] = write_text(partial + "/" + kConfigTomlFile, options_.config_toml);
  write_text(partial + "/" + kStateFile, to_json(file));
}

void CheckpointWriter::write(const CheckpointState& state) const {
  const std::string name = checkpoint_name(state.step), partial = folder_ + "/" + kPartialPrefix + name;
  std::error_code ignored;
  try {
    fs::remove_all(partial, ignored);
    make_folders(partial);
    write_files(state, partial);
    put_in_place(folder_, partial, name);
  } catch (...) {
    fs::remove_all(partial, ignored);
    throw;
  }
  point_latest_to(folder_, name);

  // Checkpoints of later steps, of a course that this run did not continue, are neither counted nor touched.
  std::vector<Index> steps = list_checkpoints(folder_);
  std::erase_if(steps, [&](Index step) { return step > state.step; });
  const auto keep = options_.keep == 0 ? steps.size() : static_cast<std::size_t>(options_.keep);
  for (std::size_t i = 0; i + keep < steps.size(); ++i) remove_checkpoint(folder_, checkpoint_name(steps[i]));
}

}  // namespace longhaul::io
