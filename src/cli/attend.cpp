// The attend command: one attention, forward and backward, over ranks of this process.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "kernel/ops.h"
#include "strategy/mesh.h"
#include "train/attention_file.h"

namespace longhaul::cli {
namespace {

using train::AttentionCase;
using train::AttentionSetup;

constexpr int kMostRanks = 512;  // threads of one process; each reads the tiles of all pairs of ranks

constexpr const char* kCommandLine = "on the command line";

DType storage_of(const std::string& dtype) {
  if (dtype == "bf16") return DType::kBF16;
  if (dtype == "fp64") return DType::kF64;
  return dtype == "auto" && kernel::multiplies_bf16() ? DType::kBF16 : DType::kF32;
}

// The whole mesh is the context group here.
int degree_of(const spec::RunSpec& spec) {
  const auto given = [](Index n) { return static_cast<int>(n); };
  const strategy::Mesh mesh =
      strategy::make_mesh({given(spec.ranks), given(spec.data_parallel), given(spec.fsdp), given(spec.context_parallel),
                           given(spec.tensor_parallel), given(spec.ulysses), true});
  if (mesh.context != mesh.ranks() || spec.expert_parallel > 1)
    throw input_error(fmt::format("{} of {} ranks would share the sequence", mesh.context, mesh.ranks()), kCommandLine,
                      "attend has one sequence and no layers: leave the degrees of the other axes out");
  if (mesh.context > kMostRanks)
    throw input_error(fmt::format("{} ranks as threads of one process", mesh.context), kCommandLine,
                      fmt::format("attend runs up to {} ranks", kMostRanks));
  return mesh.context;
}

void choose_partition(const spec::RunSpec& spec, const AttentionCase& c, AttentionSetup& setup) {
  const int given = static_cast<int>(spec.ulysses);
  setup.strategy = train::choose_strategy(spec.strategy, c, setup.ranks, given);
  CHECK(setup.strategy, "strategy %s is not in the table", spec.strategy.c_str());
  const std::string_view name = setup.strategy->name;
  if (name == "single" && setup.ranks > 1)
    throw input_error(fmt::format("strategy single on {} ranks", setup.ranks), kCommandLine,
                      "leave --ranks out, or choose all_gather, ring, ulysses or usp");
  if (name == "usp")
    setup.ulysses = given > 0 ? given : train::choose_ulysses(c, setup.ranks);
  else if (given > 1 && !(name == "ulysses" && given == setup.ranks))
    throw input_error(fmt::format("--ulysses {} with strategy {}", given, name), kCommandLine,
                      "--ulysses is the inner degree of strategy usp");
  setup.layout = spec.layout == "contiguous" ? strategy::LayoutKind::kContiguous
                 : spec.layout == "zigzag"   ? strategy::LayoutKind::kZigzag
                 : spec.layout == "striped"  ? strategy::LayoutKind::kStriped
                                             : train::choose_layout(name, c.params.mask);
}

void choose_kernel(const std::string& wanted, const AttentionCase& c, AttentionSetup& setup) {
  const AttentionShape shape = train::largest_shape(c, setup);
  setup.variant = choose_attention(*setup.ops, wanted, shape, c.params);
  if (setup.variant) return;
  std::string names;
  for (const AttentionVariant& v : setup.ops->attention) {
    if (wanted == v.name)
      throw input_error(fmt::format("kernel {} does not take this: {}", v.name, v.refuses(shape, c.params)),
                        kCommandLine, "--kernel auto takes the best that does");
    names += fmt::format("{}{}", names.empty() ? "" : ", ", v.name);
  }
  throw input_error(fmt::format("there is no kernel \"{}\"", wanted), kCommandLine,
                    fmt::format("auto, or one of {}", names));
}

const char* name_of(strategy::LayoutKind kind) {
  constexpr const char* kNames[] = {"contiguous", "zigzag", "striped"};
  return kNames[static_cast<int>(kind)];
}

void print(const AttentionCase& c, const AttentionSetup& s, const train::AttentionResult& result, bool json) {
  const auto sum = [](const std::vector<Index>& v) { return std::accumulate(v.begin(), v.end(), Index{0}); };
  const double seconds = *std::max_element(result.seconds.begin(), result.seconds.end());
  if (json) {
    const nlohmann::ordered_json j{{"tokens", c.rows},
                                   {"ranks", s.ranks},
                                   {"strategy", s.strategy->name},
                                   {"ulysses", s.ulysses},
                                   {"layout", name_of(s.layout)},
                                   {"dtype", name_of(s.storage)},
                                   {"kernel", s.variant->name},
                                   {"threads", s.threads},
                                   {"seconds", seconds},
                                   {"forward_bytes", result.forward_bytes},
                                   {"backward_bytes", result.backward_bytes}};
    fmt::print("{}\n", j.dump(2));
    return;
  }
  fmt::print("{} tokens on {} {}: {}{}, {}, {}, kernel {}; {} + {} bytes sent forward + backward; {:.3g} s\n", c.rows,
             s.ranks, s.ranks == 1 ? "rank" : "ranks", s.strategy->name,
             s.ulysses > 1 ? fmt::format(" (ulysses {})", s.ulysses) : "", name_of(s.layout), name_of(s.storage),
             s.variant->name, sum(result.forward_bytes), sum(result.backward_bytes), seconds);
}

}  // namespace

int run_attend(const spec::RunSpec& spec) {
  if (spec.in.empty() || spec.out.empty())
    throw input_error(spec.in.empty() ? "--in is missing" : "--out is missing", kCommandLine,
                      "longhaul attend --in CASE.safetensors --out OUT.safetensors");
  AttentionSetup setup;
  setup.ranks = degree_of(spec);
  setup.storage = storage_of(spec.dtype), setup.watchdog_seconds = spec.watchdog;
  setup.ops = &kernel::cpu_ops();
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  setup.threads = spec.threads > 0 ? static_cast<int>(spec.threads) : std::max(1, cores / setup.ranks);
  const AttentionCase c = train::read_attention_case(spec.in, !spec.no_grad);
  choose_partition(spec, c, setup);
  choose_kernel(spec.kernel, c, setup);
  train::AttentionResultFile out(spec.out, c);
  const train::AttentionResult result = train::run_attention(c, setup);
  out.write(result);
  print(c, setup, result, spec.json);
  return 0;
}

}  // namespace longhaul::cli
