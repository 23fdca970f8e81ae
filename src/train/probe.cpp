// Runs one batch forward and backward and writes what came out.
#include "train/probe.h"

#include <algorithm>
#include <cmath>

#include "exec/reduce.h"
#include "kernel/ops.h"
#include "train/inputs.h"
#include "train/setup.h"
#include "train/weights.h"

namespace longhaul::train {
namespace {

using io::FileDType;

std::vector<float> to_float(const AnyView<1>& x) {
  std::vector<float> out(static_cast<std::size_t>(x.extent[0]));
  for (Index i = 0; i < x.extent[0]; ++i)
    out[i] = x.dtype == DType::kF64 ? static_cast<float>(x.as<const double>()(i)) : x.as<const float>()(i);
  return out;
}

// Gathered in the memory of this process, by the row that a token has in its sequence.
struct Logits {
  Index tail, vocabulary, length;
  std::vector<float> values;  // [B, tail, V]

  void take(Index sequence, const Trainer& t, Index first, const AnyView<2>& z) {
    for (Index i = 0; i < z.extent[0]; ++i) {
      const Index at = t.sequence.own_tokens()[first + i].row - (length - tail);
      if (at < 0) continue;
      float* out = values.data() + (sequence * tail + at) * vocabulary;
      for (Index v = 0; v < vocabulary; ++v)
        out[v] = z.dtype == DType::kF64 ? static_cast<float>(z.as<const double>()(i, v)) : z.as<const float>()(i, v);
    }
  }
};

struct Output {
  ProbeResult result;
  std::vector<float> gradients;  // flat, of rank 0
};

void probe_rank(Trainer& t, const Batches& batches, Index batch, bool gradients, Logits& logits, Output& out) {
  const Index first = batch * t.data_index / t.spec.mesh.data, last = batch * (t.data_index + 1) / t.spec.mesh.data;
  double sums[2] = {0, 0};  // loss, valid targets
  for (Index b = first; b < last && t.context_index == 0; ++b) {
    batches.fill(0, b, t.row);
    for (std::int32_t label : t.row.labels) sums[1] += label >= 0;
  }
  exec::sum_over(t.queue, t.world.all(), {&sums[1], 1});
  const double scale = sums[1] > 0 ? 1 / sums[1] : 0;
  if (gradients) t.spec.ops->fill(t.queue, as_3d(t.state.gradient), 0.0);
  for (Index b = first; b < last; ++b) {
    batches.fill(0, b, t.row);
    t.load(t.row);
    sums[0] += t.run_loaded(scale, gradients, [&](Index row, const AnyView<2>& z) { logits.take(b, t, row, z); });
  }
  exec::sum_over(t.queue, t.world.all(), {&sums[0], 1});
  if (gradients)
    exec::sum_over(t.queue, *t.spec.ops, t.world.all(), t.state.gradient,
                   t.activations.bytes(spec::ActivationId::kScratch));
  if (t.rank != 0) return;
  out.result.loss = sums[0] * scale, out.result.tokens = static_cast<Index>(sums[1]);
  if (!gradients) return;
  out.result.grad_norm = global_norm(t.queue, *t.spec.ops, t.state);
  out.gradients = to_float(t.state.gradient);
}

void write_output(const std::string& path, const spec::ParameterTable& table, const Logits& logits, Index batch,
                  bool gradients, const Output& out) {
  std::vector<io::TensorDescription> tensors = {{"logits", FileDType::kF32, {batch, logits.tail, logits.vocabulary}},
                                                {"loss", FileDType::kF64, {}}};
  if (gradients) {
    tensors.push_back({"grad_norm", FileDType::kF64, {}});
    for (const spec::Parameter& p : table.rows) tensors.push_back({"grad." + p.name, FileDType::kF32, shape_of(p)});
  }
  io::SafetensorsWriter writer(path, tensors);
  writer.write("logits", std::span<const float>(logits.values));
  writer.write("loss", std::span<const double>(&out.result.loss, 1));
  if (gradients) {
    writer.write("grad_norm", std::span<const double>(&out.result.grad_norm, 1));
    for (const spec::Parameter& p : table.rows)
      writer.write("grad." + p.name, std::span<const float>(out.gradients).subspan(p.offset, p.count()));
  }
  writer.finish();
}

}  // namespace

ProbeResult probe(const spec::RunSpec& run) {
  const ModelSource source = open_model(run.model);
  const auto weights = open_weights(source);
  const io::BatchFile file(run.tokens_file, source.spec.vocabulary);
  const GivenBatches batches(file);
  const plan::Workload work{file.context(), file.batch(), !run.no_grad, false};
  const TrainSpec spec = make_train_spec(run, source.spec, plan_run(run, source.spec, work));

  Logits logits{run.logits_tail > 0 ? std::min(run.logits_tail, file.context()) : file.context(),
                source.spec.vocabulary,
                file.context(),
                {}};
  logits.values.resize(static_cast<std::size_t>(file.batch() * logits.tail * logits.vocabulary));
  Output out;
  comm::run_local(spec.mesh.ranks(), run.watchdog, [&](comm::World& world) {
    Trainer t(spec, world);
    if (weights)
      load_weights(*weights, t);
    else
      t.initialize(1);
    probe_rank(t, batches, file.batch(), !run.no_grad, logits, out);
  });
  write_output(run.out, spec::parameters_of(source.spec), logits, file.batch(), !run.no_grad, out);
  return out.result;
}

}  // namespace longhaul::train
