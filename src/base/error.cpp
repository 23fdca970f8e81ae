// Builds and prints errors.
#include "base/error.h"

#include <utility>

namespace longhaul {
namespace {

// A name that the user or a file gave may hold anything; line breaks and terminal commands in it are not printed.
std::string line_of(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text + "\n";
}

}  // namespace

Error::Error(Kind kind, std::string what, std::string where, std::string hint)
    : std::runtime_error(std::move(what)), kind(kind), where(std::move(where)), hint(std::move(hint)) {}

Error input_error(std::string what, std::string where, std::string hint) {
  return Error(Error::Kind::kInput, std::move(what), std::move(where), std::move(hint));
}

Error run_error(std::string what, std::string where, std::string hint) {
  return Error(Error::Kind::kRun, std::move(what), std::move(where), std::move(hint));
}

std::string describe(const Error& error) {
  std::string what = std::string("error: ") + error.what();
  if (!error.where.empty()) what += ", " + error.where;
  return line_of(std::move(what)) + line_of("hint: " + error.hint);
}

}  // namespace longhaul
