// The folder of a run: config.toml, metrics.jsonl, checkpoints.
#pragma once

#include <string>
#include <string_view>

#include "io/file.h"

namespace longhaul::io {

class RunDirectory {
 public:
  // Makes the folder; input_error when a file is in the way or it cannot be made.
  explicit RunDirectory(std::string path);
  const std::string& path() const noexcept { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  void write_config(std::string_view toml);  // config.toml, atomically

  // Before a run goes on at `step` steps done: drops the lines of later steps, and what is no line of JSON (a line cut
  // by a crash), so that in the end the file has the lines of an uninterrupted run. 0 drops those of every step.
  // A step's lines must be appended before its checkpoint is written: they are not written again.
  void drop_metrics_after(Index step);
  // Appends one line (a JSON object with "step", without line break); run_error when the disk is full or fails.
  void append_metrics(std::string_view line);
  void sync_metrics();  // brings the lines to the disk, as is due before a checkpoint

 private:
  std::string path_;
  Descriptor metrics_;  // open for appending once a line has been written
};

}  // namespace longhaul::io
