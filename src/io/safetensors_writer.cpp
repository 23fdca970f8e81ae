// The writer of safetensors files.
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/safetensors.h"

namespace longhaul::io {

Index TensorDescription::count() const noexcept {
  Index n = 1;
  for (Index extent : shape) n *= extent;
  return n;
}

std::string make_header(std::span<const TensorDescription> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  std::set<std::string_view> names;  // ordered_json finds a key by looking at all of them
  Index at = 0;
  for (const TensorDescription& tensor : tensors) {
    CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__", "tensor name '%s'", tensor.name.c_str());
    nlohmann::ordered_json entry;
    entry["dtype"] = name_of(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {at, at + tensor.bytes()};
    root.get_ref<nlohmann::ordered_json::object_t&>().push_back({tensor.name, std::move(entry)});
    at += tensor.bytes();
  }
  std::string json = root.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  const std::uint64_t length = json.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof length);
  return header + json;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorDescription> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)), file_(path) {
  const std::string header = make_header(tensors_, metadata);
  file_.write(std::as_bytes(std::span(header)));
  skip_complete();
}

void SafetensorsWriter::skip_complete() {
  while (current_ < tensors_.size() && written_ == tensors_[current_].bytes()) ++current_, written_ = 0;
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::string text(name);
  CHECK(current_ < tensors_.size() && tensors_[current_].name == name, "it is not the turn of '%s'", text.c_str());
  CHECK(static_cast<Index>(bytes.size()) <= tensors_[current_].bytes() - written_, "'%s' has %ld bytes", text.c_str(),
        tensors_[current_].bytes());
  file_.write(bytes);
  written_ += static_cast<Index>(bytes.size());
  skip_complete();
}

std::string SafetensorsWriter::finish() {
  CHECK(current_ == tensors_.size(), "tensor '%s' is not complete", tensors_[current_].name.c_str());
  return file_.commit();
}

}  // namespace longhaul::io
