// The documents of a training run: every file found under some paths, held in memory, bytes as tokens 0 to 255, and
// which of them are held out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"

namespace longhaul::io {

struct Document {
  std::string path;
  std::span<const std::uint8_t> bytes;  // at least one
  std::uint64_t hash = 0;               // of the bytes alone
};

// The non-empty regular files that the paths name or hold, in order: paths as given, within a folder by name
// (bytewise), folders entered in turn. Links are followed; a file or folder that is reached twice counts once, so loops
// end. Within folders names that begin with a dot are left out. input_error for a path that is not there, or cannot be
// read.
std::vector<std::string> list_data_files(std::span<const std::string> paths);

// Held out are the documents whose hash is in the lowest sixteenth of all hashes: about 1 in 16, decided by content
// alone, so that a document stays on its side when files are added, moved or renamed, and equal files share a side.
// Where no hash is that low the lowest is held out, where all are the highest is trained on: with two different
// documents both sides have one. With fewer nothing is held out.
class ByteCorpus {
 public:
  // input_error when nothing is found or everything is empty; errors of list_data_files and of reading.
  explicit ByteCorpus(std::span<const std::string> paths);
  std::span<const Document> training() const noexcept { return training_; }
  std::span<const Document> held_out() const noexcept { return held_out_; }
  Index bytes() const noexcept { return bytes_; }               // of all documents: what the corpus takes in memory
  const std::string& where() const noexcept { return where_; }  // the paths, for messages

 private:
  std::string where_;
  std::unique_ptr<std::uint8_t[]> memory_;
  Index bytes_ = 0;
  std::vector<Document> training_, held_out_;
};

}  // namespace longhaul::io
