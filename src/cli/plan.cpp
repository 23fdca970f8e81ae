// The plan command.
#include <fmt/format.h>

#include "cli/commands.h"

namespace longhaul::cli {

int run_plan(const spec::RunSpec& spec) {
  fmt::print("{}", spec::to_toml(spec));
  return 0;
}

}  // namespace longhaul::cli
