// The commands: each is one file src/cli/NAME.cpp with one function, and one row of the table in main.cpp.
#pragma once

#include <span>
#include <string>

#include "spec/run_spec.h"

namespace longhaul::cli {

constexpr const char* kVersion = "0.1.0";

struct Command {
  const char* name;
  const char* summary;               // one line
  const char* examples;              // lines of --help
  int (*run)(const spec::RunSpec&);  // the exit status; throws Error
};
std::span<const Command> commands() noexcept;

int run_plan(const spec::RunSpec& spec);
int run_attend(const spec::RunSpec& spec);
int run_probe(const spec::RunSpec& spec);
int run_eval(const spec::RunSpec& spec);
int run_generate(const spec::RunSpec& spec);
int run_inspect(const spec::RunSpec& spec);
int run_train(const spec::RunSpec& spec);

}  // namespace longhaul::cli
