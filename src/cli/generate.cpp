// longhaul generate: text from a checkpoint.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "train/restored.h"

namespace longhaul::cli {

int run_generate(const spec::RunSpec& spec) {
  if (spec.json) {
    const nlohmann::json j = {{"text", train::generate_text(spec)}};
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  // As it comes. A terminal gets a dot for what would move its cursor or worse; a file gets the bytes.
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  train::generate_text(spec, [terminal](char c) {
    const auto byte = static_cast<unsigned char>(c);
    const bool moves = (byte < 32 && c != '\n' && c != '\t') || byte == 127;
    if (terminal && moves)
      std::fputs("·", stdout);
    else
      std::fputc(byte, stdout);
    std::fflush(stdout);
  });
  fmt::print("\n");
  return 0;
}

}  // namespace longhaul::cli
