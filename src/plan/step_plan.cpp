// Makes a StepPlan, in the order: mesh, strategy, sizes, what is kept, where it lies, what it costs.
#include "plan/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/size.h"
#include "plan/memory.h"
#include "plan/products.h"

namespace longhaul::plan {
namespace {

using spec::LayerPolicy;

constexpr Index kMlpChunk = 1024, kLossChunk = 512;  // rows: enough for the products, few for the memory
constexpr Index kMostLogits = Index{256} << 20;      // bytes of a loss chunk
constexpr Index kFewestLossRows = 64;

Index ceil_divide(Index a, Index b) {
  return (a + b - 1) / b;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : r_(request), run_(request.run), local_(request.model) {}

  StepPlan run() {
    CHECK(r_.work.length > 0 && r_.work.batch > 0, "length %ld, batch %ld", r_.work.length, r_.work.batch);
    p_.length = r_.work.length, p_.batch = r_.work.batch;
    p_.storage = storage_for(run_.dtype, r_.machine);
    p_.parameters = spec::count_parameters(r_.model);
    choose_mesh();
    choose_strategy_and_kernel();
    choose_sizes();
    count_state();
    choose_policy();
    count_memory();
    predict_time();
    return std::move(p_);
  }

 private:
  void choose_mesh() {
    const auto degree = [](Index n) { return static_cast<int>(n); };
    p_.mesh = strategy::make_mesh({.ranks = degree(run_.ranks),
                                   .data = degree(run_.data_parallel),
                                   .fsdp = degree(run_.fsdp),
                                   .context = degree(run_.context_parallel),
                                   .tensor = degree(run_.tensor_parallel),
                                   .ulysses = degree(run_.ulysses),
                                   .all_on_context = run_.strategy != "single"});
    if (run_.expert_parallel > 1)
      throw input_error(fmt::format("expert degree {} for a model without experts", run_.expert_parallel),
                        "--expert-parallel", "leave --expert-parallel out");
    p_.threads = run_.threads > 0 ? static_cast<int>(run_.threads) : std::max(1, r_.machine.cores / p_.mesh.ranks());
    p_.cannot_run = r_.model.cannot_run;
    if (p_.cannot_run.empty() && p_.mesh.fsdp > 1)
      p_.cannot_run = "sharding parameters over ranks (--fsdp) is planned for, not run yet";
    if (p_.cannot_run.empty() && p_.mesh.tensor > 1)
      p_.cannot_run = "sharding matrices over ranks (--tensor-parallel) is planned for, not run yet";
    const Index t = p_.mesh.tensor;
    local_.q_heads = ceil_divide(local_.q_heads, t), local_.kv_heads = ceil_divide(local_.kv_heads, t);
    local_.q_heads = ceil_divide(local_.q_heads, local_.kv_heads) * local_.kv_heads;
    local_.ffn = ceil_divide(local_.ffn, t), local_.vocabulary = ceil_divide(local_.vocabulary, t);
  }

  void choose_strategy_and_kernel() {
    ChoiceRequest c;
    c.ranks = p_.mesh.context, c.ulysses = static_cast<int>(run_.ulysses);
    c.strategy = run_.strategy, c.layout = run_.layout;
    c.shapes.q_heads = static_cast<int>(local_.q_heads), c.shapes.kv_heads = static_cast<int>(local_.kv_heads);
    c.shapes.d_qk = c.shapes.d_v = static_cast<int>(local_.head_dim);
    c.shapes.element_bytes = static_cast<int>(size_of(p_.storage));
    c.shapes.partial_bytes = static_cast<int>(size_of(accumulator_of(p_.storage)));
    c.mask = local_.mask, c.length = p_.length;
    c.rates = {rank_flops(), r_.machine.bytes_per_second};
    p_.choice = choose_strategy(c);
    p_.mesh.ulysses = p_.choice.ulysses;

    const strategy::Layout layout = this->layout();
    Index chunk = 0;
    for (int rank = 0; rank < layout.ranks; ++rank)
      for (int i = 0; i < layout.chunks(); ++i) chunk = std::max(chunk, layout.chunk(rank, i).count);
    shape_ = {p_.storage, chunk, chunk, local_.q_heads, local_.kv_heads, local_.head_dim, local_.head_dim};
    const AttentionParams params{local_.mask, 1 / std::sqrt(static_cast<double>(local_.head_dim)), 0};
    p_.attention = choose_attention(r_.ops, run_.kernel, shape_, params);
    if (p_.attention == nullptr) fail_kernel(params);
  }

  [[noreturn]] void fail_kernel(const AttentionParams& params) const {
    std::string names;
    for (const AttentionVariant& v : r_.ops.attention) {
      if (run_.kernel == v.name)
        throw input_error(fmt::format("attention kernel {} refuses: {}", v.name, v.refuses(shape_, params)), "--kernel",
                          "leave --kernel out, and the best that takes the problem is used");
      names += fmt::format("{}{}", names.empty() ? "" : ", ", v.name);
    }
    throw input_error(fmt::format("there is no attention kernel \"{}\"", run_.kernel), "--kernel",
                      fmt::format("this build has {}", names));
  }

  strategy::Layout layout() const { return {p_.choice.layout, p_.length, p_.mesh.context}; }
  // Ranks and threads beyond the cores share them.
  double rank_flops() const {
    const double cores = static_cast<double>(r_.machine.cores) / p_.mesh.ranks();
    return r_.machine.flops_per_core *
           std::min(static_cast<double>(p_.threads), std::max(cores, 1.0 / p_.mesh.ranks()));
  }

  void choose_sizes() {
    spec::LocalSizes& s = p_.sizes;
    s.rows = layout().max_rows(), s.storage = p_.storage, s.gradients = r_.work.trains;
    s.mlp_chunk = std::min(s.rows, kMlpChunk);
    const Index fitting = kMostLogits / (local_.vocabulary * size_of(accumulator_of(s.storage)));
    s.loss_chunk = std::min(s.rows, std::clamp(fitting, kFewestLossRows, kLossChunk));
    s.slot_bytes = p_.choice.slot_bytes;

    const std::vector<LayerPolicy> all_again(static_cast<std::size_t>(local_.layers), LayerPolicy::kRecomputeLayer);
    Index scratch = p_.attention->scratch_bytes(shape_, p_.threads);
    for (const ProductUse& use : products_of(local_, s, all_again))
      scratch = std::max(scratch, r_.ops.matmul_scratch(use.shape, p_.threads));
    if (s.gradients) {
      scratch = std::max(scratch, r_.ops.rms_norm_backward_scratch(s.rows, local_.hidden, s.storage, p_.threads));
      if (r_.sum_scratch_bytes != nullptr)
        scratch =
            std::max(scratch, r_.sum_scratch_bytes(local_parameters(), accumulator_of(s.storage), p_.mesh.ranks()));
    }
    s.scratch_bytes = scratch;
  }

  Index local_parameters() const { return ceil_divide(spec::count_parameters(local_), p_.mesh.fsdp); }

  void count_state() {
    const Index n = local_parameters(), wide = align_up(n * size_of(accumulator_of(p_.storage)));
    const bool casts = p_.storage != accumulator_of(p_.storage);
    row(casts ? "master parameters" : "parameters", wide, name_of(accumulator_of(p_.storage)));
    if (casts) row("parameters", align_up(n * size_of(p_.storage)), name_of(p_.storage));
    if (p_.mesh.fsdp > 1) {
      // Two layers at a time, or the output matrix: gathered by one, used of the other.
      const spec::ParameterTable table = spec::parameters_of(local_);
      Index layer = 0;
      for (const spec::Parameter& q : table.rows) layer += q.layer == 0 ? q.count() : 0;
      const Index unit = std::max(layer, local_.vocabulary * local_.hidden);
      row("gathered parameters", align_up(2 * unit * size_of(p_.storage)), "of two layers, or the output matrix");
      if (r_.work.trains)
        row("gradients before they are summed", align_up(unit * size_of(accumulator_of(p_.storage))), "of one layer");
    }
    if (r_.work.trains) {
      row("gradients", wide, name_of(accumulator_of(p_.storage)));
      row("optimizer state", 2 * wide, "two moments");
    }
    for (const MemoryRow& m : p_.memory) p_.state_bytes += m.bytes;

    // Of a row: tokens, labels, documents, positions; and a Token twice, in row order and by rank.
    const Index lists = p_.length * static_cast<Index>(4 * sizeof(std::int32_t) + 2 * sizeof(Token));
    const Index snapshot = r_.work.trains && r_.work.saves ? 3 * wide : 0;
    p_.outside_bytes = lists + snapshot;
    p_.budget_bytes = run_.memory > 0 ? run_.memory : r_.machine.memory / p_.mesh.ranks();
  }

  // Levels of giving up, in order: level k < L makes the MLP of the first k layers again, level L + k the whole of the
  // first k layers and the MLP of the rest.
  std::vector<LayerPolicy> policy_at(Index level) const {
    const Index layers = local_.layers;
    std::vector<LayerPolicy> policy(static_cast<std::size_t>(layers),
                                    level >= layers ? LayerPolicy::kRecomputeMlp : LayerPolicy::kKeep);
    std::fill_n(policy.begin(), level >= layers ? level - layers : level,
                level >= layers ? LayerPolicy::kRecomputeLayer : LayerPolicy::kRecomputeMlp);
    return policy;
  }
  // Places the table of a level; its peak in all.
  Index try_level(Index level) {
    p_.policy = policy_at(level);
    p_.activations = spec::activations_of(local_, p_.sizes, p_.policy);
    p_.activation_bytes = place(p_.activations);
    p_.peak_bytes = p_.state_bytes + p_.activation_bytes + p_.outside_bytes;
    return p_.peak_bytes;
  }

  // The lowest level that fits the budget; when none does, the smallest.
  void choose_policy() {
    const Index highest = 2 * local_.layers;
    const bool free = p_.budget_bytes == 0;
    if (!r_.work.trains) {
      try_level(highest);  // losses alone keep nothing for a backward pass: the shared buffers serve
    } else if (try_level(0) > p_.budget_bytes && !free && try_level(highest) <= p_.budget_bytes) {
      Index fails = 0, works = highest;
      while (works - fails > 1) {
        const Index middle = (fails + works) / 2;
        (try_level(middle) <= p_.budget_bytes ? works : fails) = middle;
      }
      try_level(works);
    }
    p_.fits = p_.budget_bytes == 0 || p_.peak_bytes <= p_.budget_bytes;
  }

  // What lives in the phase with the most bytes, by kind; then the parts of the arena that are free in it.
  void count_memory() {
    const spec::Phases phases{static_cast<int>(local_.layers)};
    int fullest = 0;
    Index most = -1;
    for (int phase = 0; phase < phases.count(); ++phase) {
      Index live = 0;
      for (const spec::Buffer& b : p_.activations) live += lives(b, phase) ? align_up(b.bytes()) : 0;
      if (live > most) most = live, fullest = phase;
    }
    Index inputs = 0, kept = 0, slots = 0, scratch = 0, working = 0;
    for (const spec::Buffer& b : p_.activations) {
      if (!lives(b, fullest)) continue;
      Index& kind = b.id == spec::ActivationId::kX         ? inputs
                    : b.layer >= 0                         ? kept
                    : b.id == spec::ActivationId::kSlots   ? slots
                    : b.id == spec::ActivationId::kScratch ? scratch
                                                           : working;
      kind += align_up(b.bytes());
    }
    row("inputs of layers", inputs, fmt::format("{} rows of {}", p_.sizes.rows, local_.hidden));
    row("kept for the backward pass", kept, policy_text());
    row("working buffers", working, fmt::format("MLP by {} rows, loss by {}", p_.sizes.mlp_chunk, p_.sizes.loss_chunk));
    row("buffers of the attention schedule", slots, fmt::format("{}, any documents", p_.choice.strategy->name));
    row("scratch of kernels", scratch, "the largest that any states");
    row("free between buffers", p_.activation_bytes - most, "");
    row("outside the arena", p_.outside_bytes,
        r_.work.trains && r_.work.saves ? "token lists, snapshot of a checkpoint" : "token lists");
  }
  static bool lives(const spec::Buffer& b, int phase) { return b.life.first <= phase && phase <= b.life.last; }

  std::string policy_text() const {
    Index mlps = 0, layers = 0;
    for (LayerPolicy q : p_.policy)
      mlps += q == LayerPolicy::kRecomputeMlp, layers += q == LayerPolicy::kRecomputeLayer;
    if (!r_.work.trains) return "there is none";
    if (mlps + layers == 0) return "all layers keep everything";
    return fmt::format("of {} layers, {} make their MLP again and {} everything", local_.layers, mlps, layers);
  }

  void row(std::string name, Index bytes, std::string note) {
    if (bytes > 0) p_.memory.push_back({std::move(name), bytes, std::move(note)});
  }

  void predict_time() {
    const strategy::Mesh& m = p_.mesh;
    const bool trains = r_.work.trains;
    p_.flops = spec::flops_of_step(r_.model, {static_cast<double>(p_.batch), p_.length, -1}, p_.policy);
    p_.rates_from = r_.machine.rates_from;

    const spec::StepFlops one = spec::flops_of_step(r_.model, {1, p_.length, -1}, p_.policy);
    const double forward = spec::flops_of_forward(r_.model, {1, p_.length, -1});
    // A losses-only plan has the policy of making all again: 4.5 forward passes of attention.
    const double attention = trains ? one.hardware_attention : one.hardware_attention / 4.5;
    const double matrices = trains ? one.hardware - one.hardware_attention : forward - attention;
    // The busiest rank: of attention its pairs, of the rest its rows.
    const double rows = static_cast<double>(p_.sizes.rows) / static_cast<double>(p_.length);
    const double flops = (matrices * rows + attention * p_.choice.balance / m.context) / m.tensor;
    const double sent = static_cast<double>(local_.layers) * static_cast<double>(p_.choice.bytes);
    const Index sequences = ceil_divide(p_.batch, static_cast<Index>(m.data) * m.fsdp);
    const double ranks = m.ranks(), gradients = trains ? static_cast<double>(local_parameters()) * 4 : 0;
    p_.seconds = static_cast<double>(sequences) * (flops / rank_flops() + sent / r_.machine.bytes_per_second) +
                 2 * (ranks - 1) / ranks * gradients / r_.machine.bytes_per_second;
  }

  const PlanRequest& r_;
  const spec::RunSpec& run_;
  spec::ModelSpec local_;  // the part of one tensor rank
  AttentionShape shape_;
  StepPlan p_;
};

}  // namespace

DType storage_for(std::string_view dtype, const Machine& machine) {
  if (dtype == "fp32") return DType::kF32;
  if (dtype == "bf16") return DType::kBF16;
  if (dtype == "fp64") return DType::kF64;
  CHECK(dtype == "auto", "dtype %.*s", static_cast<int>(dtype.size()), dtype.data());
  return machine.multiplies_bf16 ? DType::kBF16 : DType::kF32;
}

StepPlan make_plan(const PlanRequest& request) {
  return Planner(request).run();
}

void require_runnable(const StepPlan& plan) {
  if (!plan.cannot_run.empty()) throw input_error(plan.cannot_run, "plan", "choose another model or mesh");
  if (!plan.fits)
    throw input_error(fmt::format("a rank needs at least {} and has {}", format_bytes(plan.peak_bytes),
                                  format_bytes(plan.budget_bytes)),
                      "--memory", "give more --memory, more ranks that share a sequence, or a shorter --context");
}

}  // namespace longhaul::plan
