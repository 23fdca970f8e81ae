// Formats progress for people and for programs.
#include "train/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "base/clock.h"

namespace longhaul::train {
namespace {

std::string duration(double seconds) {
  const auto s = static_cast<long>(std::lround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s % 3600 / 60);
}

// NaN and infinity are not JSON.
std::string number(double x) {
  return std::isfinite(x) ? fmt::format("{}", x) : "null";
}

constexpr double kSecondsBetweenLines = 1.0;  // where the output is not a terminal

}  // namespace

Reporter::Reporter(io::RunDirectory* directory, bool bytes, bool json)
    : directory_(directory), bytes_(bytes), json_(json), terminal_(isatty(STDOUT_FILENO) != 0) {}

std::string Reporter::loss_text(double loss) const {
  if (!bytes_) return fmt::format("loss {:.4f}", loss);
  return fmt::format("loss {:.4f} ({:.3f} bits/byte)", loss, loss / std::numbers::ln2);
}

void Reporter::end_line() {
  if (open_line_) std::fputc('\n', stdout);
  open_line_ = false;
  std::fflush(stdout);
}

void Reporter::note(std::string_view text) {
  if (json_) return;
  end_line();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Reporter::step(const StepRecord& r, Index steps, double seconds_left) {
  const double tokens_per_s = r.sequence_tokens / r.seconds;
  const std::string line = fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"grad_norm\": {}, \"lr\": {}, \"tokens\": {}, \"seconds\": {}, "
      "\"tokens_per_s\": {}, \"mfu\": {}, \"mfu_exact\": {}, \"hfu\": {}}}",
      r.step, number(r.result.loss), number(r.result.grad_norm), number(r.result.lr), r.result.tokens,
      number(r.seconds), number(tokens_per_s), number(r.mfu), number(r.mfu_exact), number(r.hfu));
  if (directory_ != nullptr) directory_->append_metrics(line);
  if (json_) {
    fmt::print("{}\n", line);
    return;
  }
  const bool last = r.step == steps;
  if (!terminal_ && !last && r.step != 1 && now_seconds() - last_printed_ < kSecondsBetweenLines) return;
  last_printed_ = now_seconds();
  const std::string of = steps > 0 ? fmt::format("{}/{}", r.step, steps) : fmt::format("{}", r.step);
  const std::string left = seconds_left > 0 ? fmt::format("  {} left", duration(seconds_left)) : "";
  const std::string text = fmt::format(
      "step {:>9}  {}  {:.0f} tokens/s{}  |g| {:.3f}  lr {:.2e}  MFU {:.1f}% (exact {:.1f}%, hardware {:.1f}%)", of,
      loss_text(r.result.loss), tokens_per_s, left, r.result.grad_norm, r.result.lr, 100 * r.mfu, 100 * r.mfu_exact,
      100 * r.hfu);
  // On a terminal a step takes the place of the one before: not wrapped, or a narrow one would keep half of each.
  if (terminal_)
    fmt::print("\r\033[?7l{}\033[K\033[?7h", text);
  else
    fmt::print("{}\n", text);
  open_line_ = terminal_;
  std::fflush(stdout);
}

void Reporter::evaluation(Index step, const Evaluation& e) {
  const std::string line = fmt::format("{{\"step\": {}, \"eval_loss\": {}, \"eval_tokens\": {}}}", step,
                                       number(e.mean()), static_cast<Index>(e.tokens));
  if (directory_ != nullptr) directory_->append_metrics(line);
  if (json_) fmt::print("{}\n", line);
  note(fmt::format("held-out at step {}: {} over {:.0f} tokens", step, loss_text(e.mean()), e.tokens));
}

void Reporter::by_position(const Evaluation& e, Index documents) {
  if (json_ || e.tokens == 0) return;
  note(fmt::format("\nloss by position in the document, over {} long held-out documents:", documents));
  double top = 0;
  for (int b = 0; b < Evaluation::kBuckets; ++b)
    if (e.bucket_tokens[b] > 0) top = std::max(top, e.bucket_loss[b] / e.bucket_tokens[b]);
  for (int b = 0; b < Evaluation::kBuckets; ++b) {
    if (e.bucket_tokens[b] == 0) continue;
    const double loss = e.bucket_loss[b] / e.bucket_tokens[b];
    const int width = top > 0 ? static_cast<int>(std::lround(40 * loss / top)) : 0;
    note(fmt::format("  {:>7} to {:<7} {}  {}", (Index{1} << b) - 1, (Index{2} << b) - 2, loss_text(loss),
                     std::string(static_cast<std::size_t>(width), '#')));
  }
}

}  // namespace longhaul::train
