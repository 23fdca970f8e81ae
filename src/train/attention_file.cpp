// Attention cases and their results as safetensors files.
#include "train/attention_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace longhaul::train {
namespace {

using io::Kind;
using io::SafetensorsFile;

constexpr Index kMostHeads = 1 << 16, kMostWidth = 1 << 16;  // schedules number heads in 32 bits

// The whole text as a number of type T; a default where the key is missing.
template <class T>
T read_number(const SafetensorsFile& file, const char* key, T otherwise, const char* wants) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return otherwise;
  const std::string& text = found->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw input_error(fmt::format("metadata key {} is {}", key, io::quote(text)), file.path(),
                      fmt::format("{} must be {}", key, wants));
  return value;
}

Index read_count(const SafetensorsFile& file, const char* key) {
  constexpr const char* kWants = "0 (none) or a positive whole number";
  const Index value = read_number<Index>(file, key, 0, kWants);
  if (value < 0)
    throw input_error(fmt::format("metadata key {} is {}", key, value), file.path(),
                      fmt::format("{} must be {}", key, kWants));
  return value;
}

double read_real(const SafetensorsFile& file, const char* key, double otherwise, bool may_be_negative) {
  const char* wants = may_be_negative ? "a finite number" : "0 (none) or a finite positive number";
  const double value = read_number<double>(file, key, otherwise, wants);
  if (!std::isfinite(value) || (value < 0 && !may_be_negative))
    throw input_error(fmt::format("metadata key {} is {}", key, value), file.path(),
                      fmt::format("{} must be {}", key, wants));
  return value;
}

AttentionParams read_params(const SafetensorsFile& file) {
  AttentionParams params;
  const auto mask = file.metadata().find("mask");
  if (mask != file.metadata().end() && mask->second != "causal" && mask->second != "full")
    throw input_error(fmt::format("metadata key mask is {}", io::quote(mask->second)), file.path(),
                      "mask must be causal or full");
  if (mask != file.metadata().end() && mask->second == "full") params.mask.order = Order::kFull;
  params.mask.window = read_count(file, "window");
  params.mask.chunk = read_count(file, "chunk");
  params.softcap = read_real(file, "softcap", 0, false);
  if (file.metadata().find("scale") == file.metadata().end())
    throw input_error("metadata key scale is missing", file.path(), "scale is the factor of q.k, often 1/sqrt(D)");
  params.scale = read_real(file, "scale", 1, true);
  return params;
}

std::vector<float> read_finite(const SafetensorsFile& file, const char* name, std::initializer_list<Index> shape) {
  std::vector<float> values = file.read_all<float>(file.require(name, Kind::kFloat, shape));
  io::require_finite(values, name, file.path());
  return values;
}

std::vector<io::TensorDescription> describe(const AttentionCase& c) {
  const Index T = c.rows, N = c.q_heads, G = c.kv_heads;
  const auto f32 = io::FileDType::kF32;
  std::vector<io::TensorDescription> tensors{{"o", f32, {T, N, c.d_v}}, {"lse", f32, {T, N}}};
  if (c.d_o.empty()) return tensors;
  tensors.push_back({"dq", f32, {T, N, c.d_qk}});
  tensors.push_back({"dk", f32, {T, G, c.d_qk}});
  tensors.push_back({"dv", f32, {T, G, c.d_v}});
  if (!c.sinks.empty()) tensors.push_back({"dsinks", f32, {N}});
  return tensors;
}

}  // namespace

AttentionCase read_attention_case(const std::string& path, bool gradients) {
  const SafetensorsFile file(path);
  AttentionCase c;
  const auto& q = file.require("q", Kind::kFloat, {-1, -1, -1}).shape;
  const Index T = q[0], N = q[1], D = q[2];
  const auto& k = file.require("k", Kind::kFloat, {T, -1, D}).shape;
  const Index G = k[1];
  const Index V = file.require("v", Kind::kFloat, {T, G, -1}).shape[2];
  if (T < 1 || N < 1 || G < 1 || D < 1 || V < 1 || N > kMostHeads || D > kMostWidth || V > kMostWidth)
    throw input_error(fmt::format("q is {}, v [{}, {}, {}]", io::describe_shape(q), T, G, V), path,
                      fmt::format("there must be a row, 1 to {} heads and widths of 1 to {}", kMostHeads, kMostWidth));
  if (N % G != 0)
    throw input_error(fmt::format("{} query heads do not divide among {} key/value heads", N, G), path,
                      "the heads of q must be a multiple of those of k and v");
  c.params = read_params(file);
  c.rows = T, c.q_heads = static_cast<int>(N), c.kv_heads = static_cast<int>(G);
  c.d_qk = static_cast<int>(D), c.d_v = static_cast<int>(V);
  c.q = read_finite(file, "q", {T, N, D});
  c.k = read_finite(file, "k", {T, G, D});
  c.v = read_finite(file, "v", {T, G, V});
  if (gradients) c.d_o = read_finite(file, "do", {T, N, V});
  if (file.find("sinks")) c.sinks = read_finite(file, "sinks", {N});
  if (file.find("segment_ids"))
    c.documents = file.read_all<std::int32_t>(file.require("segment_ids", Kind::kInteger, {T}));
  return c;
}

AttentionResultFile::AttentionResultFile(const std::string& path, const AttentionCase& c)
    : path_(path), gradients_(!c.d_o.empty()), sinks_(!c.sinks.empty()), writer_(path, describe(c)) {}

void AttentionResultFile::write(const AttentionResult& result) {
  std::vector<float> values;
  const auto put = [&](const char* name, const std::vector<double>& from) {
    values.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      values[i] = static_cast<float>(from[i]);
      const bool empty_row = name == std::string_view("lse") && from[i] == -HUGE_VAL;
      if (!std::isfinite(values[i]) && !empty_row)
        throw run_error(fmt::format("element {} of {} is {}", i, name, values[i]), path_,
                        "the input's values are so large that scores or gradients leave the range of fp32");
    }
    writer_.write(name, std::span<const float>(values));
  };
  put("o", result.o), put("lse", result.lse);
  if (gradients_) {
    put("dq", result.dq), put("dk", result.dk), put("dv", result.dv);
    if (sinks_) put("dsinks", result.dsinks);
  }
  writer_.finish();
}

}  // namespace longhaul::train
