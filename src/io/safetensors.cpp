// The reader of safetensors files: opening, finding, converting.
#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "io/safetensors_header.h"

namespace longhaul::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr const char* kHint = "the file is damaged or was not written completely: get it again";

struct half {
  std::uint16_t bits;
};

// IEEE 754 binary16; exact.
float to_float(half h) noexcept {
  const int exponent = (h.bits >> 10) & 31, fraction = h.bits & 1023;
  const float sign = (h.bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

template <class To, class From>
To convert(From x) noexcept {
  if constexpr (std::is_same_v<From, half>)
    return static_cast<To>(to_float(x));
  else
    return static_cast<To>(x);
}

bool is_float(FileDType t) noexcept {
  return t == FileDType::kF64 || t == FileDType::kF32 || t == FileDType::kF16 || t == FileDType::kBF16;
}

bool is_integer(FileDType t) noexcept {
  return FileDType::kI64 <= t && t <= FileDType::kBool;
}

// Reads a piece at a time into memory on the stack; convert(value, index) makes one element of `out`.
template <class From, class To, class Convert>
void read_pieces(const SafetensorsFile& file, const TensorEntry& entry, Index begin, std::span<To> out,
                 Convert&& make) {
  std::array<std::byte, 32768> buffer;
  constexpr std::size_t kPiece = sizeof buffer / sizeof(From);
  for (std::size_t at = 0; at < out.size(); at += kPiece) {
    const std::size_t n = std::min(kPiece, out.size() - at);
    file.read_bytes(entry, (begin + static_cast<Index>(at)) * static_cast<Index>(sizeof(From)),
                    std::span(buffer).first(n * sizeof(From)));
    for (std::size_t i = 0; i < n; ++i) {
      From x;
      std::memcpy(&x, buffer.data() + i * sizeof(From), sizeof(From));
      out[at + i] = make(x, begin + static_cast<Index>(at + i));
    }
  }
}

template <class T>
void require_finite_values(std::span<const T> values, std::string_view name, const std::string& where) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw input_error("tensor " + quote(name) + " has " + (std::isnan(values[i]) ? "NaN" : "an infinite value") +
                            " at element " + std::to_string(i),
                        where, "make the file again from sound values");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : file_(std::move(path)) {
  constexpr Index kPrefix = 8;  // the header's length, a little-endian 64-bit integer
  const std::string& where = file_.path();
  if (file_.size() == 0) throw input_error("the file is empty", where, kHint);
  if (file_.size() < kPrefix)
    throw input_error("the file has " + std::to_string(file_.size()) + " bytes, too few for a safetensors file", where,
                      kHint);
  std::uint64_t length = 0;
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > static_cast<std::uint64_t>(file_.size() - kPrefix))
    throw input_error("not a safetensors file, or one cut short: its header claims " + std::to_string(length) +
                          " bytes, the file has " + std::to_string(file_.size() - kPrefix) + " after its length",
                      where, kHint);
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes))
    throw input_error("the safetensors header has " + std::to_string(length) + " bytes, more than the format allows",
                      where, kHint);
  std::string json(length, '\0');
  file_.read(kPrefix, std::as_writable_bytes(std::span(json)));
  const Index data = kPrefix + static_cast<Index>(length);
  Header header = parse_header(json, data, file_.size() - data, where);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  for (const TensorEntry& entry : entries_) by_name_.push_back(&entry);
  std::sort(by_name_.begin(), by_name_.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [](const TensorEntry* entry, std::string_view n) { return entry->name < n; });
  return at != by_name_.end() && (*at)->name == name ? *at : nullptr;
}

const TensorEntry& SafetensorsFile::require(std::string_view name, Kind kind, std::span<const Index> shape) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr)
    throw input_error("tensor " + quote(name) + " is missing", path(), "a file with this tensor is needed here");
  const bool kind_fits =
      kind == Kind::kAny || (kind == Kind::kFloat ? is_float(entry->dtype) : is_integer(entry->dtype));
  if (!kind_fits)
    throw input_error("tensor " + quote(name) + " is " + name_of(entry->dtype), path(),
                      kind == Kind::kFloat ? "F64, F32, F16 or BF16 is needed" : "an integer type is needed");
  bool fits = entry->shape.size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || shape[i] == entry->shape[i];
  if (!fits)
    throw input_error(
        "tensor " + quote(name) + " has shape " + describe_shape(entry->shape) + " instead of " + describe_shape(shape),
        path(), "check that this file belongs to the other inputs");
  return *entry;
}

const TensorEntry& SafetensorsFile::require(std::string_view name, Kind kind,
                                            std::initializer_list<Index> shape) const {
  return require(name, kind, std::span<const Index>(shape.begin(), shape.size()));
}

void SafetensorsFile::read_bytes(const TensorEntry& entry, Index begin, std::span<std::byte> out) const {
  const auto n = static_cast<Index>(out.size());
  CHECK(0 <= begin && n <= entry.bytes && begin <= entry.bytes - n, "bytes [%ld, +%ld) of %ld of %s", begin, n,
        entry.bytes, entry.name.c_str());
  file_.read(entry.offset + begin, out);
}

template <class T>
void SafetensorsFile::read_converted(const TensorEntry& entry, Index begin, std::span<T> out) const {
  const auto simple = [](auto x, Index) { return convert<T>(x); };
  switch (entry.dtype) {
    case FileDType::kF64:
      return read_pieces<double>(*this, entry, begin, out, simple);
    case FileDType::kF32:
      if constexpr (std::is_same_v<T, float>) return read_bytes(entry, begin * 4, std::as_writable_bytes(out));
      return read_pieces<float>(*this, entry, begin, out, simple);
    case FileDType::kF16:
      return read_pieces<half>(*this, entry, begin, out, simple);
    case FileDType::kBF16:
      return read_pieces<bf16>(*this, entry, begin, out, simple);
    case FileDType::kI64:
      return read_pieces<std::int64_t>(*this, entry, begin, out, simple);
    case FileDType::kI32:
      return read_pieces<std::int32_t>(*this, entry, begin, out, simple);
    case FileDType::kI16:
      return read_pieces<std::int16_t>(*this, entry, begin, out, simple);
    case FileDType::kI8:
      return read_pieces<std::int8_t>(*this, entry, begin, out, simple);
    case FileDType::kU64:
      return read_pieces<std::uint64_t>(*this, entry, begin, out, simple);
    case FileDType::kU32:
      return read_pieces<std::uint32_t>(*this, entry, begin, out, simple);
    case FileDType::kU16:
      return read_pieces<std::uint16_t>(*this, entry, begin, out, simple);
    case FileDType::kU8:
    case FileDType::kBool:
      return read_pieces<std::uint8_t>(*this, entry, begin, out, simple);
    case FileDType::kF8E4M3:
    case FileDType::kF8E5M2:
      break;
  }
  throw input_error("tensor " + quote(entry.name) + " is " + name_of(entry.dtype) + ", which is not converted", path(),
                    "convert it to F32 or BF16 first");
}

void SafetensorsFile::read(const TensorEntry& entry, Index begin, std::span<float> out) const {
  read_converted(entry, begin, out);
}

void SafetensorsFile::read(const TensorEntry& entry, Index begin, std::span<double> out) const {
  read_converted(entry, begin, out);
}

void SafetensorsFile::read(const TensorEntry& entry, Index begin, std::span<std::int32_t> out) const {
  const auto narrow = [&](auto x, Index i) {
    if (!std::in_range<std::int32_t>(x))
      throw input_error("tensor " + quote(entry.name) + " has " + std::to_string(x) + " at element " +
                            std::to_string(i) + ", which does not fit 32 bits",
                        path(), "smaller numbers are needed here");
    return static_cast<std::int32_t>(x);
  };
  switch (entry.dtype) {
    case FileDType::kI32:
      return read_bytes(entry, begin * 4, std::as_writable_bytes(out));
    case FileDType::kI64:
      return read_pieces<std::int64_t>(*this, entry, begin, out, narrow);
    case FileDType::kI16:
      return read_pieces<std::int16_t>(*this, entry, begin, out, narrow);
    case FileDType::kI8:
      return read_pieces<std::int8_t>(*this, entry, begin, out, narrow);
    case FileDType::kU64:
      return read_pieces<std::uint64_t>(*this, entry, begin, out, narrow);
    case FileDType::kU32:
      return read_pieces<std::uint32_t>(*this, entry, begin, out, narrow);
    case FileDType::kU16:
      return read_pieces<std::uint16_t>(*this, entry, begin, out, narrow);
    case FileDType::kU8:
    case FileDType::kBool:
      return read_pieces<std::uint8_t>(*this, entry, begin, out, narrow);
    default:
      throw input_error("tensor " + quote(entry.name) + " is " + name_of(entry.dtype), path(),
                        "an integer type is needed");
  }
}

void require_finite(std::span<const float> values, std::string_view name, const std::string& where) {
  require_finite_values(values, name, where);
}

void require_finite(std::span<const double> values, std::string_view name, const std::string& where) {
  require_finite_values(values, name, where);
}

}  // namespace longhaul::io
