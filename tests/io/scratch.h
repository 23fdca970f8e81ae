// A folder for one test, gone when the test ends, and small ways to fill it and to look at errors.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"

namespace longhaul::io {

class Scratch {
 public:
  Scratch() {
    // Memory where there is some: a disk takes a second over what these tests bring to it.
    std::error_code ignored;
    const bool memory = std::filesystem::is_directory("/dev/shm", ignored) && ::access("/dev/shm", W_OK) == 0;
    std::string name = memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    name += "/longhaul-io-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, with the folders above it; returns its path.
  std::string put(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file.string();
  }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// While it lives no file may grow beyond `bytes`: write() fails half-way, with EFBIG in place of a full disk's ENOSPC.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit tiny = {bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tiny);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t signal_;
  rlimit limit_;
};

// The names in a folder, sorted, a space after each.
inline std::string list(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.insert(entry.path().filename().string());
  std::string text;
  for (const auto& name : names) text += name + " ";
  return text;
}

// Runs `f`, which must throw an Error of `kind` that says `what` (a part of the message) and names `where` (a part).
inline void expect_error(Error::Kind kind, const std::string& what, const std::string& where,
                         const std::function<void()>& f, const std::string& name = "") {
  try {
    f();
    ADD_FAILURE() << name << ": no error; expected one with: " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, kind) << name << ": " << describe(error);
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << name << ": " << describe(error);
    EXPECT_NE(error.where.find(where), std::string::npos) << name << ": " << describe(error);
    EXPECT_FALSE(error.hint.empty()) << name;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << name << ": " << describe(error);
    EXPECT_LT(std::strlen(error.what()), 400u) << name;
  }
}

}  // namespace longhaul::io
