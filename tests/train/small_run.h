// A small model and batch that train and model tests share: made by hand, without a plan, so that shapes can be odd.
#pragma once

#include <functional>
#include <vector>

#include "base/random.h"
#include "kernel/ops.h"
#include "train/step.h"
#include "train/trainer.h"

namespace longhaul::test {

struct SmallRun {
  Index hidden = 24, layers = 2, q_heads = 4, kv_heads = 2, head_dim = 6, ffn = 20, vocabulary = 37;
  bool tied = false;
  MaskSpec mask;
  Index length = 23, batch = 2;
  int documents = 1;  // a row; more than one packs it, with padding at the end
  int data = 1, context = 1, ulysses = 1;
  const char* strategy = "single";
  strategy::LayoutKind layout = strategy::LayoutKind::kContiguous;
  DType storage = DType::kF32;
  int threads = 1;
  spec::LayerPolicy policy = spec::LayerPolicy::kKeep;
  Index mlp_chunk = 7, loss_chunk = 5;
  const Ops* ops = &kernel::reference_ops();
  const char* attention = "ref";
};

// Each buffer in its own place: what a plan may share stays apart, so a wrong lifetime cannot hide here.
inline train::TrainSpec make_spec(const SmallRun& r) {
  train::TrainSpec s;
  s.model.name = "small", s.model.family = "llama";
  s.model.hidden = r.hidden, s.model.layers = r.layers, s.model.q_heads = r.q_heads, s.model.kv_heads = r.kv_heads;
  s.model.head_dim = r.head_dim, s.model.ffn = r.ffn, s.model.vocabulary = r.vocabulary, s.model.tied = r.tied;
  s.model.init_std = 0.2, s.model.mask = r.mask, s.model.max_context = 4096;
  s.storage = r.storage;
  s.mesh.data = r.data, s.mesh.context = r.context, s.mesh.ulysses = r.ulysses;
  s.strategy = strategy::find_strategy(r.strategy), s.layout = r.layout;
  s.length = r.length, s.batch = r.batch, s.threads = r.threads;
  s.optimizer.lr = 1e-2, s.optimizer.schedule = train::LrSchedule::kConstant;
  s.policy.assign(r.layers, r.policy);
  s.ops = r.ops;

  spec::LocalSizes sizes;
  sizes.rows = (r.length + r.context - 1) / r.context + 2;
  sizes.mlp_chunk = r.mlp_chunk, sizes.loss_chunk = r.loss_chunk, sizes.storage = r.storage;
  sizes.slot_bytes = 8 << 20, sizes.scratch_bytes = 8 << 20;
  AttentionShape shape{r.storage, sizes.rows, sizes.rows, r.q_heads, r.kv_heads, r.head_dim, r.head_dim};
  s.attention = choose_attention(*r.ops, r.attention, shape, {r.mask, 1.0, 0.0});
  s.activations = spec::activations_of(s.model, sizes, s.policy);
  for (spec::Buffer& b : s.activations) {
    b.offset = s.activation_bytes;
    s.activation_bytes += Arena::align_up(b.bytes());
  }
  return s;
}

// Random tokens; documents of uneven length, the last of them padding when there are several.
class RandomBatches final : public train::Batches {
 public:
  explicit RandomBatches(const SmallRun& r) : run_(r) {}
  void fill(Index step, Index b, train::Row& row) const override {
    const auto bits = [&](Index i) {
      return random_bits(7, static_cast<std::uint64_t>(step * 1000 + b), static_cast<std::uint64_t>(i));
    };
    const Index n = static_cast<Index>(row.tokens.size());
    Index start = 0;
    int document = 1;
    for (Index i = 0; i < n; ++i) {
      if (run_.documents > 1 && i > start && document < run_.documents && bits(i + 5000) % 5 == 0)
        ++document, start = i;
      const bool padding = run_.documents > 1 && n > 4 && i >= n - 2;
      row.tokens[i] = static_cast<std::int32_t>(bits(i) % static_cast<std::uint64_t>(run_.vocabulary));
      row.documents[i] = padding ? 0 : document;
      row.positions[i] = static_cast<std::int32_t>(padding ? 0 : i - start);
    }
    for (Index i = 0; i < n; ++i) {
      const bool last = i + 1 == n || row.documents[i + 1] != row.documents[i] || row.documents[i] == 0;
      row.labels[i] = last ? -100 : row.tokens[i + 1];
    }
  }

 private:
  SmallRun run_;
};

// Runs body(trainer) on every rank of the run's mesh, weights initialised.
inline void on_ranks(const SmallRun& r, const std::function<void(train::Trainer&)>& body) {
  const train::TrainSpec spec = make_spec(r);
  comm::run_local(r.data * r.context, 60, [&](comm::World& world) {
    train::Trainer trainer(spec, world);
    trainer.initialize(3);
    body(trainer);
  });
}

inline std::vector<double> values_of(const AnyView<1>& x) {
  std::vector<double> out(static_cast<std::size_t>(x.extent[0]));
  for (Index i = 0; i < x.extent[0]; ++i)
    out[i] = x.dtype == DType::kF64 ? x.as<const double>()(i) : x.as<const float>()(i);
  return out;
}

}  // namespace longhaul::test
