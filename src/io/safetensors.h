// Safetensors files: a length, a JSON header, then the tensors' bytes (huggingface.co/docs/safetensors, "Format").
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace longhaul::io {

enum class FileDType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,  // listed and copied, not converted
  kF8E5M2
};
const char* name_of(FileDType dtype) noexcept;  // as in the header: "F32"
Index size_of(FileDType dtype) noexcept;        // bytes an element

// What a reader asks of a tensor's type.
enum class Kind : std::uint8_t { kAny, kFloat, kInteger };  // kInteger includes BOOL

struct TensorEntry {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<Index> shape;
  Index offset = 0;  // of the first byte, from the start of the file
  Index bytes = 0;
  Index count() const noexcept { return bytes / size_of(dtype); }
};
std::string describe_shape(std::span<const Index> shape);  // "[3, 4]"

// A file opened for reading: the header is checked whole (types, shapes, offsets in bounds, no overlap, no hole, no
// name twice), data is read on demand. Any number of threads may read at once. Errors name file and tensor:
// input_error for what the file says, run_error when reading fails.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path);
  const std::string& path() const noexcept { return file_.path(); }
  std::span<const TensorEntry> tensors() const noexcept { return entries_; }  // in the order of their data
  const std::map<std::string, std::string, std::less<>>& metadata() const noexcept { return metadata_; }

  const TensorEntry* find(std::string_view name) const noexcept;  // nullptr: not there
  // The tensor, of that kind and shape; an extent of -1 may be anything. input_error says which of these fails.
  const TensorEntry& require(std::string_view name, Kind kind, std::initializer_list<Index> shape) const;
  const TensorEntry& require(std::string_view name, Kind kind, std::span<const Index> shape) const;

  // Elements [begin, begin + out.size()) in row-major order, converted: to float and double from every type (rounding
  // to nearest), to int32 from integers (input_error for a value that does not fit). No memory is allocated.
  void read(const TensorEntry& entry, Index begin, std::span<float> out) const;
  void read(const TensorEntry& entry, Index begin, std::span<double> out) const;
  void read(const TensorEntry& entry, Index begin, std::span<std::int32_t> out) const;
  // Bytes [begin, begin + out.size()) as they are.
  void read_bytes(const TensorEntry& entry, Index begin, std::span<std::byte> out) const;

  template <class T>
  std::vector<T> read_all(const TensorEntry& entry) const {
    std::vector<T> out(static_cast<std::size_t>(entry.count()));
    read(entry, 0, std::span<T>(out));
    return out;
  }

 private:
  template <class T>
  void read_converted(const TensorEntry& entry, Index begin, std::span<T> out) const;

  InputFile file_;
  std::vector<TensorEntry> entries_;
  std::vector<const TensorEntry*> by_name_;  // sorted
  std::map<std::string, std::string, std::less<>> metadata_;
};

// input_error naming tensor and element when a value is NaN or infinite.
void require_finite(std::span<const float> values, std::string_view name, const std::string& where);
void require_finite(std::span<const double> values, std::string_view name, const std::string& where);

struct TensorDescription {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<Index> shape;
  Index count() const noexcept;
  Index bytes() const noexcept { return count() * size_of(dtype); }
};

// Writes a file tensor by tensor, in the order of `tensors`; it appears under its name at finish() or not at all.
// The same calls give the same bytes. input_error when the file cannot be made, run_error when the disk fails.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<TensorDescription> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  // The next bytes of `name`, which must be the tensor whose turn it is. A tensor may come in several pieces.
  void write(std::string_view name, std::span<const std::byte> bytes);
  template <class T>
  void write(std::string_view name, std::span<const T> values) {
    write(name, std::as_bytes(values));
  }
  // All tensors must be complete. Returns the 128-bit hash of the file.
  std::string finish();

 private:
  void skip_complete();

  std::vector<TensorDescription> tensors_;
  std::size_t current_ = 0;  // index of the tensor whose turn it is
  Index written_ = 0;        // bytes of it
  AtomicFile file_;
};

// The header that the writer writes: its length, the JSON, spaces up to a multiple of 8 bytes.
std::string make_header(std::span<const TensorDescription> tensors, const std::map<std::string, std::string>& metadata);

}  // namespace longhaul::io
