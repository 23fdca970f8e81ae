// longhaul generate: text from a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "train/restored.h"

namespace longhaul::cli {

int run_generate(const spec::RunSpec& spec) {
  const std::string text = train::generate_text(spec);
  if (spec.json)
    fmt::print("{}\n", nlohmann::json({{"text", text}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}\n", text);
  return 0;
}

}  // namespace longhaul::cli
