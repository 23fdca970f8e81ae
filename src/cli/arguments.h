// From the command line to a RunSpec: CLI11 splits and prints help, the table of options says what is allowed.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/commands.h"

namespace longhaul::cli {

// `arguments` are those after the command's name. --config FILE is read first, wherever it stands; then flags and
// --set count from left to right. Nothing is returned when --help was asked for and printed.
std::optional<spec::RunSpec> parse_arguments(const Command& command, std::span<const std::string> arguments);

}  // namespace longhaul::cli
