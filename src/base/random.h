// Randomness as a function: the same arguments give the same number, so there is no state to save.
#pragma once

#include <cstdint>

namespace longhaul {

// SplitMix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014, figure 15).
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A number in [0, 2^64) for (seed, stream, index).
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  return mix64(mix64(mix64(seed) ^ stream) ^ index);
}

// Uniform in [0, 1), 53 bits.
constexpr double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

// Standard normal (Box-Muller on two independent uniforms).
double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept;

}  // namespace longhaul
