// The main job as a user runs it: the program, a folder of text, a run directory.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/program.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class TrainCommand : public ::testing::Test {
 protected:
  const fs::path folder = fs::temp_directory_path() / ("longhaul_train_" + std::to_string(::getpid()));
  const fs::path text = folder / "text";

  void SetUp() override {
    fs::create_directories(text);
    for (int i = 0; i < 12; ++i) {
      std::ofstream file(text / (std::to_string(i) + ".txt"));
      for (int j = 0; j < 150; ++j) file << "line " << j << " of " << i << ": " << (j * 7919 + i) % 1000 << "\n";
    }
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string command(const std::string& run, const std::string& more) const {
    return "train --model tiny --data " + text.string() +
           " --context 128 --batch 2 --ranks 2 --threads 1 --dtype fp32 --lr 1e-2" + " --run " +
           (folder / run).string() + " " + more;
  }
  std::string weights(const std::string& run, const char* step) const {
    return read(folder / run / "checkpoints" / step / "model.safetensors");
  }
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(TrainCommand, Fp64DoesNotGoOnFromACheckpoint) {
  ASSERT_EQ(run_program(command("a", "--steps 1")).status, 0);
  const Printed p = run_program(command("a", "--steps 2 --dtype fp64"));
  EXPECT_EQ(p.status, 2) << p.err;
  EXPECT_NE(p.err.find("a checkpoint holds fp32"), std::string::npos) << p.err;
  const Printed alone = run_program(command("b", "--steps 1 --dtype fp64"));
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_NE(alone.out.find("no checkpoint will be saved"), std::string::npos) << alone.out;
}

TEST_F(TrainCommand, WritesARunAndLossFalls) {
  const Printed p = run_program(command("a", "--steps 20 --eval-every 10"));
  ASSERT_EQ(p.status, 0) << p.err;
  EXPECT_NE(p.out.find("strategy"), std::string::npos) << "the plan is shown";
  EXPECT_NE(p.out.find("bits/byte"), std::string::npos);
  EXPECT_NE(p.out.find("context-free byte model"), std::string::npos);
  EXPECT_NE(p.out.find((folder / "a").string()), std::string::npos) << "where the run directory is";
  const auto lines = metrics("a");
  std::vector<double> losses;
  int evaluations = 0;
  for (const auto& line : lines) {
    if (line.contains("eval_loss")) ++evaluations;
    if (!line.contains("loss")) continue;
    for (const char* key : {"step", "grad_norm", "lr", "tokens", "seconds", "tokens_per_s", "mfu", "mfu_exact", "hfu"})
      EXPECT_TRUE(line.contains(key)) << key;
    losses.push_back(line["loss"]);
  }
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_EQ(evaluations, 2);
  EXPECT_LT(losses.back(), losses.front() - 1);
  EXPECT_TRUE(fs::exists(folder / "a/checkpoints/latest/config.json"));
  EXPECT_TRUE(fs::exists(folder / "a/config.toml"));
}

TEST_F(TrainCommand, ResumedRunEndsInTheSameBits) {
  ASSERT_EQ(run_program(command("whole", "--steps 8")).status, 0);
  // The number of steps is part of the schedule, so the first part runs as the whole does and is cut by a signal.
  ASSERT_EQ(run_program(command("parts", "--steps 8 --save-every 3")).status, 0);
  fs::remove_all(folder / "parts/checkpoints/step_00000008");
  fs::remove(folder / "parts/checkpoints/latest");
  const Printed p = run_program(command("parts", "--steps 8 --save-every 3"));
  ASSERT_EQ(p.status, 0) << p.err;
  EXPECT_NE(p.out.find("going on from"), std::string::npos) << p.out;
  EXPECT_EQ(weights("parts", "step_00000008"), weights("whole", "step_00000008"));
  const auto whole = metrics("whole"), parts = metrics("parts");
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].value("loss", 0.0), parts[i].value("loss", 0.0));
}

TEST_F(TrainCommand, SLOW_ASignalSavesAndTheRunGoesOnFromThere) {
  ASSERT_EQ(run_program(command("whole", "--steps 400")).status, 0);
  // `timeout` sends the signal that Ctrl-C sends.
  const std::string interrupted = "timeout --foreground --preserve-status -s INT 1 " + std::string(LONGHAUL_BINARY) +
                                  " " + command("parts", "--steps 400") + " >" + (folder / "out").string() + " 2>&1";
  const int status = std::system(interrupted.c_str());
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << read(folder / "out");
  ASSERT_TRUE(fs::exists(folder / "parts/checkpoints/latest")) << read(folder / "out");
  ASSERT_EQ(run_program(command("parts", "--steps 400")).status, 0);
  EXPECT_EQ(weights("parts", "step_00000400"), weights("whole", "step_00000400"));
}

TEST_F(TrainCommand, CheckpointsServeEvalGenerateAndInspect) {
  ASSERT_EQ(run_program(command("a", "--steps 3")).status, 0);
  const std::string run = (folder / "a").string();
  const Printed eval = run_program("eval --checkpoint " + run + " --data " + text.string() + " --context 128 --json");
  ASSERT_EQ(eval.status, 0) << eval.err;
  EXPECT_GT(nlohmann::json::parse(eval.out)["eval_loss"], 0);
  const Printed spread = run_program("eval --checkpoint " + run + " --data " + text.string() +
                                     " --context 128 --json --ranks 3 --data-parallel 1 --strategy ring --dtype fp32");
  const Printed alone =
      run_program("eval --checkpoint " + run + " --data " + text.string() + " --context 128 --json --dtype fp32");
  EXPECT_NEAR(nlohmann::json::parse(spread.out)["eval_loss"].get<double>(),
              nlohmann::json::parse(alone.out)["eval_loss"].get<double>(), 1e-5);
  const Printed text_out = run_program("generate --checkpoint " + run + " --prompt line --length 5");
  ASSERT_EQ(text_out.status, 0) << text_out.err;
  EXPECT_EQ(text_out.out.substr(0, 4), "line");
  EXPECT_EQ(text_out.out.size(), 10u) << "four bytes, five more and a line break";
  const Printed inspected = run_program("inspect --in " + run + " --json");
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_EQ(nlohmann::json::parse(inspected.out)["latest"]["step"], 3);
}

TEST_F(TrainCommand, ARunKeepsItsModelAndSaysThatItIsDone) {
  ASSERT_EQ(run_program(command("a", "--steps 3")).status, 0);
  const std::string config = read(folder / "a/config.toml");
  const Printed other = run_program(command("a", "--steps 3 --model mini"));
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("another model than --model mini"), std::string::npos) << other.err;
  EXPECT_EQ(read(folder / "a/config.toml"), config) << "what is refused changes nothing";
  const Printed again = run_program(command("a", "--steps 3"));
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("all 3 steps are done already"), std::string::npos) << again.out;
  EXPECT_EQ(again.out.find("memorising"), std::string::npos) << "no step ran, so there is no training loss\n"
                                                             << again.out;
}

TEST_F(TrainCommand, EvalTakesDataAndContextFromTheRun) {
  ASSERT_EQ(run_program(command("a", "--steps 2")).status, 0);
  const std::string eval = "eval --json --checkpoint " + (folder / "a").string();
  const Printed p = run_program(eval);
  ASSERT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(nlohmann::json::parse(p.out)["context"], 128);
  EXPECT_EQ(p.out, run_program(eval + " --context 128 --data " + text.string()).out);
}

// Truncated, the newest checkpoint is passed over with a word, and the one before serves.
TEST_F(TrainCommand, ADamagedCheckpointFallsBackToTheOneBefore) {
  ASSERT_EQ(run_program(command("a", "--steps 6 --save-every 3")).status, 0);
  fs::resize_file(folder / "a/checkpoints/step_00000006/model.safetensors", 1000);
  const Printed p = run_program(command("a", "--steps 6 --save-every 3"));
  ASSERT_EQ(p.status, 0) << p.err;
  EXPECT_NE(p.out.find("skipped a damaged checkpoint"), std::string::npos) << p.out;
  EXPECT_NE(p.out.find("step_00000003"), std::string::npos) << p.out;
}

// Minutes alone: the number of steps is estimated once and written down.
TEST_F(TrainCommand, SLOW_MinutesAloneFixTheStepsOnce) {
  const Printed p = run_program(command("a", "--minutes 0.2"));
  ASSERT_EQ(p.status, 0) << p.err;
  EXPECT_NE(p.out.find("steps fit into"), std::string::npos) << p.out;
  std::smatch found;
  const std::string config = read(folder / "a/config.toml");
  ASSERT_TRUE(std::regex_search(config, found, std::regex("steps = ([0-9]+)"))) << config;
  EXPECT_LE(metrics("a").back()["step"].get<long>(), std::stol(found[1]));
}

// Resident memory above that of a run that needs next to nothing agrees with the plan within 3 % and 64 MiB.
TEST_F(TrainCommand, SLOW_ResidentMemoryIsThatOfThePlan) {
  const fs::path many = folder / "many";  // short documents: long rows, little attention
  fs::create_directories(many);
  for (int i = 0; i < 400; ++i) {
    std::ofstream file(many / (std::to_string(i) + ".txt"));
    for (int j = 0; j < 100; ++j) file << "word " << (i * 31 + j * 17) % 997 << " then " << j << "\n";
  }
  const std::string common =
      " --model tiny --data " + many.string() + " --ranks 2 --threads 1 --dtype fp32 --steps 2 --context ";
  const auto planned = [&](const char* context) {
    const Printed p = run_program("plan" + common + context + " --json");
    EXPECT_EQ(p.status, 0) << p.err;
    return 2 * nlohmann::json::parse(p.out)["peak_bytes"].get<double>();
  };
  const auto resident = [&](const char* context, const char* run) {
    const Printed p = run_program("train" + common + context + " --run " + (folder / run).string());
    EXPECT_EQ(p.status, 0) << p.err;
    rusage use{};
    ::getrusage(RUSAGE_CHILDREN, &use);
    return static_cast<double>(use.ru_maxrss) * 1024;  // the largest child so far
  };
  const double base = resident("256", "small") - planned("256");
  const double wanted = planned("256K"), got = resident("256K", "large") - base;
  EXPECT_NEAR(got, wanted, 0.03 * wanted + (64 << 20)) << "planned " << wanted << ", resident " << got;
  EXPECT_GT(wanted, 400e6) << "too small a run to tell";
}

// What ./quickstart runs, for 90 steps of one sequence of 8,192: below 4.6 bits per byte on held-out text, where a
// context-free byte model has about 5.05.
TEST_F(TrainCommand, SLOW_MainJobLearns) {
  const fs::path headers = "/usr/include/c++";
  ASSERT_TRUE(fs::exists(headers)) << "the compiler's own headers are the text of this test";
  const Printed p =
      run_program("train --config " + std::string(PROJECT_SOURCE_DIR) + "/recipes/quickstart.toml --data " +
                  headers.string() + " --steps 90 --eval-every 0 --set minutes=60 --run " + (folder / "main").string());
  ASSERT_EQ(p.status, 0) << p.err;
  double held_out = 100;
  for (const auto& line : metrics("main")) held_out = line.value("eval_loss", held_out);
  EXPECT_LT(held_out / std::log(2.0), 4.6) << p.out;
}

}  // namespace
}  // namespace longhaul
