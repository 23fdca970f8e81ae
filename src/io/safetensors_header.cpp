// Checks every claim of a safetensors header before anything believes it.
#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "io/json.h"

namespace longhaul::io {
namespace {

struct Row {
  const char* name;
  Index size;
};
constexpr Row kDTypes[] = {  // in the order of FileDType
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"I32", 4},     {"I16", 2},    {"I8", 1},
    {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

constexpr const char* kHint = "the file is damaged or was not written completely: get it again";

std::optional<FileDType> find_dtype(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i)
    if (name == kDTypes[i].name) return static_cast<FileDType>(i);
  return {};
}

// A member that must be there with that type, or an input_error.
const nlohmann::json& member(const nlohmann::json& object, const char* key, nlohmann::json::value_t type,
                             const std::string& tensor, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->type() != type)
    throw input_error("tensor " + tensor + " has no valid \"" + key + "\"", where, kHint);
  return *found;
}

// A count of at most 2^63 - 1; everything else (negative, a fraction, text) is refused.
Index count_of(const nlohmann::json& value, const char* key, const std::string& tensor, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()))
    throw input_error("tensor " + tensor + ": \"" + key + "\" has an entry that is not a count", where, kHint);
  return value.get<Index>();
}

TensorEntry parse_entry(const std::string& name, const nlohmann::json& value, Index data_bytes,
                        const std::string& where) {
  using Type = nlohmann::json::value_t;
  const std::string tensor = quote(name);
  if (!value.is_object()) throw input_error("tensor " + tensor + " is not an object", where, kHint);
  TensorEntry entry;
  entry.name = name;

  const auto& dtype_name = member(value, "dtype", Type::string, tensor, where).get_ref<const std::string&>();
  const auto dtype = find_dtype(dtype_name);
  if (!dtype)
    throw input_error("tensor " + tensor + " has the unknown dtype " + quote(dtype_name), where,
                      "known are F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, F8_E4M3 and F8_E5M2");
  entry.dtype = *dtype;

  Index bytes = size_of(*dtype);
  for (const auto& extent : member(value, "shape", Type::array, tensor, where)) {
    entry.shape.push_back(count_of(extent, "shape", tensor, where));
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
      throw input_error("tensor " + tensor + ": the shape overflows 64 bits", where, kHint);
  }

  const auto& offsets = member(value, "data_offsets", Type::array, tensor, where);
  if (offsets.size() != 2) throw input_error("tensor " + tensor + ": \"data_offsets\" is not a pair", where, kHint);
  const Index begin = count_of(offsets[0], "data_offsets", tensor, where);
  const Index end = count_of(offsets[1], "data_offsets", tensor, where);
  if (end < begin) throw input_error("tensor " + tensor + " ends before it begins", where, kHint);
  if (end > data_bytes)
    throw input_error("tensor " + tensor + " ends at byte " + std::to_string(end) + " of the data, which has " +
                          std::to_string(data_bytes),
                      where, kHint);
  if (end - begin != bytes)
    throw input_error("tensor " + tensor + " of shape " + describe_shape(entry.shape) + " and dtype " +
                          name_of(*dtype) + " has " + std::to_string(end - begin) + " bytes instead of " +
                          std::to_string(bytes),
                      where, kHint);
  entry.offset = begin;
  entry.bytes = bytes;
  return entry;
}

}  // namespace

const char* name_of(FileDType dtype) noexcept {
  return kDTypes[static_cast<int>(dtype)].name;
}

Index size_of(FileDType dtype) noexcept {
  return kDTypes[static_cast<int>(dtype)].size;
}

std::string describe_shape(std::span<const Index> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  return text + "]";
}

Header parse_header(std::string_view json, Index data_offset, Index data_bytes, const std::string& where) {
  const nlohmann::json root = parse_json(json, 3, "the safetensors header", where);
  if (!root.is_object()) throw input_error("the safetensors header is not an object", where, kHint);
  Header header;
  for (const auto& [name, value] : root.items()) {
    if (name != "__metadata__") {
      header.entries.push_back(parse_entry(name, value, data_bytes, where));
      continue;
    }
    if (!value.is_object()) throw input_error("\"__metadata__\" is not an object", where, kHint);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw input_error("metadata " + quote(key) + " is not a string", where, kHint);
      header.metadata.emplace(key, text.get<std::string>());
    }
  }

  std::sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  Index at = 0;
  for (TensorEntry& entry : header.entries) {
    if (entry.offset < at) throw input_error("tensor " + quote(entry.name) + " overlaps another tensor", where, kHint);
    if (entry.offset > at)
      throw input_error(
          "bytes " + std::to_string(at) + " to " + std::to_string(entry.offset) + " of the data belong to no tensor",
          where, kHint);
    at += entry.bytes;
    entry.offset += data_offset;
  }
  if (at != data_bytes)
    throw input_error("the last " + std::to_string(data_bytes - at) + " bytes of the file belong to no tensor", where,
                      kHint);
  return header;
}

}  // namespace longhaul::io
