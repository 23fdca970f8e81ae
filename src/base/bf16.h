// bf16: the upper half of a float, rounded to nearest even. NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace longhaul {

struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  explicit bf16(float x) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  explicit operator double() const noexcept { return static_cast<float>(*this); }
};
static_assert(sizeof(bf16) == 2);

}  // namespace longhaul
