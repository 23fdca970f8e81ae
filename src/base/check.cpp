// Reports a broken invariant and stops.
#include "base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace longhaul {
namespace {
// Only for messages: nothing computes with it.
thread_local int t_rank = -1;
thread_local Index t_step = -1;
}  // namespace

void set_check_context(int rank, Index step) noexcept {
  t_rank = rank;
  t_step = step;
}

void fail_check(const char* condition, const char* file, int line, const char* format, ...) noexcept {
  char values[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(values, sizeof values, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "CHECK failed: %s at %s:%d, rank %d, step %ld: %s\n", condition, file, line, t_rank,
               static_cast<long>(t_step), values);
  std::abort();
}

}  // namespace longhaul
