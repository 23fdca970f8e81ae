// How often a thread allocated: this program's operator new counts.
#pragma once

namespace longhaul::io {

long count_allocations() noexcept;  // by the calling thread, so far

}  // namespace longhaul::io
