// Runs the built program and keeps what it printed.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace longhaul {

struct Printed {
  int status = -1;
  std::string out, err;
};

// `arguments` as a shell would take them.
inline Printed run_program(const std::string& arguments) {
  const std::filesystem::path err =
      std::filesystem::temp_directory_path() / ("longhaul_err_" + std::to_string(::getpid()));
  Printed p;
  std::FILE* pipe = ::popen((std::string(LONGHAUL_BINARY) + " " + arguments + " 2>" + err.string()).c_str(), "r");
  std::array<char, 4096> part;
  for (std::size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) p.out.append(part.data(), n);
  const int raw = ::pclose(pipe);
  p.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  std::ostringstream text;
  text << std::ifstream(err).rdbuf();
  p.err = text.str();
  std::filesystem::remove(err);
  return p;
}

}  // namespace longhaul
