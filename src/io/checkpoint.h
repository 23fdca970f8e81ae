// Checkpoints: a folder step_00000040 with model.safetensors (Hugging Face's names, F32), optimizer.safetensors
// (optimizer.m.NAME, optimizer.v.NAME, F32), config.json, config.toml and state.json, which has the counters and the
// 128-bit hash of every other file. A folder of that name is always whole; `latest` is a link to the last one written.
// Parameters stand in one flat order, without padding, so a checkpoint loads under any division of it.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace longhaul::io {

struct CheckpointState {
  Index step = 0;          // steps done
  Index samples = 0;       // sequences that those consumed: the next sample
  std::uint64_t seed = 0;  // of the order of samples
  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

// Parameters and Adam's moments in the flat order, or a piece of each.
struct TrainingTensors {
  std::span<float> parameters, first_moments, second_moments;
};

std::string checkpoint_name(Index step);                         // "step_00000040"
std::vector<Index> list_checkpoints(const std::string& folder);  // steps, ascending; empty when there is no such folder

// Writes checkpoints from memory of its own, in a thread of its own.
class CheckpointWriter {
 public:
  struct Options {
    std::string config_json;  // Hugging Face's
    std::string config_toml;  // effective
    Index keep = 0;           // newest checkpoints that stay; 0: all
  };
  // `folder` holds the checkpoints; it is made, and what a killed run left half-written there is removed. `parameters`
  // gives names and shapes in the flat order (F32). Allocates the snapshot: memory_bytes(). input_error when the
  // folder cannot be made.
  CheckpointWriter(std::string folder, std::vector<TensorDescription> parameters, Options options);
  ~CheckpointWriter();  // waits; an error that wait() did not see is lost
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  Index memory_bytes() const noexcept { return 3 * total_ * static_cast<Index>(sizeof(float)); }
  void set_config_toml(std::string text);  // of the checkpoints that are started from now on; waits

  // The snapshot's memory, to be filled by whoever has the pieces; waits for the writing before. Then start() writes it
  // in the background. save() does both from whole buffers. Errors of the writing before are thrown here.
  TrainingTensors prepare();
  void start(const CheckpointState& state);
  void save(const CheckpointState& state, std::span<const float> parameters, std::span<const float> first_moments,
            std::span<const float> second_moments);
  // Waits for the writing and throws its error: run_error when the disk is full or fails. Older checkpoints are then as
  // they were, and nothing half-written is left.
  void wait();

 private:
  void write(const CheckpointState& state) const;
  void write_files(const CheckpointState& state, const std::string& partial) const;

  std::string folder_;
  std::vector<TensorDescription> parameters_;
  Options options_;
  Index total_ = 0;
  std::vector<float> memory_;
  std::future<void> writing_;
};

// A checkpoint opened for reading.
class Checkpoint {
 public:
  enum class Verify : std::uint8_t { kHashes, kNone };  // kNone: another rank has verified it
  // input_error when there is none at `path`, a file is missing or differs from its hash (named), or the format is
  // of a later version.
  explicit Checkpoint(std::string path, Verify verify = Verify::kHashes);
  const std::string& path() const noexcept { return path_; }
  const CheckpointState& state() const noexcept { return state_; }
  const std::string& config_json() const noexcept { return config_json_; }
  const std::string& config_toml() const noexcept { return config_toml_; }
  const SafetensorsFile& model() const noexcept { return *model_; }
  const SafetensorsFile& optimizer() const noexcept { return *optimizer_; }

  // Fills elements [first, first + size) of the flat order; a span of `into` may be empty and is then left out.
  // `parameters` are those of the model at hand: input_error when names or shapes differ, or the checkpoint has more.
  void load(std::span<const TensorDescription> parameters, TrainingTensors into, Index first = 0) const;

 private:
  std::string path_;
  CheckpointState state_;
  std::string config_json_, config_toml_;
  std::unique_ptr<SafetensorsFile> model_, optimizer_;
};

struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;  // none: there is no checkpoint in the folder
  std::vector<std::string> skipped;      // one line each: a newer one, and what is wrong with it
};
// The checkpoint that `latest` names, or else the newest before it that is sound (without `latest`: the newest).
// input_error when there are checkpoints but all are damaged.
FoundCheckpoint find_latest_good(const std::string& folder);

}  // namespace longhaul::io
