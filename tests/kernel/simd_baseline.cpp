// simd.h for the baseline.
#define LONGHAUL_ISA baseline_check
#define FUNCTIONS kBaselineFunctions
#include "kernel/simd_functions.inc"
