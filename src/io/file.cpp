// Reading and writing through POSIX, with errors that name the file and the reason.
#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace longhaul::io {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux moves at most 2 GiB a call
constexpr std::size_t kChunk = std::size_t{1} << 20;

const char* hint_of(int code) {
  switch (code) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check the permissions of the path";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "make room on the disk, or write to another one";
    default:
      return "check the path and the disk behind it";
  }
}

// The path is at fault, or else the machine.
Error creation_error(int code, const std::string& what, const std::string& path) {
  const bool machine = code == ENOSPC || code == EDQUOT || code == EIO || code == EMFILE || code == ENFILE;
  const std::string message = what + ": " + describe_errno(code);
  return machine ? run_error(message, path, hint_of(code)) : input_error(message, path, hint_of(code));
}

}  // namespace

std::string describe_errno(int code) {
  return std::generic_category().message(code);
}

std::string quote(std::string_view name) {
  constexpr std::size_t kLimit = 100;
  std::string text = "'";
  for (char c : name.substr(0, kLimit)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (name.size() > kLimit) {
    // No half letters: a UTF-8 letter ends with bytes 10xxxxxx after one 11xxxxxx.
    while ((static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    if ((static_cast<unsigned char>(text.back()) & 0xc0) == 0xc0) text.pop_back();
    text += "...";
  }
  return text + "'";
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever.
  file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file_.get() < 0) throw input_error("the file cannot be opened: " + describe_errno(errno), path_, hint_of(errno));
  struct stat status;
  if (::fstat(file_.get(), &status) != 0)
    throw input_error("the file cannot be opened: " + describe_errno(errno), path_, hint_of(errno));
  if (S_ISDIR(status.st_mode)) throw input_error("a folder where a file is expected", path_, "name a file in it");
  if (!S_ISREG(status.st_mode)) throw input_error("not a regular file", path_, "copy the data to a file first");
  size_ = status.st_size;
}

void InputFile::read(Index offset, std::span<std::byte> out) const {
  CHECK(offset >= 0, "offset %ld", offset);
  while (!out.empty()) {
    const ssize_t n = ::pread(file_.get(), out.data(), std::min(out.size(), kMostAtOnce), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw run_error("the file cannot be read: " + describe_errno(errno), path_, hint_of(errno));
    if (n == 0)
      throw run_error("the file ends at byte " + std::to_string(offset) + ", earlier than when it was opened", path_,
                      "leave input files alone while they are in use");
    offset += n;
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::string read_text(const std::string& path, Index limit) {
  const InputFile file(path);
  if (file.size() > limit)
    throw input_error(
        "the file has " + std::to_string(file.size()) + " bytes, more than the " + std::to_string(limit) + " expected",
        path, "check that this is the right file");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string hash_file(const std::string& path) {
  const InputFile file(path);
  FileHash hash;
  std::vector<std::byte> buffer(kChunk);
  for (Index at = 0; at < file.size();) {
    const Index n = std::min<Index>(file.size() - at, static_cast<Index>(kChunk));
    const std::span<std::byte> piece(buffer.data(), static_cast<std::size_t>(n));
    file.read(at, piece);
    hash.add(piece);
    at += n;
  }
  return hash.digest();
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".tmp-" + std::to_string(::getpid())) {
  struct stat status;
  // A rename would replace a device by a file.
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw input_error("the output exists and is not a regular file", path_, "name a file to write");
  ::unlink(temporary_.c_str());  // what a killed process with our number may have left
  file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file_.get() < 0) throw creation_error(errno, "the file cannot be made", path_);
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.get() >= 0) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  CHECK(!committed_, "%s is complete", path_.c_str());
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int code = n < 0 ? errno : ENOSPC;
      throw run_error("the file cannot be written: " + describe_errno(code), path_, hint_of(code));
    }
    hash_.add(bytes.first(static_cast<std::size_t>(n)));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::string AtomicFile::commit() {
  CHECK(!committed_, "%s is complete", path_.c_str());
  // Some network file systems tell of a full disk only here.
  if (::fsync(file_.get()) != 0 && errno != EINVAL)
    throw run_error("the file cannot be written: " + describe_errno(errno), path_, hint_of(errno));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw run_error("the complete file cannot be given its name: " + describe_errno(errno), path_, hint_of(errno));
  committed_ = true;
  sync_folder(std::filesystem::path(path_).parent_path().string());
  return hash_.digest();
}

std::string write_text(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  return file.commit();
}

void make_folders(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (!folder && std::filesystem::exists(path, ignored))
    throw input_error("a file where a folder is expected", path, "name a folder, or move the file away");
  if (!folder) throw creation_error(code.value(), "the folder cannot be made", path);
}

void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

}  // namespace longhaul::io
