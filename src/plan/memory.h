// Places buffers with lifetimes into one arena: the only code that decides where bytes of a step lie.
#pragma once

#include <span>

#include "spec/tensor_table.h"

namespace longhaul::plan {

constexpr Index kAlignment = 64;  // bytes: a cache line, and the widest vector

constexpr Index align_up(Index bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Sets the offset of every buffer; buffers whose lifetimes share a phase never share a byte. Returns the bytes of the
// arena. With `gap` that many bytes stay free behind every buffer, for sentinels of a debug run.
// The arena is the largest sum of live bytes (each rounded up to the alignment) where the search finds that, and at
// most a few percent more.
Index place(std::span<spec::Buffer> buffers, Index gap = 0);

// The largest sum over phases of the bytes of the buffers alive in it: what no placement can be below.
Index largest_live_bytes(std::span<const spec::Buffer> buffers);

}  // namespace longhaul::plan
