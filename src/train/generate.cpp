// Samples token by token.
#include "train/generate.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "exec/reduce.h"

namespace longhaul::train {
namespace {

// A token drawn from softmax(logits / temperature) with one uniform number.
std::int32_t draw(std::span<const double> logits, double temperature, double uniform) {
  const auto top = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(top - logits.begin());
  double sum = 0;
  for (double z : logits) sum += std::exp((z - *top) / temperature);
  double left = uniform * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= std::exp((logits[i] - *top) / temperature);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(top - logits.begin());
}

}  // namespace

std::vector<std::int32_t> generate(Trainer& t, std::span<const std::int32_t> prompt, const Sampling& sampling,
                                   const std::function<void(std::int32_t)>& on_token) {
  CHECK(!prompt.empty() && static_cast<Index>(prompt.size()) + sampling.length <= t.spec.length,
        "%zu tokens and %ld more in %ld rows", prompt.size(), sampling.length, t.spec.length);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  std::vector<double> logits(static_cast<std::size_t>(t.spec.model.vocabulary));
  for (Index n = 0; n < sampling.length; ++n) {
    Row row(static_cast<Index>(tokens.size()));
    row.tokens = tokens;
    std::fill(row.labels.begin(), row.labels.end(), -100);
    std::fill(row.documents.begin(), row.documents.end(), 1);
    for (std::size_t i = 0; i < tokens.size(); ++i) row.positions[i] = static_cast<std::int32_t>(i);
    t.load(row);

    // The rank that holds the last row draws; the others learn the token as a sum with zeros.
    double next = 0;
    t.run_loaded(0, false, [&](Index first, const AnyView<2>& z) {
      for (Index i = 0; i < z.extent[0]; ++i) {
        if (t.sequence.own_tokens()[first + i].row + 1 != static_cast<Index>(tokens.size())) continue;
        for (Index v = 0; v < z.extent[1]; ++v)
          logits[v] = z.dtype == DType::kF64 ? z.as<const double>()(i, v) : z.as<const float>()(i, v);
        next = draw(logits, sampling.temperature,
                    random_uniform(sampling.seed, 77, static_cast<std::uint64_t>(tokens.size())));
      }
    });
    exec::sum_over(t.queue, *t.context, {&next, 1});
    tokens.push_back(static_cast<std::int32_t>(next));
    if (on_token) on_token(tokens.back());
  }
  return tokens;
}

}  // namespace longhaul::train
