// What the row kernels share: storage types, loops over a row with its rest, sums across lanes.
#pragma once

#include "kernel/cpu/rows.h"
#include "kernel/cpu/simd.h"

// A lambda that is inlined into both the loop over whole vectors and the rest, where its `n` is a constant.
#define LONGHAUL_LANES(i, n) [&](Index i, int n) __attribute__((always_inline))

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

typedef double Doubles __attribute__((vector_size(kLanes * 4)));  // half as many lanes

struct Fp32 {
  LONGHAUL_INLINE Floats get(const void* row, Index i, int n) {
    const float* p = static_cast<const float*>(row) + i;
    return n == kLanes ? load(p) : load(p, n);
  }
  LONGHAUL_INLINE void put(void* row, Index i, int n, Floats x) {
    float* p = static_cast<float*>(row) + i;
    n == kLanes ? store(p, x) : store(p, x, n);
  }
};

struct Bf16 {
  LONGHAUL_INLINE Floats get(const void* row, Index i, int n) {
    const std::uint16_t* p = static_cast<const std::uint16_t*>(row) + i;
    return n == kLanes ? load_bf16(p) : load_bf16(p, n);
  }
  LONGHAUL_INLINE void put(void* row, Index i, int n, Floats x) {
    std::uint16_t* p = static_cast<std::uint16_t*>(row) + i;
    n == kLanes ? store_bf16(p, x) : store_bf16(p, x, n);
  }
};

// f(i, n) for the vectors of `count` elements: n is kLanes, but less for the rest.
template <class F>
LONGHAUL_INLINE void for_lanes(Index count, F f) {
  Index i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, kLanes);
  if (i < count) f(i, static_cast<int>(count - i));
}

// Halves are added until one is left.
LONGHAUL_INLINE float sum_of(Floats x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

LONGHAUL_INLINE double sum_of(Doubles x) {
  double sum = 0;
  for (int i = 0; i < kLanes / 2; ++i) sum += x[i];
  return sum;
}

struct DoublePair {
  Doubles low, high;
};
LONGHAUL_INLINE DoublePair widen(Floats x) {
#if defined(__AVX512F__)
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
#elif defined(__AVX2__)
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
#else
  return {Doubles{x[0], x[1]}, Doubles{x[2], x[3]}};
#endif
}

LONGHAUL_INLINE float max_of(Floats x) {
  float lanes[kLanes];
  store(lanes, x);
  float most = lanes[0];
  for (int i = 1; i < kLanes; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

LONGHAUL_INLINE Floats sqrt(Floats x) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

}  // namespace
}  // namespace longhaul::kernel::LONGHAUL_ISA
