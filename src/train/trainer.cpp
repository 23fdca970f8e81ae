// Sets a rank up and runs single rows on it.
#include "train/trainer.h"

#include "base/hash.h"
#include "base/random.h"
#include "exec/reduce.h"

namespace longhaul::train {
namespace {

using spec::ActivationId;

ContextSpec context_of(const TrainSpec& spec, int rank) {
  ContextSpec c;
  c.strategy = spec.strategy, c.layout = spec.layout;
  c.rank = spec.mesh.context_index(rank), c.ranks = spec.mesh.context, c.ulysses = spec.mesh.ulysses;
  c.shapes = shapes_of(spec.model, spec.storage);
  c.mask = spec.model.mask;
  return c;
}

}  // namespace

strategy::Shapes shapes_of(const spec::ModelSpec& model, DType storage) {
  strategy::Shapes s;
  s.q_heads = static_cast<int>(model.q_heads), s.kv_heads = static_cast<int>(model.kv_heads);
  s.d_qk = s.d_v = static_cast<int>(model.head_dim);
  s.element_bytes = static_cast<int>(size_of(storage));
  s.partial_bytes = static_cast<int>(size_of(accumulator_of(storage)));
  return s;
}

Index state_bytes(const TrainSpec& spec) {
  const Index n = spec::parameters_of(spec.model).total, a = size_of(accumulator_of(spec.storage));
  const bool casts = spec.storage != accumulator_of(spec.storage);
  return Arena::align_up(n * a) * (spec.trains ? 4 : 1) + (casts ? Arena::align_up(n * size_of(spec.storage)) : 0);
}

Trainer::Trainer(const TrainSpec& s, comm::World& w)
    : spec(s),
      world(w),
      context(w.split(s.mesh.data_index(w.rank()))),
      queue(s.threads),
      table(spec::parameters_of(s.model)),
      state_memory(state_bytes(s)),
      activation_memory(s.activation_bytes),
      inverse_frequency(spec::inverse_frequencies(s.model.rope, s.model.head_dim)),
      activations(s.activations, activation_memory.at(0, s.activation_bytes), static_cast<int>(s.model.layers)),
      model{s.model, table, {}, {}, activations, s.policy, inverse_frequency, queue, *s.ops},
      sequence(context_of(s, w.rank())),
      row(s.length),
      tokens(s.length),
      rank(w.rank()),
      data_index(s.mesh.data_index(w.rank())),
      context_index(s.mesh.context_index(w.rank())) {
  const DType accumulator = accumulator_of(s.storage);
  Index offset = 0;
  const auto take = [&](DType type) {
    const Bytes b = state_memory.at(offset, table.total * size_of(type));
    offset = Arena::align_up(offset + b.size);
    return make_view<1>(b.data, type, {table.total});
  };
  state.master = take(accumulator);
  if (s.trains) state.gradient = take(accumulator), state.m = take(accumulator), state.v = take(accumulator);
  if (s.storage != accumulator) state.weights = take(s.storage);
  for (const AnyView<1>& x : {state.m, state.v})
    if (x) s.ops->fill(queue, as_3d(x), 0.0);
  model.weights = state.weights ? state.weights : state.master;
}

void Trainer::load(const Row& r) {
  tokens.resize(r.tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = {static_cast<Index>(i), r.positions[i], r.documents[i]};
  sequence.rebuild(tokens);

  // Ranks that read different data, or disagree about the schedule, would train on nonsense in silence.
  const std::uint64_t batch =
      hash64_of(std::span<const std::int32_t>(r.tokens), hash64_of(std::span<const std::int32_t>(r.labels)));
  exec::check_equal(queue, *context, batch, "the batch");
  exec::check_equal(queue, *context, sequence.hash(), "the schedule");

  const Index rows = sequence.rows();
  const auto own = [&](const std::vector<std::int32_t>& values, ActivationId id) {
    take_own_rows(sequence.layout(), sequence.spec().rank, std::span<const std::int32_t>(values),
                  activations.vector(id, rows).as<std::int32_t>().data);
  };
  own(r.tokens, ActivationId::kTokens);
  own(r.labels, ActivationId::kLabels);
}

double Trainer::run_loaded(double scale, bool with_gradients, const model::LogitsVisitor& visit) {
  const exec::AttentionContext attention{queue,
                                         *spec.ops,
                                         *spec.attention,
                                         *context,
                                         sequence.schedule(),
                                         sequence.layout(),
                                         sequence.tokens(),
                                         sequence.spec().shapes,
                                         activations.bytes(ActivationId::kSlots),
                                         activations.bytes(ActivationId::kScratch)};
  model.gradients = with_gradients ? state.gradient : AnyView<1>{};
  return model::run(model, {sequence.rows(), sequence.own_tokens(), attention}, scale, visit);
}

void Trainer::refresh_weights() {
  if (state.weights) spec.ops->copy(queue, as_3d(state.master), as_3d(state.weights));
}

void Trainer::initialize(std::uint64_t seed) {
  for (std::size_t p = 0; p < table.rows.size(); ++p) {
    const spec::Parameter& parameter = table.rows[p];
    const AnyView<1> w = state.master.slice(0, parameter.offset, parameter.count());
    parallel_for(queue.team(), parameter.count(), [&](Index i, int) {
      const double x =
          parameter.is_matrix ? spec.model.init_std * random_normal(seed, p, static_cast<std::uint64_t>(i)) : 1.0;
      if (w.dtype == DType::kF64)
        static_cast<double*>(w.data)[i] = x;
      else
        static_cast<float*>(w.data)[i] = static_cast<float>(x);
    });
  }
  refresh_weights();
}

}  // namespace longhaul::train
