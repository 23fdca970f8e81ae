// Finding files and reading them into one piece of memory.
#include "io/documents.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "io/file.h"

namespace longhaul::io {
namespace {

constexpr std::uint64_t kSalt = 0x6c6f6e676861756c;  // "longhaul"; a change would move documents between sides
constexpr std::uint64_t kHeldOutBelow = std::uint64_t{1} << 60;  // a sixteenth of all hashes

class FileList {
 public:
  void add(const std::string& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0)
      throw input_error("the data cannot be read: " + describe_errno(errno), path, "check the path given to --data");
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return;
    if (!seen_.insert({status.st_dev, status.st_ino}).second) return;
    if (S_ISDIR(status.st_mode))
      add_folder(path);
    else if (status.st_size > 0)
      files.push_back(path);
  }

  std::vector<std::string> files;

 private:
  void add_folder(const std::string& path) {
    std::vector<std::string> names;
    std::error_code code;
    for (std::filesystem::directory_iterator at(path, code), end; !code && at != end; at.increment(code)) {
      std::string name = at->path().filename().string();
      if (!name.starts_with('.')) names.push_back(std::move(name));
    }
    if (code)
      throw input_error("the folder cannot be read: " + code.message(), path, "check its permissions, or name others");
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) add((std::filesystem::path(path) / name).string());
  }

  std::set<std::pair<dev_t, ino_t>> seen_;
};

std::string join(std::span<const std::string> paths) {
  std::string text = paths[0];
  if (paths.size() > 1) text += " and " + std::to_string(paths.size() - 1) + " more";
  return text;
}

}  // namespace

std::vector<std::string> list_data_files(std::span<const std::string> paths) {
  FileList list;
  for (const std::string& path : paths) list.add(path);
  return std::move(list.files);
}

ByteCorpus::ByteCorpus(std::span<const std::string> paths) {
  CHECK(!paths.empty(), "no path");
  where_ = join(paths);
  const std::vector<std::string> files = list_data_files(paths);
  if (files.empty())
    throw input_error("there is no data: no file, or empty ones only", where_,
                      "name text files, or folders that hold some; names that begin with a dot are left out");
  std::vector<Index> sizes;
  for (const std::string& path : files) {
    sizes.push_back(InputFile(path).size());
    bytes_ += sizes.back();
  }
  memory_.reset(new (std::nothrow) std::uint8_t[static_cast<std::size_t>(bytes_)]);
  if (!memory_)
    throw input_error("the data has " + std::to_string(bytes_) + " bytes, more than there is memory", where_,
                      "name fewer files");

  std::vector<Document> documents;
  std::uint8_t* at = memory_.get();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile file(files[i]);
    if (file.size() != sizes[i])
      throw run_error("the file changed while it was read", files[i], "leave the data alone until it has been read");
    const std::span<std::uint8_t> bytes(at, static_cast<std::size_t>(sizes[i]));
    file.read(0, std::as_writable_bytes(bytes));
    if (!bytes.empty()) documents.push_back({files[i], bytes, hash64_of<std::uint8_t>(bytes, kSalt)});
    at += sizes[i];
  }

  std::uint64_t lowest = documents[0].hash, highest = lowest;
  for (const Document& document : documents) {
    lowest = std::min(lowest, document.hash);
    highest = std::max(highest, document.hash);
  }
  for (Document& document : documents) {
    const bool low = document.hash < kHeldOutBelow || document.hash == lowest;
    (low && document.hash != highest ? held_out_ : training_).push_back(std::move(document));
  }
}

}  // namespace longhaul::io
