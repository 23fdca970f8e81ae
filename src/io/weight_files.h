// The weights of a Hugging Face directory: model.safetensors, or shards that an index or their names announce.
#pragma once

#include <memory>

#include "io/safetensors.h"

namespace longhaul::io {

class WeightFiles {
 public:
  struct Place {
    const SafetensorsFile* file = nullptr;
    const TensorEntry* entry = nullptr;
    explicit operator bool() const noexcept { return entry != nullptr; }
  };

  // `path` is a safetensors file, or a directory with model.safetensors.index.json (then the files it names), or with
  // model*.safetensors. input_error when there is none, one is unsound, a tensor stands in two files, or a tensor of
  // the index is not in the file it is said to be in.
  explicit WeightFiles(const std::string& path);
  const std::string& path() const noexcept { return path_; }
  std::span<const std::unique_ptr<SafetensorsFile>> files() const noexcept { return files_; }
  std::vector<std::string> names() const;  // sorted

  Place find(std::string_view name) const noexcept;  // empty: not there
  // As SafetensorsFile::require, over all files; a missing tensor is reported with `path`.
  Place require(std::string_view name, Kind kind, std::span<const Index> shape) const;
  Place require(std::string_view name, Kind kind, std::initializer_list<Index> shape) const;

 private:
  void open(const std::string& file);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace longhaul::io
