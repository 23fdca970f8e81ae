// Safetensors: hostile headers, conversions, what the writer writes, and files of other programs.
#include "io/safetensors.h"

#include <cmath>

#include "base/bf16.h"
#include "scratch.h"

namespace longhaul::io {
namespace {

constexpr auto kInput = Error::Kind::kInput;
constexpr auto kRun = Error::Kind::kRun;

std::string file_of(std::string_view header, std::string_view body = "", std::int64_t length = -1) {
  const std::uint64_t n = length < 0 ? header.size() : static_cast<std::uint64_t>(length);
  return std::string(reinterpret_cast<const char*>(&n), 8) + std::string(header) + std::string(body);
}

TEST(Safetensors, HostileFilesAreInputErrors) {
  const std::string f4 = R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const auto q = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"q":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const struct {
    const char* name;
    std::string bytes, what;
  } cases[] = {
      {"empty", "", "the file is empty"},
      {"seven bytes", std::string(7, '\0'), "7 bytes"},
      {"length 2^60", file_of("{}", "", std::int64_t{1} << 60), "claims 1152921504606846976 bytes"},
      {"length -1", std::string(8, '\xff') + "{}", "claims 18446744073709551615 bytes"},
      {"length past the end", file_of("{}", "", 500), "claims 500 bytes"},
      {"length 0", file_of(""), "not JSON"},
      {"not JSON", file_of("{not json"), "not JSON at byte"},
      {"NUL bytes", file_of(std::string(40, '\0')), "not JSON"},
      {"not UTF-8", file_of("{\"\xff\xfe\":1}"), "not JSON"},
      {"cut short", file_of(f4.substr(0, f4.size() - 1), "0000"), "not JSON"},
      {"text after it", file_of(f4 + "x", "0000"), "not JSON"},
      {"an array", file_of("[1,2]"), "not an object"},
      {"a number", file_of("7"), "not an object"},
      {"deep array", file_of(std::string(100000, '[')), "nests deeper"},
      {"deep object", file_of([] {
         std::string s;
         for (int i = 0; i < 100000; ++i) s += "{\"a\":";
         return s;
       }()),
       "nests deeper"},
      {"deep below a tensor", file_of("{\"q\":{\"shape\":" + std::string(100000, '[')), "nests deeper"},
      {"name twice", file_of(R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)" + f4.substr(1), "0000"),
       "'q' twice"},
      {"key twice", file_of(R"({"q":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}})", "0000"),
       "'dtype' twice"},
      {"tensor a number", file_of(R"({"q":3})"), "'q' is not an object"},
      {"no dtype", file_of(R"({"q":{"shape":[1],"data_offsets":[0,4]}})", "0000"), "no valid \"dtype\""},
      {"no shape", file_of(R"({"q":{"dtype":"F32","data_offsets":[0,4]}})", "0000"), "no valid \"shape\""},
      {"no offsets", file_of(R"({"q":{"dtype":"F32","shape":[1]}})", "0000"), "no valid \"data_offsets\""},
      {"dtype a number", file_of(q("32", "[1]", "[0,4]"), "0000"), "no valid \"dtype\""},
      {"dtype unknown", file_of(q("\"F31\"", "[1]", "[0,4]"), "0000"), "unknown dtype 'F31'"},
      {"shape negative", file_of(q("\"F32\"", "[-1,8,8]", "[0,4]"), "0000"), "not a count"},
      {"shape a fraction", file_of(q("\"F32\"", "[1.0]", "[0,4]"), "0000"), "not a count"},
      {"shape text", file_of(q("\"F32\"", "[\"1\"]", "[0,4]"), "0000"), "not a count"},
      {"shape 2^63", file_of(q("\"U8\"", "[9223372036854775808]", "[0,4]"), "0000"), "not a count"},
      {"shape overflows", file_of(q("\"F32\"", "[4611686018427387904,8,8]", "[0,4]"), "0000"), "overflows"},
      {"shape overflows to its size", file_of(q("\"F32\"", "[4611686018427387905]", "[0,4]"), "0000"), "overflows"},
      {"a number of 400 digits", file_of(q("\"F32\"", "[" + std::string(400, '9') + "]", "[0,4]"), "0000"),
       "out of range"},
      {"offsets one", file_of(q("\"F32\"", "[1]", "[4]"), "0000"), "not a pair"},
      {"offsets negative", file_of(q("\"F32\"", "[1,1,1]", "[-4,0]")), "not a count"},
      {"offsets reversed", file_of(q("\"F32\"", "[1,1,1]", "[4,0]"), "0000"), "ends before it begins"},
      {"offsets past the end", file_of(q("\"F32\"", "[4,2,8]", "[0,1000000000000]")), "ends at byte 1000000000000"},
      {"data truncated", file_of(f4, "000"), "ends at byte 4"},
      {"size and shape differ", file_of(q("\"F32\"", "[2]", "[0,4]"), "0000"), "has 4 bytes instead of 8"},
      {"bytes after the last tensor", file_of(f4, "00000"), "the last 1 bytes"},
      {"hole", file_of(q("\"F32\"", "[1]", "[4,8]"), "00000000"), "bytes 0 to 4"},
      {"overlap",
       file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               "000000000000"),
       "'b' overlaps"},
      {"same bytes twice",
       file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
               "0000"),
       "overlaps"},
      {"metadata an array", file_of(R"({"__metadata__":[]})"), "\"__metadata__\" is not an object"},
      {"metadata a number", file_of(R"({"__metadata__":{"a":1}})"), "'a' is not a string"},
      {"name with line breaks", file_of("{\"a\\n\\u0007b\":3}"), "'a??b' is not an object"},
      {"name of a megabyte", file_of("{\"" + std::string(1 << 20, 'x') + "\":3}"), "x...' is not an object"},
  };
  const Scratch scratch;
  for (const auto& c : cases) {
    const std::string path = scratch.put("a.safetensors", c.bytes);
    expect_error(
        kInput, c.what, path, [&] { SafetensorsFile file(path); }, c.name);
  }
  expect_error(kInput, "No such file", "nope", [&] { SafetensorsFile file(scratch / "nope"); });
  expect_error(kInput, "a folder", scratch.path(), [&] { SafetensorsFile file(scratch.path()); });
  expect_error(kInput, "not a regular file", "/dev/zero", [&] { SafetensorsFile file("/dev/zero"); });
}

// Each single byte of a good header damaged in turn: an error or a file that still adds up, never a crash.
TEST(Safetensors, EveryDamagedHeaderByteIsHandled) {
  const std::string good = file_of(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}})",
      "012345678");
  const Scratch scratch;
  int refused = 0;
  for (std::size_t at = 0; at < good.size() - 9; ++at)
    for (int bit : {0, 1, 4, 7}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const std::string path = scratch.put("a", bad);
      try {
        const SafetensorsFile file(path);
        for (const TensorEntry& entry : file.tensors())
          if (entry.dtype < FileDType::kF8E4M3) file.read_all<double>(entry);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, kInput) << "byte " << at << " bit " << bit;
        ++refused;
      }
    }
  EXPECT_GT(refused, 300);
}

TEST(Safetensors, TruncationAtEveryLengthIsAnInputError) {
  const Scratch scratch;
  const std::string path = scratch / "good";
  SafetensorsWriter writer(path, {{"a", FileDType::kF32, {3}}, {"b", FileDType::kI64, {2}}});
  writer.write<float>("a", std::vector<float>{1, 2, 3});
  writer.write<std::int64_t>("b", std::vector<std::int64_t>{4, 5});
  writer.finish();
  const std::string good = slurp(path);
  for (std::size_t n = 0; n < good.size(); ++n) {
    const std::string cut = scratch.put("cut", good.substr(0, n));
    expect_error(
        kInput, "", cut, [&] { SafetensorsFile file(cut); }, std::to_string(n) + " bytes");
  }
}

TEST(Safetensors, WriterAndReaderAgree) {
  const Scratch scratch;
  const std::string path = scratch / "x.safetensors";
  const std::vector<TensorDescription> tensors = {{"z", FileDType::kF32, {2, 3}},  {"empty", FileDType::kF64, {0, 7}},
                                                  {"scalar", FileDType::kF64, {}}, {"größe", FileDType::kI32, {3}},
                                                  {"m", FileDType::kU8, {5}},      {"none", FileDType::kF32, {0}}};
  std::string hash;
  const auto write = [&](const std::string& to) {
    SafetensorsWriter writer(to, tensors, {{"format", "pt"}, {"a", "b\"\n"}});
    writer.write<float>("z", std::vector<float>{1, -2});  // in pieces
    writer.write<float>("z", std::vector<float>{3.5f, 4, 5, 1e-40f});
    writer.write<double>("scalar", std::vector<double>{0.1});
    writer.write<std::int32_t>("größe", std::vector<std::int32_t>{-100, 0, 2147483647});
    writer.write<std::uint8_t>("m", std::vector<std::uint8_t>{0, 1, 2, 254, 255});
    EXPECT_FALSE(std::filesystem::exists(to));
    hash = writer.finish();
  };
  write(path);
  EXPECT_EQ(hash, hash_file(path));
  EXPECT_EQ(list(scratch.path()), "x.safetensors ");
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.find("z")->offset % 8, 0);
  EXPECT_EQ(file.find("zz"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("a"), "b\"\n");
  EXPECT_EQ(file.read_all<float>(*file.find("z")), (std::vector<float>{1, -2, 3.5f, 4, 5, 1e-40f}));
  EXPECT_EQ(file.read_all<double>(*file.find("scalar")), std::vector<double>{0.1});
  EXPECT_EQ(file.read_all<std::int32_t>(*file.find("größe")), (std::vector<std::int32_t>{-100, 0, 2147483647}));
  EXPECT_EQ(file.read_all<std::int32_t>(*file.find("m")), (std::vector<std::int32_t>{0, 1, 2, 254, 255}));
  EXPECT_TRUE(file.read_all<float>(*file.find("empty")).empty());
  std::vector<double> middle(3);
  file.read(*file.find("z"), 2, std::span<double>(middle));
  EXPECT_EQ(middle, (std::vector<double>{3.5, 4, 5}));
  write(scratch / "again");
  EXPECT_EQ(slurp(path), slurp(scratch / "again"));
}

// Every bf16 and every fp16 pattern against an independent account of the format.
TEST(Safetensors, SixteenBitFloatsConvertExactly) {
  std::vector<std::uint16_t> bits(65536);
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  const Scratch scratch;
  SafetensorsWriter writer(scratch / "x", {{"b", FileDType::kBF16, {65536}}, {"h", FileDType::kF16, {256, 256}}});
  writer.write<std::uint16_t>("b", bits);
  writer.write<std::uint16_t>("h", bits);
  writer.finish();
  const SafetensorsFile file(scratch / "x");
  const auto value = [](int i, int exponent_bits) -> double {  // sign, exponent, fraction of 16 bits in all
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int e = (i >> fraction_bits) & ((1 << exponent_bits) - 1), f = i & ((1 << fraction_bits) - 1);
    const double sign = i >> 15 ? -1 : 1;
    if (e == (1 << exponent_bits) - 1) return f ? NAN : sign * INFINITY;
    return sign * std::ldexp(f + (e ? 1 << fraction_bits : 0), (e ? e : 1) - bias - fraction_bits);
  };
  for (const auto& [name, exponent_bits] : {std::pair{"b", 8}, std::pair{"h", 5}}) {
    const auto as_float = file.read_all<float>(*file.find(name));
    const auto as_double = file.read_all<double>(*file.find(name));
    for (int i = 0; i < 65536; ++i) {
      const double want = value(i, exponent_bits);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(as_double[i]) && std::isnan(as_float[i])
                                   : as_double[i] == want && as_float[i] == want)
          << name << " " << i << ": " << as_double[i] << ", expected " << want;
      ASSERT_EQ(std::signbit(as_float[i]) && !std::isnan(want), std::signbit(want) && !std::isnan(want));
    }
  }
}

TEST(Safetensors, IntegersConvertOrAreRefused) {
  const Scratch scratch;
  const std::string path = scratch / "x";
  SafetensorsWriter writer(path, {{"i64", FileDType::kI64, {3}},
                                  {"u64", FileDType::kU64, {2}},
                                  {"i16", FileDType::kI16, {2}},
                                  {"i8", FileDType::kI8, {2}},
                                  {"bool", FileDType::kBool, {2}},
                                  {"f", FileDType::kF32, {1}},
                                  {"f8", FileDType::kF8E4M3, {1}}});
  writer.write<std::int64_t>("i64", std::vector<std::int64_t>{-2147483648, 2147483647, 2147483648});
  writer.write<std::uint64_t>("u64", std::vector<std::uint64_t>{7, ~std::uint64_t{0}});
  writer.write<std::int16_t>("i16", std::vector<std::int16_t>{-32768, 32767});
  writer.write<std::int8_t>("i8", std::vector<std::int8_t>{-128, 127});
  writer.write<std::uint8_t>("bool", std::vector<std::uint8_t>{0, 1});
  writer.write<float>("f", std::vector<float>{1});
  writer.write<std::uint8_t>("f8", std::vector<std::uint8_t>{1});
  writer.finish();
  const SafetensorsFile file(path);
  std::vector<std::int32_t> two(2);
  file.read(*file.find("i64"), 0, std::span(two));
  EXPECT_EQ(two, (std::vector<std::int32_t>{-2147483647 - 1, 2147483647}));
  expect_error(kInput, "2147483648 at element 2", path, [&] { file.read(*file.find("i64"), 1, std::span(two)); });
  expect_error(kInput, "18446744073709551615 at element 1", path,
               [&] { file.read_all<std::int32_t>(*file.find("u64")); });
  EXPECT_EQ(file.read_all<std::int32_t>(*file.find("i16")), (std::vector<std::int32_t>{-32768, 32767}));
  EXPECT_EQ(file.read_all<double>(*file.find("i8")), (std::vector<double>{-128, 127}));
  EXPECT_EQ(file.read_all<float>(*file.find("bool")), (std::vector<float>{0, 1}));
  expect_error(kInput, "'f' is F32", path, [&] { file.read_all<std::int32_t>(*file.find("f")); });
  expect_error(kInput, "'f8' is F8_E4M3", path, [&] { file.read_all<float>(*file.find("f8")); });
}

TEST(Safetensors, RequireSaysWhatIsWrong) {
  const Scratch scratch;
  const std::string path = scratch / "x";
  SafetensorsWriter writer(path, {{"q", FileDType::kBF16, {2, 3}}});
  writer.write<std::uint16_t>("q", std::vector<std::uint16_t>(6));
  writer.finish();
  const SafetensorsFile file(path);
  EXPECT_EQ(file.require("q", Kind::kFloat, {2, -1}).count(), 6);
  expect_error(kInput, "'k' is missing", path, [&] { file.require("k", Kind::kFloat, {2}); });
  expect_error(kInput, "'q' is BF16", path, [&] { file.require("q", Kind::kInteger, {2, 3}); });
  expect_error(kInput, "shape [2, 3] instead of [2, 4]", path, [&] { file.require("q", Kind::kAny, {2, 4}); });
  expect_error(kInput, "shape [2, 3] instead of [any]", path, [&] { file.require("q", Kind::kAny, {-1}); });
  const std::vector<float> values = {1, NAN};
  expect_error(kInput, "'q' has NaN at element 1", path,
               [&] { require_finite(std::span<const float>(values), "q", path); });
}

TEST(Safetensors, UnfinishedOutputLeavesNothing) {
  const Scratch scratch;
  scratch.put("x", "old");
  {
    SafetensorsWriter writer(scratch / "x", {{"q", FileDType::kF32, {2}}});
    writer.write<float>("q", std::vector<float>{1});
    EXPECT_NE(list(scratch.path()), "x ");
  }
  EXPECT_EQ(list(scratch.path()), "x ");
  EXPECT_EQ(slurp(scratch / "x"), "old");
  expect_error(kInput, "No such file", "nowhere", [&] { SafetensorsWriter w(scratch / "nowhere/x", {}); });
  expect_error(kInput, "not a regular file", scratch.path(), [&] { SafetensorsWriter w(scratch.path(), {}); });
  expect_error(kInput, "not a regular file", "/dev/null", [&] { SafetensorsWriter w("/dev/null", {}); });
}

TEST(Safetensors, FullDiskIsARunErrorAndLeavesTheOldFile) {
  const Scratch scratch;
  scratch.put("x", "old");
  {
    const FileSizeLimit limit(4096);
    expect_error(kRun, "cannot be written", "x", [&] {
      SafetensorsWriter writer(scratch / "x", {{"q", FileDType::kF32, {4096}}});
      writer.write<float>("q", std::vector<float>(4096));
      writer.finish();
    });
  }
  EXPECT_EQ(list(scratch.path()), "x ");
  EXPECT_EQ(slurp(scratch / "x"), "old");
}

TEST(Safetensors, AFileThatShrinksIsARunError) {
  const Scratch scratch;
  const std::string path = scratch / "x";
  SafetensorsWriter writer(path, {{"q", FileDType::kF32, {4096}}});
  writer.write<float>("q", std::vector<float>(4096));
  writer.finish();
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 5000);
  expect_error(kRun, "the file ends at byte 5000", path, [&] { file.read_all<float>(*file.find("q")); });
}

TEST(Safetensors, ReadsFilesOfOtherPrograms) {
  const SafetensorsFile file(TEST_SOURCE_DIR "/golden/models/llama31/case.safetensors");
  const TensorEntry& tokens = file.require("tokens", Kind::kInteger, {-1, -1});
  const auto ids = file.read_all<std::int32_t>(tokens);
  file.require("labels", Kind::kInteger, tokens.shape);
  const auto loss = file.read_all<double>(file.require("loss", Kind::kFloat, std::span<const Index>()));
  EXPECT_GT(loss.at(0), 0);
  double squares = 0;
  for (const TensorEntry& entry : file.tensors())
    if (entry.name.starts_with("grad."))
      for (double g : file.read_all<double>(entry)) squares += g * g;
  const double norm = file.read_all<double>(*file.find("grad_norm")).at(0);
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-6 * norm);  // gradients are rounded to F32, 6e-8 each
}

}  // namespace
}  // namespace longhaul::io
