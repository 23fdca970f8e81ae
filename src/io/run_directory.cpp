// Keeps a run's folder.
#include "io/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace longhaul::io {
namespace {

bool stays(const std::string& line, Index step) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_object()) return false;
  const auto at = value.find("step");
  return at == value.end() || (at->is_number_integer() && at->get<Index>() <= step);
}

}  // namespace

RunDirectory::RunDirectory(std::string path) : path_(std::move(path)) {
  make_folders(path_);
  if (::access(path_.c_str(), W_OK | X_OK) != 0)
    throw input_error("the run's folder cannot be written to: " + describe_errno(errno), path_,
                      "name another folder with --run");
}

void RunDirectory::write_config(std::string_view toml) {
  write_text(path_ + "/config.toml", toml);
}

void RunDirectory::drop_metrics_after(Index step) {
  std::error_code ignored;
  if (!std::filesystem::exists(metrics(), ignored)) return;
  metrics_ = Descriptor();
  std::ifstream in(metrics(), std::ios::binary);
  AtomicFile out(metrics());
  for (std::string line; std::getline(in, line);) {
    if (!stays(line, step)) continue;
    line += '\n';
    out.write(std::as_bytes(std::span(line)));
  }
  if (!in.eof()) throw run_error("the metrics cannot be read", metrics(), "check the disk");
  out.commit();
}

void RunDirectory::append_metrics(std::string_view line) {
  CHECK(line.find('\n') == std::string_view::npos, "more than one line of metrics");
  if (metrics_.get() < 0)
    metrics_ = Descriptor(::open(metrics().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  // In one call, so that a reader never sees half a line.
  const std::string text = std::string(line) + '\n';
  ssize_t n = 0;
  do n = ::write(metrics_.get(), text.data(), text.size());
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) return;
  throw run_error("the metrics cannot be written: " + describe_errno(n < 0 ? errno : ENOSPC), metrics(),
                  "make room on the disk, and resume the run");
}

void RunDirectory::sync_metrics() {
  if (metrics_.get() >= 0 && ::fsync(metrics_.get()) != 0 && errno != EINVAL)
    throw run_error("the metrics cannot be written: " + describe_errno(errno), metrics(),
                    "make room on the disk, and resume the run");
}

}  // namespace longhaul::io
