// The command line: help, version, exit statuses, and what a mistake prints.
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/program.h"

namespace longhaul {
namespace {

void expect_usage_error(const std::string& arguments, const std::string& said, const std::string& hint = "") {
  const Printed p = run_program(arguments);
  EXPECT_EQ(p.status, 2) << "longhaul " << arguments;
  EXPECT_EQ(p.err.rfind("error: ", 0), 0u) << p.err;
  EXPECT_NE(p.err.find("\nhint: "), std::string::npos) << p.err;
  EXPECT_EQ(std::count(p.err.begin(), p.err.end(), '\n'), 2) << p.err;
  EXPECT_NE(p.err.find(said), std::string::npos) << "longhaul " << arguments << ": " << p.err;
  EXPECT_NE(p.err.find(hint), std::string::npos) << "longhaul " << arguments << ": " << p.err;
  EXPECT_EQ(p.out, "") << "longhaul " << arguments;
}

TEST(CommandLine, HelpAndVersion) {
  for (const char* arguments : {"", "--help", "-h"}) {
    const Printed p = run_program(arguments);
    EXPECT_EQ(p.status, 0);
    EXPECT_NE(p.out.find("plan"), std::string::npos);
  }
  EXPECT_EQ(run_program("--version").out.rfind("longhaul ", 0), 0u);
  const Printed help = run_program("plan --help");
  EXPECT_EQ(help.status, 0);
  for (const char* part : {"--context-parallel", "[cosine]", "Examples:", "longhaul plan --model"})
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
}

TEST(CommandLine, HelpOfACommand) {
  const Printed help = run_program("help attend");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.out, run_program("attend --help").out);
  EXPECT_EQ(help.out.rfind("usage: longhaul attend", 0), 0u) << help.out;
  EXPECT_LT(help.out.find("--in FILE"), help.out.find("--ranks")) << "what must be given comes first";
  EXPECT_EQ(help.out.find("\n\n\n"), std::string::npos) << help.out;
}

TEST(CommandLine, Mistakes) {
  expect_usage_error("paln", "paln", "did you mean \"plan\"?");
  expect_usage_error("plan --conetxt-parallel 2", "conetxt-parallel", "did you mean \"context-parallel\"?");
  expect_usage_error("plan --conetxt-parallel=2", "conetxt-parallel", "did you mean \"context-parallel\"?");
  expect_usage_error("plan --model tiny 3", "\"3\"");
  expect_usage_error("plan --steps", "--steps");
  expect_usage_error("plan --steps -1", "steps is \"-1\"");
  expect_usage_error("plan --lr -inf", "lr is \"-inf\"");
  expect_usage_error("plan --context 16Q", "16Q");
  expect_usage_error("plan --set lr", "key=value");
  expect_usage_error("plan --config /nonexistent.toml", "/nonexistent.toml");
  expect_usage_error("plan --config /", "/");
  expect_usage_error("plan -x", "\"x\"");
  expect_usage_error("plan --strategy rign", "rign", "did you mean \"ring\"?");
  expect_usage_error("plan --schedule something", "something", "schedule says: learning rate");
  expect_usage_error("probe --model tiny", "--tokens is missing");
  expect_usage_error("plan --model 'a\nb\x1b'", "there is no model \"a?b?\"");
  expect_usage_error("attend --in 'a\nb' --out c", "a?b");
  const std::string too_long(5000, 'a');  // for the file system, which says so otherwise than by "not there"
  expect_usage_error("plan --model " + too_long, "there is no model");
  expect_usage_error("inspect --in " + too_long, "there is no such file");
  expect_usage_error("generate --prompt a --checkpoint " + too_long, "too long");
}

}  // namespace
}  // namespace longhaul
