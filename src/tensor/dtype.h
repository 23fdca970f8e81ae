// Element types and where memory lives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bf16.h"
#include "base/check.h"

namespace longhaul {

enum class DType : std::uint8_t { kF32, kBF16, kF64, kI32, kI64, kU8 };
enum class Space : std::uint8_t { kCpu, kCuda };

constexpr Index size_of(DType t) noexcept {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr const char* name_of(DType t) noexcept {
  switch (t) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF64:
      return "fp64";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
  }
  return "?";
}

// The type of sums, statistics, partial results and gradients of parameters for a storage type:
// fp32 for bf16 and fp32, fp64 for fp64 (the oracle runs whole in fp64).
constexpr DType accumulator_of(DType storage) noexcept {
  return storage == DType::kF64 ? DType::kF64 : DType::kF32;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};

}  // namespace longhaul
