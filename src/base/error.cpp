// Builds and prints errors.
#include "base/error.h"

#include <utility>

namespace longhaul {

Error::Error(Kind kind, std::string what, std::string where, std::string hint)
    : std::runtime_error(std::move(what)), kind(kind), where(std::move(where)), hint(std::move(hint)) {}

Error input_error(std::string what, std::string where, std::string hint) {
  return Error(Error::Kind::kInput, std::move(what), std::move(where), std::move(hint));
}

Error run_error(std::string what, std::string where, std::string hint) {
  return Error(Error::Kind::kRun, std::move(what), std::move(where), std::move(hint));
}

std::string describe(const Error& error) {
  std::string text = std::string("error: ") + error.what();
  if (!error.where.empty()) text += ", " + error.where;
  return text + "\nhint: " + error.hint + "\n";
}

}  // namespace longhaul
