// longhaul attend: from a file to a file, the same result for every mesh, and every refusal with its reason.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "cli/program.h"
#include "io/safetensors.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::vector<float>>;
using Shapes = std::map<std::string, std::vector<Index>>;

class Attend : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("longhaul_attend_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    shapes_ = {{"q", {9, 4, 3}}, {"k", {9, 2, 3}}, {"v", {9, 2, 5}}, {"do", {9, 4, 5}}, {"sinks", {4}}};
    metadata_ = {{"mask", "causal"}, {"window", "0"}, {"chunk", "0"}, {"softcap", "0"}, {"scale", "0.5"}};
    for (const auto& [name, shape] : shapes_) fill(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void fill(const std::string& name) {
    Index count = 1;
    for (Index e : shapes_[name]) count *= e;
    values_[name].resize(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i)
      values_[name][static_cast<std::size_t>(i)] = static_cast<float>((i * 37 + 11) % 17 - 8) / 8;
  }
  std::string in() const { return (folder_ / "in.safetensors").string(); }
  std::string out() const { return (folder_ / "out.safetensors").string(); }
  void write() const {
    std::vector<io::TensorDescription> tensors;
    for (const auto& [name, shape] : shapes_) tensors.push_back({name, io::FileDType::kF32, shape});
    io::SafetensorsWriter writer(in(), tensors, metadata_);
    for (const auto& [name, shape] : shapes_) writer.write(name, std::span<const float>(values_.at(name)));
    writer.finish();
  }
  Printed run(const std::string& more) const {
    fs::remove(out());
    return run_program("attend --in " + in() + " --out " + out() + " " + more);
  }
  Values results() const {
    const io::SafetensorsFile file(out());
    Values v;
    for (const io::TensorEntry& t : file.tensors()) v[t.name] = file.read_all<float>(t);
    return v;
  }
  void expect_refused(const std::string& more, const std::string& said) const {
    const Printed p = run(more);
    EXPECT_EQ(p.status, 2) << said << ": " << p.err;
    EXPECT_EQ(p.err.rfind("error: ", 0), 0u) << p.err;
    EXPECT_NE(p.err.find("\nhint: "), std::string::npos) << p.err;
    EXPECT_NE(p.err.find(said), std::string::npos) << p.err;
    for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_EQ(entry.path().string(), in()) << said;
  }
  void expect_input_refused(const std::string& said) {
    write();
    expect_refused("", said);
    SetUp();
  }

  fs::path folder_;
  Values values_;
  Shapes shapes_;
  std::map<std::string, std::string> metadata_;
};

TEST_F(Attend, TheResultIsTheSameForEveryMesh) {
  write();
  const Printed first = run("--dtype fp64 --kernel ref");
  ASSERT_EQ(first.status, 0) << first.err;
  const Values want = results();
  EXPECT_EQ(want.size(), 6u);
  for (const char* mesh : {"--ranks 2", "--ranks 3 --strategy ring", "--context-parallel 4 --strategy all_gather",
                           "--ranks 5 --strategy ring --layout striped", "--ranks 4 --strategy ulysses",
                           "--ranks 4 --strategy usp", "--ranks 4 --strategy usp --ulysses 2 --layout zigzag",
                           "--ranks 7 --strategy usp", "--ranks 4 --ulysses 2", "--ranks 12"}) {
    const Printed p = run(std::string(mesh) + " --dtype fp64 --kernel ref");
    ASSERT_EQ(p.status, 0) << mesh << ": " << p.err;
    const Values got = results();
    for (const auto& [name, values] : want)
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got.at(name)[i], values[i], 2e-7 * (1 + std::abs(values[i]))) << mesh << " " << name << " " << i;
  }
}

TEST_F(Attend, WithoutGradientsOnlyTheOutputIsWritten) {
  shapes_.erase("do");
  write();
  ASSERT_EQ(run("--no-grad --ranks 2").status, 0);
  const Values got = results();
  EXPECT_EQ(got.size(), 2u);
  EXPECT_TRUE(got.contains("o") && got.contains("lse"));
  const Printed json = run("--no-grad --ranks 2 --json");
  EXPECT_NE(json.out.find("\"strategy\": "), std::string::npos) << json.out;
}

TEST_F(Attend, InputsThatAreRefused) {
  values_["q"][7] = std::numeric_limits<float>::quiet_NaN();
  expect_input_refused("q");
  values_["sinks"][0] = std::numeric_limits<float>::infinity();
  expect_input_refused("sinks");
  shapes_["k"] = {8, 2, 3}, fill("k");
  expect_input_refused("k");
  shapes_["k"] = {9, 3, 3}, shapes_["v"] = {9, 3, 5}, fill("k"), fill("v");
  expect_input_refused("4 query heads do not divide among 3");
  shapes_.erase("do");
  expect_input_refused("do");
  for (const auto& [key, value] : std::map<std::string, std::string>{{"mask", "diagonal"},
                                                                     {"window", "-3"},
                                                                     {"window", "wide"},
                                                                     {"chunk", "2.5"},
                                                                     {"softcap", "-1"},
                                                                     {"scale", "nan"},
                                                                     {"scale", "1e999"}}) {
    metadata_[key] = value;
    expect_input_refused(key);
  }
  metadata_.erase("scale");
  expect_input_refused("scale is missing");
}

TEST_F(Attend, OptionsThatAreRefused) {
  write();
  expect_refused("--ranks 0", "--ranks");
  expect_refused("--ranks 1000", "1000 ranks");
  expect_refused("--ranks 2 --strategy single", "strategy single on 2 ranks");
  expect_refused("--ranks 4 --strategy usp --ulysses 3", "3");
  expect_refused("--ranks 4 --strategy ring --ulysses 2", "--ulysses 2 with strategy ring");
  expect_refused("--ranks 4 --data-parallel 2", "2 of 4 ranks");
  expect_refused("--kernel quick", "there is no kernel \"quick\"");
  expect_refused("--in /nonexistent", "/nonexistent");
  expect_refused("--out /nonexistent/out", "/nonexistent/out");
  EXPECT_EQ(run_program("attend").status, 2);
}

}  // namespace
}  // namespace longhaul
