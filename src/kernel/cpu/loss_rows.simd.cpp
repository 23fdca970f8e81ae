// Softmax of a row of logits: its statistic in one pass over memory, its gradient in another.
#include "kernel/cpu/row_simd.h"

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

constexpr Index kPart = 2048;  // elements that stay in the first-level cache between their maximum and their sum

SoftmaxStatistic statistic(const float* logits, Index vocabulary) {
  SoftmaxStatistic s{logits[0], 0};
  for (Index begin = 0; begin < vocabulary; begin += kPart) {
    const float* z = logits + begin;
    const Index count = vocabulary - begin < kPart ? vocabulary - begin : kPart;
    Floats most = broadcast(s.max), sum{};
    for_lanes(
        count, LONGHAUL_LANES(i, n) {
          // Lanes beyond the end read 0, which is no logit.
          if (n == kLanes)
            most = max(most, load(z + i));
          else
            for (int j = 0; j < n; ++j) most = max(most, broadcast(z[i + j]));
        });
    const float m = max_of(most);
    for_lanes(
        count, LONGHAUL_LANES(i, n) {
          if (n == kLanes) {
            sum += exp(load(z + i) - m);
          } else {
            float rest[kLanes];
            for (int j = 0; j < kLanes; ++j) rest[j] = j < n ? z[i + j] - m : 2 * kExpZero;
            sum += exp(load(rest));
          }
        });
    s.sum = s.sum * static_cast<double>(__builtin_expf(s.max - m)) + static_cast<double>(sum_of(sum));
    s.max = m;
  }
  return s;
}

template <class S>
void gradient(const float* logits, float max, float factor, void* dlogits, Index vocabulary) {
  const float smallest = kExpZero - __builtin_logf(__builtin_fabsf(factor));
  for_lanes(
      vocabulary, LONGHAUL_LANES(i, n) {
        const Floats x = Fp32::get(logits, i, n) - max;
        S::put(dlogits, i, n, exp(select(x < smallest, broadcast(2 * kExpZero), x)) * factor);
      });
}

}  // namespace

const LossRows kLoss = {statistic, {gradient<Fp32>, gradient<Bf16>}};

}  // namespace longhaul::kernel::LONGHAUL_ISA
