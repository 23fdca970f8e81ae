// Checkpoints: what is written comes back, a name stands for a whole one, damage is found and passed over.
#include "io/checkpoint.h"

#include <cctype>
#include <numeric>

#include "io/checkpoint_state.h"
#include "scratch.h"

namespace longhaul::io {
namespace {

constexpr auto kInput = Error::Kind::kInput;
constexpr auto kRun = Error::Kind::kRun;

const std::vector<TensorDescription> kParameters = {{"model.embed_tokens.weight", FileDType::kF32, {5, 3}},
                                                    {"model.norm.weight", FileDType::kF32, {3}},
                                                    {"lm_head.weight", FileDType::kF32, {5, 3}}};
constexpr Index kTotal = 33;

struct Values {
  explicit Values(float first) : parameters(kTotal), first_moments(kTotal), second_moments(kTotal) {
    std::iota(parameters.begin(), parameters.end(), first);
    std::iota(first_moments.begin(), first_moments.end(), first + 1000);
    std::iota(second_moments.begin(), second_moments.end(), first + 2000);
  }
  TrainingTensors spans() { return {parameters, first_moments, second_moments}; }
  friend bool operator==(const Values&, const Values&) = default;
  std::vector<float> parameters, first_moments, second_moments;
};

// A folder of checkpoints in which step k has the values Values(k).
struct Folder {
  explicit Folder(Index keep = 0) : writer(path(), kParameters, {"{\"a\": 1}", "seed = 7\n", keep}) {}
  std::string path() const { return scratch / "run/checkpoints"; }
  std::string file(Index step, const char* name) const { return path() + "/" + checkpoint_name(step) + "/" + name; }
  void save(Index step, float first = -1) {
    const Values values(first < 0 ? static_cast<float>(step) : first);
    writer.save({step, step * 16, ~std::uint64_t{0} - 1}, values.parameters, values.first_moments,
                values.second_moments);
    writer.wait();
  }
  Values load(Index step) const {
    const Checkpoint checkpoint(path() + "/" + checkpoint_name(step));
    Values values(0);
    checkpoint.load(kParameters, values.spans());
    return values;
  }
  Scratch scratch;
  CheckpointWriter writer;
};

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void flip_bit(const std::string& path, std::size_t at, int bit = 0) {
  std::string bytes = slurp(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Checkpoint, ComesBackAsWritten) {
  Folder folder;
  folder.save(40);
  EXPECT_EQ(list(folder.path()), "latest step_00000040 ");
  EXPECT_EQ(list(folder.path() + "/latest"),
            "config.json config.toml model.safetensors optimizer.safetensors state.json ");
  EXPECT_EQ(folder.load(40), Values(40));
  const Checkpoint checkpoint(folder.path() + "/latest");
  EXPECT_EQ(checkpoint.state(), (CheckpointState{40, 640, ~std::uint64_t{0} - 1}));
  EXPECT_EQ(checkpoint.config_json(), "{\"a\": 1}");
  EXPECT_EQ(checkpoint.config_toml(), "seed = 7\n");
  EXPECT_EQ(checkpoint.model().metadata().at("format"), "pt");
  EXPECT_EQ(checkpoint.model().find("model.norm.weight")->shape, std::vector<Index>{3});
  EXPECT_EQ(folder.writer.memory_bytes(), 3 * kTotal * 4);

  // Any piece of the flat order, as a rank that owns a part of it loads it.
  const Values all(40);
  for (Index first = 0; first <= kTotal; ++first)
    for (Index size = 0; first + size <= kTotal; ++size) {
      const auto n = static_cast<std::size_t>(size);
      std::vector<float> p(n), v(n);
      checkpoint.load(kParameters, {p, {}, v}, first);
      ASSERT_TRUE(std::equal(p.begin(), p.end(), all.parameters.begin() + first)) << first << " + " << size;
      ASSERT_TRUE(std::equal(v.begin(), v.end(), all.second_moments.begin() + first)) << first << " + " << size;
    }
}

TEST(Checkpoint, TheSnapshotIsTakenAtOnce) {
  Folder folder;
  Values values(3);
  folder.writer.save({1, 1, 1}, values.parameters, values.first_moments, values.second_moments);
  values = Values(900);  // the step goes on while the checkpoint is written
  folder.writer.save({2, 1, 1}, values.parameters, values.first_moments, values.second_moments);
  folder.writer.wait();
  EXPECT_EQ(folder.load(1), Values(3));
  EXPECT_EQ(folder.load(2), Values(900));
}

TEST(Checkpoint, NewestStay) {
  Folder folder(2);
  for (Index step : {10, 20, 30}) folder.save(step);
  EXPECT_EQ(list(folder.path()), "latest step_00000020 step_00000030 ");
  folder.save(25);  // a run that went back to 20: the later one is left alone, and not taken for its future
  EXPECT_EQ(list(folder.path()), "latest step_00000020 step_00000025 step_00000030 ");
  EXPECT_EQ(find_latest_good(folder.path()).checkpoint->state().step, 25);
  folder.save(30, 555);  // in the place of the other
  EXPECT_EQ(list(folder.path()), "latest step_00000025 step_00000030 ");
  EXPECT_EQ(folder.load(30), Values(555));
  folder.save(100000000);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<Index>{30, 100000000}));
}

TEST(Checkpoint, EveryDamageIsFoundAndNamed) {
  Folder folder;
  folder.save(10);
  folder.save(20);
  for (const char* name : {kModelFile, kOptimizerFile, kConfigJsonFile, kConfigTomlFile, kStateFile}) {
    const std::string path = folder.file(20, name), good = slurp(path);
    const auto expect_damaged = [&](const std::string& how) {
      expect_error(
          kInput, "", name, [&] { Checkpoint c(folder.path() + "/step_00000020"); }, how + " " + name);
      const FoundCheckpoint found = find_latest_good(folder.path());
      ASSERT_TRUE(found.checkpoint) << how << " " << name;
      EXPECT_EQ(found.checkpoint->state().step, 10) << how << " " << name;
      ASSERT_EQ(found.skipped.size(), 1u);
      EXPECT_NE(found.skipped[0].find(path), std::string::npos) << found.skipped[0];
    };
    for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 40) {
      flip_bit(path, at, static_cast<int>(at % 8));
      // Another space is the same JSON.
      if (name != kStateFile || !std::isspace(good[at])) expect_damaged("bit flipped at " + std::to_string(at) + " of");
      write_bytes(path, good);
    }
    write_bytes(path, good.substr(0, good.size() / 2));
    expect_damaged("cut");
    std::filesystem::remove(path);
    expect_damaged("without");
    write_bytes(path, good);
    EXPECT_EQ(find_latest_good(folder.path()).checkpoint->state().step, 20);
  }
  for (Index step : {10, 20}) flip_bit(folder.file(step, kModelFile), 100);
  expect_error(kInput, "every checkpoint is damaged", folder.path(), [&] { find_latest_good(folder.path()); });
}

TEST(Checkpoint, StateOfALaterFormatIsRefused) {
  const std::string text = to_json({{1, 2, 3}, {}});
  std::string later = text;
  later.replace(later.find("\"format\": 1"), 11, "\"format\": 2");
  expect_error(kInput, "format 2", "here", [&] { parse_state(later, "here"); });
  expect_error(kInput, "no hash of model.safetensors", "here", [&] { parse_state(text, "here"); });
}

TEST(Checkpoint, NothingThere) {
  const Scratch scratch;
  expect_error(kInput, "there is no checkpoint", "nope", [&] { Checkpoint c(scratch / "nope"); });
  expect_error(kInput, "No such file", "state.json", [&] { Checkpoint c(scratch.path()); });
  EXPECT_FALSE(find_latest_good(scratch / "nope").checkpoint);
  scratch.put("step_x/a", "");
  scratch.put("step_7/a", "");  // not a name that is written
  EXPECT_FALSE(find_latest_good(scratch.path()).checkpoint);
  scratch.put("file", "");
  expect_error(kInput, "a file where a folder", "file", [&] { CheckpointWriter w(scratch / "file", kParameters, {}); });
}

TEST(Checkpoint, OtherModelsAreRefused) {
  Folder folder;
  folder.save(1);
  const Checkpoint checkpoint(folder.path() + "/latest");
  Values values(0);
  auto parameters = kParameters;
  parameters[0].name = "other";
  expect_error(kInput, "'other' is missing", kModelFile, [&] { checkpoint.load(parameters, values.spans()); });
  parameters = kParameters;
  parameters[1].shape = {4};
  expect_error(kInput, "shape [3] instead of [4]", kModelFile, [&] { checkpoint.load(parameters, values.spans()); });
  parameters = kParameters;
  parameters.pop_back();
  expect_error(kInput, "3 tensors instead of 2", kModelFile, [&] { checkpoint.load(parameters, values.spans()); });
}

TEST(Checkpoint, FullDiskLeavesTheOlderOnes) {
  Folder folder(1);
  folder.save(10);
  {
    const FileSizeLimit limit(300);
    const Values values(20);
    folder.writer.save({20, 0, 0}, values.parameters, values.first_moments, values.second_moments);
    expect_error(kRun, "cannot be written", "partial_step_00000020", [&] { folder.writer.wait(); });
  }
  EXPECT_EQ(list(folder.path()), "latest step_00000010 ");
  EXPECT_EQ(folder.load(10), Values(10));
  EXPECT_EQ(find_latest_good(folder.path()).checkpoint->state().step, 10);
  folder.save(20);  // the writer goes on once there is room
  EXPECT_EQ(list(folder.path()), "latest step_00000020 ");
  EXPECT_EQ(folder.load(20), Values(20));
}

TEST(Checkpoint, ErrorsOfTheBackgroundReachTheNextSave) {
  Folder folder;
  std::filesystem::remove_all(folder.path());
  folder.scratch.put("run/checkpoints", "a file in the way");
  const Values values(1);
  const auto save = [&] {
    folder.writer.save({1, 0, 0}, values.parameters, values.first_moments, values.second_moments);
  };
  save();
  expect_error(kInput, "cannot be made", "checkpoints", save);
}

TEST(Checkpoint, LeftoversOfAKilledRunAreRemoved) {
  const Scratch scratch;
  scratch.put("partial_step_00000020/model.safetensors", "half");
  scratch.put("removed_step_00000010/model.safetensors", "half");
  scratch.put("removed_outliers.txt", "of the user");
  CheckpointWriter writer(scratch.path(), kParameters, {});
  EXPECT_EQ(list(scratch.path()), "removed_outliers.txt ");
}

}  // namespace
}  // namespace longhaul::io
