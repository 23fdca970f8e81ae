// Replaces the library's operator new and delete in this program. A file of its own: inlined next to a caller, the
// compiler takes malloc and delete for a mismatch.
#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long t_allocations = 0;
}

void* operator new(std::size_t size) {
  ++t_allocations;
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace longhaul::io {

long count_allocations() noexcept {
  return t_allocations;
}

}  // namespace longhaul::io
