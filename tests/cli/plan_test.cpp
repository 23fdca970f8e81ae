// longhaul plan: what it prints, and that it refuses what no plan can be made for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace longhaul {
namespace {

nlohmann::json plan_json(const std::string& options) {
  const Printed p = run_program("plan --json " + options);
  EXPECT_EQ(p.status, 0) << options << ": " << p.err;
  EXPECT_EQ(p.err, "");
  return nlohmann::json::parse(p.out);
}

TEST(PlanCommand, Json) {
  const auto j = plan_json("--model llama3.1-8b --context 128K --ranks 8");
  EXPECT_EQ(j.at("parameters"), 8030261248);
  EXPECT_TRUE(j.at("fits").is_boolean());
  EXPECT_GT(j.at("peak_bytes").get<std::int64_t>(), 8030261248);
  EXPECT_EQ(j.at("strategy"), "ulysses");
  EXPECT_EQ(j.at("layout"), "contiguous");
  std::int64_t sum = 0;
  for (const auto& row : j.at("memory")) sum += row.at("bytes").get<std::int64_t>();
  EXPECT_EQ(sum, j.at("peak_bytes"));
}

TEST(PlanCommand, DoesNotFitIsNoError) {
  EXPECT_FALSE(plan_json("--model tiny --memory 1K").at("fits"));
  EXPECT_TRUE(plan_json("--model tiny --memory 1G").at("fits"));
  EXPECT_FALSE(plan_json("--model llama3-405b --context 1M --ranks 64 --memory 80G").at("fits"));
  EXPECT_NE(plan_json("--model gemma4-31b").at("cannot_run"), "");
}

TEST(PlanCommand, Text) {
  const Printed p = run_program("plan --model mini --context 32K --ranks 2 --memory 2G");
  EXPECT_EQ(p.status, 0);
  for (const char* part :
       {"426624 parameters (427 thousand)", "2 ranks", "optimizer state", "fits 2.00 GiB", "a step", "assumed"})
    EXPECT_NE(p.out.find(part), std::string::npos) << part << " is not in\n" << p.out;
}

TEST(PlanCommand, Directory) {
  EXPECT_EQ(
      plan_json(std::string("--context 512 --model ") + TEST_SOURCE_DIR + "/golden/models/llama31").at("parameters"),
      2 * 96 * 32 + 32 + 2 * (64 + 32 * (64 + 32 + 32 + 64) + 3 * 32 * 48));
}

TEST(PlanCommand, Refusals) {
  for (const char* options : {"", "--model lama-8b --context 8K", "--model /",
                              "--model tiny --ranks 4 --context-parallel 3 --data-parallel 2",
                              "--model tiny --strategy rign", "--model tiny --kernel nothing"}) {
    const Printed p = run_program(std::string("plan ") + options);
    EXPECT_EQ(p.status, 2) << options;
    EXPECT_EQ(p.err.rfind("error: ", 0), 0u) << options << ": " << p.err;
    EXPECT_NE(p.err.find("\nhint: "), std::string::npos) << options << ": " << p.err;
    EXPECT_EQ(p.out, "");
  }
}

}  // namespace
}  // namespace longhaul
