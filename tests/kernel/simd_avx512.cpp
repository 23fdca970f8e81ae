// simd.h for AVX-512.
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC bug 105593
#define LONGHAUL_ISA avx512_check
#define FUNCTIONS kAvx512Functions
#include "kernel/simd_functions.inc"
