// The functions of kernel/cpu/simd.h, compiled for each instruction set: one file each, as gtest's own inline functions
// must not be compiled for an instruction set that the machine may lack.
#pragma once

#include <cstdint>

namespace longhaul::testing {

struct SimdFunctions {
  int lanes;
  // Each on `count` values, a multiple of 16.
  void (*exp)(const float* x, int count, float* y);
  void (*tanh)(const float* x, int count, float* y);
  void (*to_bf16)(const float* x, int count, std::uint16_t* y);
  void (*from_bf16)(const std::uint16_t* x, int count, float* y);
  // The first `count` < lanes of x; beyond them nothing is read, and nothing of y is written.
  void (*copy_some)(const float* x, int count, float* y);
};
extern const SimdFunctions kBaselineFunctions, kAvx2Functions, kAvx512Functions;

}  // namespace longhaul::testing
