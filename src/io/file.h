// Files as this program uses them: read at positions, written whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace longhaul::io {

// The system's words for an errno value.
std::string describe_errno(int code);

// A name from a file as it may stand in an error message: in quotes, on one line, at most about 100 bytes.
std::string quote(std::string_view name);

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// A regular file opened for reading. Reads go to positions, so any number of threads may share one. Not mapped into
// memory: a file that shrinks while it is read is an error here, not a SIGBUS.
class InputFile {
 public:
  // input_error when the path is missing, is a folder or a device, or may not be read.
  explicit InputFile(std::string path);
  const std::string& path() const noexcept { return path_; }
  Index size() const noexcept { return size_; }  // bytes, when it was opened
  // Fills `out` from byte `offset`; run_error when the file ends before that or cannot be read.
  void read(Index offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  Descriptor file_;
  Index size_ = 0;
};

// The whole of a small file; input_error when it is longer than `limit` bytes or cannot be read.
std::string read_text(const std::string& path, Index limit = Index{64} << 20);

// The 128-bit hash of a file's bytes, as FileHash prints it.
std::string hash_file(const std::string& path);

// A file that appears under its name complete, or not at all: bytes go to PATH.tmp-PID, which commit() renames.
// Without commit() the destructor removes it.
class AtomicFile {
 public:
  // input_error when the file cannot be made there, or when `path` is a folder or a device; run_error for a full disk.
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  const std::string& path() const noexcept { return path_; }
  // Appends. run_error when the disk is full or fails.
  void write(std::span<const std::byte> bytes);
  // Brings the bytes to the disk, renames, brings the name to the disk. Returns the hash of what was written.
  std::string commit();

 private:
  std::string path_, temporary_;
  Descriptor file_;
  FileHash hash_;
  bool committed_ = false;
};

// Writes a small file atomically; returns its hash.
std::string write_text(const std::string& path, std::string_view text);

// Makes a folder and those above it; input_error when a file is in the way or it is not allowed.
void make_folders(const std::string& path);

// Brings the names in a folder to the disk. A file system that cannot do this is left alone.
void sync_folder(const std::string& path);

}  // namespace longhaul::io
