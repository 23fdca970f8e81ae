// The rows of the table of options.
#include "spec/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace longhaul::spec {
namespace {

using K = OptionKind;
using R = RunSpec;

constexpr double kBig = 1e15;        // of counts
constexpr double kMostRanks = 4096;  // payloads name ranks in 16 bits

constexpr std::uint32_t kModelled = kTrain | kPlan | kProbe | kEval;
constexpr std::uint32_t kRanked = kModelled | kAttend | kGenerate;
constexpr std::uint32_t kTrained = kTrain | kPlan;
constexpr std::uint32_t kFromCheckpoint = kEval | kGenerate;

constexpr const char* kModel = "Model";
constexpr const char* kData = "Data";
constexpr const char* kLength = "Length of the run (whichever ends first; without any: once through the data)";
constexpr const char* kNumbers = "Numbers and resources";
constexpr const char* kRunDirectory = "Run directory";
constexpr const char* kMesh = "Mesh";
constexpr const char* kOptimizer = "Optimizer (AdamW)";
constexpr const char* kFiles = "Input and output";
constexpr const char* kGeneral = "General";
constexpr const char* kText = "Text";

// clang-format off
const Option kOptions[] = {
  {"model", K::kText, &R::model, "", 0, 0, "NAME|DIR", kModel, kModelled, "tiny, mini, llama3.1-8b, llama3-70b, llama3-405b; or the Hugging Face directory of a Llama model; olmo3-7b and gemma4-31b can be planned, not run yet"},
  {"init", K::kChoice, &R::init, "auto", 0, 0, "auto|random", kModel, kTrained, "auto loads the weights of a directory; random draws them from the seed"},
  {"checkpoint", K::kText, &R::checkpoint, "", 0, 0, "DIR", kModel, kFromCheckpoint, "run directory (its latest checkpoint), one of its checkpoints, or a Hugging Face directory"},

  {"in", K::kText, &R::in, "", 0, 0, "FILE", kFiles, kAttend | kInspect, "file or directory to read (required)"},
  {"out", K::kText, &R::out, "", 0, 0, "FILE", kFiles, kAttend | kProbe, "safetensors file to write (required)"},
  {"tokens", K::kText, &R::tokens_file, "", 0, 0, "FILE", kFiles, kProbe, "safetensors file (required) with tokens and optional labels, segment_ids, position_ids"},
  {"no-grad", K::kFlag, &R::no_grad, "false", 0, 0, "", kFiles, kProbe | kAttend, "forward only"},
  {"logits-tail", K::kInteger, &R::logits_tail, "", 1, 1e12, "N", kFiles, kProbe, "write the logits of the last N tokens only"},

  {"prompt", K::kText, &R::prompt, "", 0, 0, "TEXT", kText, kGenerate, "text to go on from (required)"},
  {"length", K::kInteger, &R::length, "64", 1, 1e9, "N", kText, kGenerate, "tokens to generate"},
  {"temperature", K::kReal, &R::temperature, "0", 0, 1e3, "X", kText, kGenerate, "0 takes the likeliest token"},

  {"data", K::kList, &R::data, "", 0, 0, "PATH", kData, kTrained | kEval, "text files, or folders of them (searched through); every file is a document"},
  {"tokenizer", K::kText, &R::tokenizer, "", 0, 0, "FILE", kData, kTrained | kFromCheckpoint, "not supported yet: text is read as bytes"},
  {"batches", K::kText, &R::batches, "", 0, 0, "FILE", kData, kTrained, "safetensors file of given token batches, in order, instead of --data"},
  {"context", K::kSize, &R::context, "8K", 1, 1e9, "N", kData, kTrained | kEval, "tokens of a sequence"},
  {"batch", K::kInteger, &R::batch, "1", 1, 1e9, "N", kData, kTrained | kEval, "sequences of a step, over all ranks"},
  {"accumulate", K::kInteger, &R::accumulate, "1", 1, 1e9, "N", kData, kTrained, "parts that the batch is worked through in; splits the batch, does not multiply it"},
  {"document-mask", K::kSwitch, &R::document_mask, "on", 0, 0, "on|off", kData, kTrained | kEval, "off lets attention cross the documents of a sequence"},

  {"steps", K::kInteger, &R::steps, "", 1, kBig, "N", kLength, kTrained, "optimizer steps"},
  {"tokens", K::kSize, &R::token_budget, "", 1, 1e18, "N", kLength, kTrained, "tokens seen"},
  {"minutes", K::kReal, &R::minutes, "", 1e-3, 1e7, "N", kLength, kTrained, "wall-clock time; alone, the number of steps is estimated once from the first steps"},

  {"ranks", K::kInteger, &R::ranks, "", 1, kMostRanks, "N", kMesh, kRanked, "ranks, as threads of this process [1]"},
  {"context-parallel", K::kInteger, &R::context_parallel, "", 1, kMostRanks, "N", kMesh, kRanked, "ranks that share a sequence"},
  {"strategy", K::kChoice, &R::strategy, "auto", 0, 0, "auto|single|all_gather|ring|ulysses|usp", kMesh, kRanked, "how attention crosses the ranks that share a sequence"},
  {"ulysses", K::kInteger, &R::ulysses, "", 1, kMostRanks, "N", kMesh, kRanked, "inner degree of usp: ranks that exchange heads"},
  {"layout", K::kChoice, &R::layout, "auto", 0, 0, "auto|contiguous|zigzag|striped", kMesh, kRanked, "which tokens a rank owns"},
  {"data-parallel", K::kInteger, &R::data_parallel, "", 1, kMostRanks, "N", kMesh, kRanked, "groups of ranks that work on different sequences"},
  {"fsdp", K::kInteger, &R::fsdp, "", 1, kMostRanks, "N", kMesh, kRanked, "ranks that share parameters and optimizer state (can be planned, not run yet)"},
  {"tensor-parallel", K::kInteger, &R::tensor_parallel, "", 1, kMostRanks, "N", kMesh, kRanked, "ranks that share each matrix (can be planned, not run yet)"},
  {"expert-parallel", K::kInteger, &R::expert_parallel, "", 1, kMostRanks, "N", kMesh, kRanked, "ranks that share the experts (no model has experts yet)"},

  {"lr", K::kReal, &R::lr, "3e-4", 0, 1e3, "X", kOptimizer, kTrained, "peak learning rate"},
  {"warmup", K::kInteger, &R::warmup, "", 0, kBig, "N", kOptimizer, kTrained, "steps of linear warm-up [a twentieth of the steps, at most 2000]"},
  {"schedule", K::kChoice, &R::schedule, "cosine", 0, 0, "cosine|linear|wsd|constant", kOptimizer, kTrained, "learning rate after the warm-up"},
  {"min-lr-ratio", K::kReal, &R::min_lr_ratio, "0.1", 0, 1, "X", kOptimizer, kTrained, "last learning rate over the peak"},
  {"weight-decay", K::kReal, &R::weight_decay, "0.1", 0, 1e3, "X", kOptimizer, kTrained, "of matrices except the embedding"},
  {"decay-norms", K::kFlag, &R::decay_norms, "false", 0, 0, "", kOptimizer, kTrained, "weight decay on norm weights and the embedding too"},
  {"betas", K::kPair, &R::betas, "0.9,0.95", 0, 0.9999999, "A,B", kOptimizer, kTrained, "decay of the first and second moment"},
  {"eps", K::kReal, &R::eps, "1e-8", 0, 1, "X", kOptimizer, kTrained, "added to the root of the second moment"},
  {"clip", K::kReal, &R::clip, "1", 0, 1e30, "X", kOptimizer, kTrained, "largest global gradient norm; 0: none"},

  {"dtype", K::kChoice, &R::dtype, "auto", 0, 0, "auto|fp32|bf16|fp64", kNumbers, kRanked, "storage type; auto is bf16 where the CPU multiplies bf16, else fp32"},
  {"seed", K::kInteger, &R::seed, "1", 0, 9e18, "N", kNumbers, kTrained | kEval | kGenerate, "of initial weights, order of samples and sampling"},
  {"kernel", K::kText, &R::kernel, "auto", 0, 0, "auto|ref|NAME", kNumbers, kRanked, "attention kernel; auto takes the best of this machine"},
  {"memory", K::kSize, &R::memory, "", 1, 1e18, "BYTES", kNumbers, kTrained, "budget of a rank, such as 2G; activations are made again to fit it [the machine's memory / ranks]"},
  {"threads", K::kInteger, &R::threads, "", 1, 4096, "N", kNumbers, kRanked, "threads of a rank [cores / ranks]"},
  {"watchdog", K::kReal, &R::watchdog, "300", 1e-3, 1e7, "SECONDS", kNumbers, kRanked, "a rank that waits longer for another ends the run and says what it waited for"},

  {"run", K::kText, &R::run, "", 0, 0, "DIR", kRunDirectory, kTrained, "directory for config.toml, metrics.jsonl and checkpoints; without it nothing is saved"},
  {"resume", K::kText, &R::resume, "auto", 0, 0, "auto|never|DIR", kRunDirectory, kTrained, "auto goes on from the latest checkpoint in --run, if there is one"},
  {"save-every", K::kInteger, &R::save_every, "0", 0, kBig, "N", kRunDirectory, kTrained, "steps between checkpoints; 0: only at the end"},
  {"keep", K::kInteger, &R::keep, "2", 0, 1e6, "N", kRunDirectory, kTrained, "latest checkpoints that stay; 0: all"},
  {"eval-every", K::kInteger, &R::eval_every, "0", 0, kBig, "N", kRunDirectory, kTrained, "steps between held-out losses; 0: only at the end"},

  {"json", K::kFlag, &R::json, "false", 0, 0, "", kGeneral, kRanked | kInspect, "print machine-readable results"},
};
// clang-format on

constexpr std::string_view kCommandNames[] = {"train", "plan", "attend", "probe", "eval", "generate", "inspect"};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const Option> options() noexcept {
  return kOptions;
}

std::uint32_t bit_of(std::string_view command) noexcept {
  for (std::size_t i = 0; i < std::size(kCommandNames); ++i)
    if (kCommandNames[i] == command) return 1u << i;
  return 0;
}

const Option* find_option(std::string_view command, std::string_view name) noexcept {
  const std::uint32_t bit = bit_of(command);
  for (const Option& o : kOptions)
    if ((o.commands & bit) != 0 && o.name == name) return &o;
  return nullptr;
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t distance = std::min(std::max<std::size_t>(3, word.size() / 3 + 1), word.size());
  for (std::string_view c : candidates)
    if (const std::size_t d = edit_distance(word, c); d < distance) best = c, distance = d;
  return std::string(best);
}

void fail_unknown_option(std::string_view command, std::string_view name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const Option& o : kOptions)
    if ((o.commands & bit_of(command)) != 0) names.emplace_back(o.name);
  for (std::string_view general : {"config", "set", "help"}) names.push_back(general);
  const std::string guess = nearest(name, names);
  throw input_error(fmt::format("{} has no option \"{}\"", command, name), where,
                    guess.empty() ? fmt::format("`longhaul {} --help` lists the options", command)
                                  : fmt::format("did you mean \"{}\"?", guess));
}

}  // namespace longhaul::spec
