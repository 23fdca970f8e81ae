// simd.h for AVX2.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#define LONGHAUL_ISA avx2_check
#define FUNCTIONS kAvx2Functions
#include "kernel/simd_functions.inc"
