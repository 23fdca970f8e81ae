// The table of options: one row an option, serving flags, TOML, --set, --help, the effective configuration and its
// hash.
#pragma once

#include <variant>

#include "spec/run_spec.h"

namespace longhaul::spec {

enum class OptionKind : std::uint8_t {
  kText,     // any text, paths too
  kList,     // several texts
  kChoice,   // one of `allowed`
  kSwitch,   // on or off
  kFlag,     // present or absent; true or false in TOML
  kInteger,  // decimal
  kSize,     // decimal, or with K, M, G, T
  kReal,
  kPair,  // two reals, "a,b"
};

using Field = std::variant<std::string RunSpec::*, std::vector<std::string> RunSpec::*, Index RunSpec::*,
                           double RunSpec::*, bool RunSpec::*, std::array<double, 2> RunSpec::*>;

// The commands that take an option, as bits.
enum Commands : std::uint32_t {
  kTrain = 1,
  kPlan = 2,
  kAttend = 4,
  kProbe = 8,
  kEval = 16,
  kGenerate = 32,
  kInspect = 64,
};

struct Option {
  const char* name;  // without the dashes
  OptionKind kind;
  Field field;
  const char* preset;   // the default as text; empty: none
  double least, most;   // of numbers
  const char* allowed;  // of choices: "a|b|c"; else what stands for the value in --help
  const char* group;
  std::uint32_t commands;
  const char* help;
};

std::span<const Option> options() noexcept;
std::uint32_t bit_of(std::string_view command) noexcept;  // 0: no command has this name
// Of two options with one name at most one belongs to a command. nullptr: the command has no such option.
const Option* find_option(std::string_view command, std::string_view name) noexcept;
// The candidate with the smallest edit distance; empty when none is near enough to be what was meant.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);
// The error that an unknown name of an option gives.
[[noreturn]] void fail_unknown_option(std::string_view command, std::string_view name, const std::string& where);

}  // namespace longhaul::spec
