// Error: for what the world can do. It carries what happened, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>

namespace longhaul {

class Error : public std::runtime_error {
 public:
  enum class Kind { kInput = 2, kRun = 1 };  // the value is the exit status: 2 usage or input, 1 a run that failed

  Error(Kind kind, std::string what, std::string where, std::string hint);

  Kind kind;
  std::string where;
  std::string hint;
};

// throw input_error("the header is longer than the file", path, "download the file again");
Error input_error(std::string what, std::string where, std::string hint);
Error run_error(std::string what, std::string where, std::string hint);

// "error: what, where\nhint: …\n", as every command prints it: two lines, control characters replaced by question
// marks.
std::string describe(const Error& error);

}  // namespace longhaul
