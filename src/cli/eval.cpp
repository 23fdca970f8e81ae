// longhaul eval: held-out loss of a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numbers>

#include "cli/commands.h"
#include "train/reporter.h"
#include "train/restored.h"

namespace longhaul::cli {

int run_eval(const spec::RunSpec& spec) {
  const train::EvalResult r = train::evaluate_checkpoint(spec);
  const double bits = r.all.mean() / std::numbers::ln2;
  if (spec.json) {
    const nlohmann::json out = {{"eval_loss", r.all.mean()},
                                {"bits_per_byte", bits},
                                {"tokens", static_cast<Index>(r.all.tokens)},
                                {"documents", r.documents},
                                {"context_free_bits_per_byte", r.context_free_bits}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("held-out loss {:.4f}, {:.3f} bits per byte, over {:.0f} tokens of {} documents\n", r.all.mean(), bits,
             r.all.tokens, r.documents);
  fmt::print("a context-free byte model: {:.3f} bits per byte\n", r.context_free_bits);
  train::Reporter(nullptr, true, false).by_position(r.long_documents, r.long_document_count);
  return 0;
}

}  // namespace longhaul::cli
