// Counting floating-point operations.
#include "spec/flops.h"

#include <algorithm>

namespace longhaul::spec {
namespace {

// Sum of min(row + 1, most) over the rows.
double causal_pairs(RowRange rows, double most) {
  const double step = static_cast<double>(rows.step), first = static_cast<double>(rows.first + 1);
  double rising = 0;  // rows with row + 1 <= most
  if (most >= first)
    rising =
        std::min(static_cast<double>(rows.count), static_cast<double>(static_cast<Index>((most - first) / step)) + 1);
  const double level = static_cast<double>(rows.count) - rising;
  return rising * first + step * rising * (rising - 1) / 2 + level * most;
}

struct Attention {
  double layers, width, window_pairs, half;  // pairs of one sequence: as the mask leaves them, and by convention
};

std::vector<Attention> attention_of(const ModelSpec& m, const StepWork& work) {
  const double length = static_cast<double>(work.length), half = length * length / 2;
  if (m.kinds.empty())
    return {{static_cast<double>(m.layers), static_cast<double>(m.q_heads * m.head_dim),
             work.pairs >= 0 ? work.pairs / work.sequences : visible_pairs(m.mask, work.length), half}};
  std::vector<Attention> all;
  for (const LayerKind& k : m.kinds)
    all.push_back({static_cast<double>(k.layers), static_cast<double>(k.query_width),
                   visible_pairs({Order::kCausal, k.window, 0}, work.length), half});
  return all;
}

// Elements of the matrices that multiply every token.
double matrix_elements(const ModelSpec& m) {
  double n = 0;
  for (const Parameter& p : parameters_of(m).rows)
    if (p.is_matrix && (p.id != ParameterId::kEmbedding || m.tied)) n += static_cast<double>(p.count());
  return n + static_cast<double>(m.extra_parameters);
}

}  // namespace

double visible_pairs(const MaskSpec& mask, Index length, RowRange queries) {
  const double all = static_cast<double>(length);
  if (mask.chunk != 0) {
    // Rows of a chunk see its earlier rows: a sum over the rows, as no trained model here has chunks.
    double pairs = 0;
    for (Index i = 0; i < queries.count; ++i) {
      const Index row = queries.first + i * queries.step, begin = row / mask.chunk * mask.chunk;
      const Index end = mask.order == Order::kFull && mask.window == 0 ? std::min(begin + mask.chunk, length) : row + 1;
      pairs += static_cast<double>(mask.window == 0 ? end - begin : std::min(end - begin, mask.window));
    }
    return pairs;
  }
  if (mask.order == Order::kFull && mask.window == 0) return static_cast<double>(queries.count) * all;
  return causal_pairs(queries, mask.window == 0 ? all : static_cast<double>(mask.window));
}

double visible_pairs(const MaskSpec& mask, Index length) {
  return visible_pairs(mask, length, {0, length, 1});
}

StepFlops flops_of_step(const ModelSpec& model, const StepWork& work, const std::vector<LayerPolicy>& policy) {
  CHECK(static_cast<Index>(policy.size()) == model.layers, "%zu policies for %ld layers", policy.size(), model.layers);
  const double tokens = work.sequences * static_cast<double>(work.length), matrices = matrix_elements(model);
  const double input = model.tied ? 0 : static_cast<double>(model.vocabulary * model.hidden);
  const double E = static_cast<double>(model.hidden), F = static_cast<double>(model.ffn);
  const double heads = static_cast<double>((2 * model.q_heads + 2 * model.kv_heads) * model.head_dim);

  double layers_again = 0, mlps_again = 0;
  for (LayerPolicy p : policy) mlps_again += p != LayerPolicy::kKeep, layers_again += p == LayerPolicy::kRecomputeLayer;
  const double again = layers_again / static_cast<double>(model.layers);

  StepFlops f;
  f.conventional = 6 * (static_cast<double>(count_parameters(model)) - input) * tokens;
  f.exact = 6 * matrices * tokens;
  f.hardware = f.exact + 2 * tokens * E * (mlps_again * 2 * F + layers_again * heads);
  for (const Attention& a : attention_of(model, work)) {
    const double forward = 4 * a.layers * a.width * work.sequences;  // a pair: two products
    f.conventional += 3 * forward * a.half;
    f.exact += 3 * forward * a.window_pairs;
    f.hardware_attention += (3.5 + again) * forward * a.window_pairs;
  }
  f.hardware += f.hardware_attention;
  return f;
}

double flops_of_forward(const ModelSpec& model, const StepWork& work) {
  const std::vector<LayerPolicy> keep(static_cast<std::size_t>(model.layers), LayerPolicy::kKeep);
  return flops_of_step(model, work, keep).exact / 3;
}

}  // namespace longhaul::spec
