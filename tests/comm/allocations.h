// Counts the allocations of this test program.
#pragma once

namespace longhaul::comm {

long allocations() noexcept;  // calls of operator new so far, by any thread

}  // namespace longhaul::comm
