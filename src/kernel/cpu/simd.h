// SIMD vocabulary of the kernels that are compiled once an instruction set (*.simd.cpp): vectors of floats, the loads
// and roundings of bf16, exp and tanh.
//
// A *.simd.cpp file defines its entry points in namespace longhaul::kernel::LONGHAUL_ISA, and all else with internal
// linkage (as here), so that the linker cannot pick code of another instruction set. It includes no header whose inline
// functions it calls, but this one: no standard containers or algorithms, no views.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef LONGHAUL_ISA
#error "simd.h is for sources that longhaul_isa_sources() compiles"
#endif

#define LONGHAUL_INLINE [[gnu::always_inline, maybe_unused]] static inline

namespace longhaul::kernel::LONGHAUL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;  // SSE2, or whatever the compiler makes of four floats
#endif

// GCC's vector extension: + - * / and comparisons work lane by lane; a comparison gives Ints, all bits set where true.
typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t Words __attribute__((vector_size(kLanes * 4)));  // bits that may wrap around
typedef float FloatsInMemory __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef std::int32_t IntsInMemory __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef std::uint16_t Halves __attribute__((vector_size(kLanes * 2)));
typedef std::uint16_t HalvesInMemory __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));

LONGHAUL_INLINE Floats load(const float* p) {
  return *reinterpret_cast<const FloatsInMemory*>(p);
}
LONGHAUL_INLINE void store(float* p, Floats x) {
  *reinterpret_cast<FloatsInMemory*>(p) = x;
}
LONGHAUL_INLINE Floats broadcast(float x) {
  return x - Floats{};
}
LONGHAUL_INLINE Ints broadcast(std::int32_t x) {
  return x - Ints{};
}

LONGHAUL_INLINE Ints bits_of(Floats x) {
  return reinterpret_cast<Ints>(x);
}
LONGHAUL_INLINE Floats floats_of(Ints bits) {
  return reinterpret_cast<Floats>(bits);
}
LONGHAUL_INLINE Floats select(Ints mask, Floats yes, Floats no) {
  return mask ? yes : no;
}

// a * b + c: rounded once where the instruction set has it, twice in the baseline.
LONGHAUL_INLINE Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// The larger, lane by lane; b where either is NaN.
LONGHAUL_INLINE Floats max(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
LONGHAUL_INLINE Floats abs(Floats x) {
  return floats_of(bits_of(x) & 0x7fffffff);
}

// The first `count` < kLanes elements, 0 beyond; nothing beyond is read.
LONGHAUL_INLINE Floats load(const float* p, int count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
#else
  float x[kLanes] = {};
  for (int i = 0; i < count; ++i) x[i] = p[i];
  return load(x);
#endif
}
LONGHAUL_INLINE void store(float* p, Floats x, int count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), x);
#else
  float all[kLanes];
  store(all, x);
  for (int i = 0; i < count; ++i) p[i] = all[i];
#endif
}

// bf16 is the upper half of a float.
LONGHAUL_INLINE Floats load_bf16(const std::uint16_t* p) {
  const Halves h = *reinterpret_cast<const HalvesInMemory*>(p);
  return floats_of(__builtin_convertvector(h, Ints) << 16);
}
LONGHAUL_INLINE Floats load_bf16(const std::uint16_t* p, int count) {
  std::uint16_t x[kLanes] = {};
  for (int i = 0; i < count; ++i) x[i] = p[i];
  return load_bf16(x);
}
// To nearest, ties to even; NaN stays NaN.
LONGHAUL_INLINE void store_bf16(std::uint16_t* p, Floats x) {
  const Words u = reinterpret_cast<Words>(x), rounded = u + 0x7fff + ((u >> 16) & 1), quiet = u | 0x400000;
  const Words chosen = x == x ? rounded : quiet;
  *reinterpret_cast<HalvesInMemory*>(p) = __builtin_convertvector(chosen >> 16, Halves);
}
LONGHAUL_INLINE void store_bf16(std::uint16_t* p, Floats x, int count) {
  std::uint16_t all[kLanes];
  store_bf16(all, x);
  for (int i = 0; i < count; ++i) p[i] = all[i];
}

// exp within 1 ulp (2 in the baseline, which rounds products). Exactly 0 below kExpZero, so never a denormal; inf above
// 88.7229; NaN for NaN. x = n ln 2 + r, |r| <= ln(2)/2, exp(r) by a polynomial of degree 6 (relative error 3.1e-9,
// fitted by iterated least squares), ln 2 in two parts (Cody and Waite 1980).
constexpr float kExpZero = -87.3f;
LONGHAUL_INLINE Floats exp(Floats x) {
  const Floats magic = broadcast(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Floats t = fma(x, broadcast(1.44269504f), magic), n = t - magic;
  const Floats r = fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x));
  Floats p = broadcast(1.3814610508e-3f);
  p = fma(p, r, broadcast(8.3687111565e-3f));
  p = fma(p, r, broadcast(4.1668387491e-2f));
  p = fma(p, r, broadcast(1.6666520679e-1f));
  p = fma(p, r, broadcast(4.9999993451e-1f));
  p = fma(p, r, broadcast(1.f));
  p = fma(p, r, broadcast(1.f));
#if defined(__AVX512F__)
  const __mmask16 keep = _mm512_cmp_ps_mask(x, broadcast(kExpZero), _CMP_NLT_UQ);  // true for NaN
  return _mm512_maskz_scalef_ps(keep, p, n);
#else
  // n + 127 stays within [1, 254] where the result is used.
  const Ints power = reinterpret_cast<Ints>(reinterpret_cast<Words>(p) + (reinterpret_cast<Words>(t) << 23));
  const Ints inside = (power & (x >= kExpZero)) | (x != x);
  return select(x > 88.7228f, broadcast(__builtin_inff()), floats_of(inside));
#endif
}

// tanh within 2 ulp (Cephes tanhf, Moshier 1989): a polynomial below 0.625, 1 - 2 / (exp(2x) + 1) above.
LONGHAUL_INLINE Floats tanh(Floats x) {
  const Floats a = abs(x), z = x * x;
  Floats p = broadcast(-5.70498872745e-3f);
  p = fma(p, z, broadcast(2.06390887954e-2f));
  p = fma(p, z, broadcast(-5.37397155531e-2f));
  p = fma(p, z, broadcast(1.33314422036e-1f));
  p = fma(p, z, broadcast(-3.33332819422e-1f));
  const Floats near = fma(p * z, x, x);
  const Floats far = 1.f - 2.f / (exp(a + a) + 1.f);
  return select(a < 0.625f, near, floats_of(bits_of(far) | (bits_of(x) & INT32_MIN)));
}

}  // namespace
}  // namespace longhaul::kernel::LONGHAUL_ISA
