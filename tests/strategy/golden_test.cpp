// Schedules as text, compared with files that a reader can follow: tests/golden/schedules.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cases.h"

namespace longhaul::strategy {
namespace {

std::string text_of(const Program& program) {
  std::string text;
  for (std::size_t s = 0; s < program.slots.size(); ++s)
    text += fmt::format("  slot {}: {} {} rows x {} heads, {} bytes\n", s, name_of(program.slots[s].tensor),
                        program.slots[s].rows, program.slots[s].heads, program.slots[s].bytes);
  for (const Step& step : program.steps) text += "  " + describe(step) + "\n";
  return text;
}

std::string text_of(const World& world, const Case& c, std::size_t first, std::size_t last) {
  std::string text = text_of(c) + "\n";
  for (std::size_t r = first; r <= last; ++r)
    text += fmt::format("rank {} forward\n{}rank {} backward\n{}", r, text_of(world.schedules[r].forward), r,
                        text_of(world.schedules[r].backward));
  return text;
}

// The file holds the schedules of ranks first to last.
void expect_golden(const std::string& name, const Case& c, std::size_t first, std::size_t last) {
  const World world(c);
  const std::string path = std::string(TEST_SOURCE_DIR) + "/golden/schedules/" + name + ".txt";
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  const std::string text = text_of(world, c, first, last);
  if (text == golden.str()) return;
  const std::string made = testing::TempDir() + name + ".txt";
  std::ofstream(made) << text;
  ADD_FAILURE() << "not as in " << path << "; see: diff " << path << " " << made;
}

TEST(GoldenSchedules, Single) {
  expect_golden("single", {.strategy = "single", .length = 4}, 0, 0);
}
TEST(GoldenSchedules, AllGather) {
  expect_golden("all_gather", {.strategy = "all_gather", .ranks = 3, .length = 7}, 0, 1);
}
TEST(GoldenSchedules, RingCausal) {
  expect_golden("ring_causal", {.strategy = "ring", .ranks = 3, .length = 7}, 0, 2);
}
TEST(GoldenSchedules, RingZigzag) {
  expect_golden("ring_zigzag", {.strategy = "ring", .layout = LayoutKind::kZigzag, .ranks = 2, .length = 8}, 0, 1);
}
TEST(GoldenSchedules, RingWindow) {
  expect_golden("ring_window", {.strategy = "ring", .ranks = 4, .mask = MaskCase::kWindow, .length = 16, .window = 3},
                1, 1);
}
TEST(GoldenSchedules, UlyssesUnevenHeads) {
  expect_golden("ulysses_uneven_heads", {.strategy = "ulysses", .ranks = 2, .length = 4, .q_heads = 3, .kv_heads = 1},
                1, 1);
}
TEST(GoldenSchedules, Usp) {
  expect_golden("usp", {.strategy = "usp", .ranks = 4, .ulysses = 2, .length = 8}, 2, 2);
}

}  // namespace
}  // namespace longhaul::strategy
