// The instruction sets that *.simd.cpp sources are compiled for, and which of them this machine has.
#pragma once

#include <cstdint>

namespace longhaul::kernel {

enum class Isa : std::uint8_t { kAvx512, kAvx2, kBaseline };  // best first

// Why code of that instruction set cannot run here; nullptr when it can.
const char* isa_refuses(Isa isa) noexcept;
const char* name_of(Isa isa) noexcept;

}  // namespace longhaul::kernel
