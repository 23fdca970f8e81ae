// longhaul eval: held-out loss of a checkpoint.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <numbers>

#include "cli/commands.h"
#include "train/reporter.h"
#include "train/restored.h"

namespace longhaul::cli {

namespace {

// On a terminal only: one line, gone when the rows are.
void show_progress(Index done, Index all) {
  if (done < all)
    fmt::print(stderr, "\rrow {} of {}", done, all);
  else
    fmt::print(stderr, "\r\033[K");
}

}  // namespace

int run_eval(const spec::RunSpec& spec) {
  const train::EvalResult r =
      isatty(STDERR_FILENO) != 0 ? train::evaluate_checkpoint(spec, show_progress) : train::evaluate_checkpoint(spec);
  const double bits = r.all.mean() / std::numbers::ln2;
  if (spec.json) {
    const nlohmann::json out = {
        {"eval_loss", r.all.mean()}, {"bits_per_byte", bits}, {"tokens", static_cast<Index>(r.all.tokens)},
        {"documents", r.documents},  {"context", r.context},  {"context_free_bits_per_byte", r.context_free_bits}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("held-out loss {:.4f}, {:.3f} bits per byte, over {:.0f} tokens of {} documents, context {}\n",
             r.all.mean(), bits, r.all.tokens, r.documents, r.context);
  fmt::print("a context-free byte model has {:.3f} bits per byte\n", r.context_free_bits);
  train::Reporter(nullptr, true, false).by_position(r.long_documents, r.long_document_count);
  return 0;
}

}  // namespace longhaul::cli
