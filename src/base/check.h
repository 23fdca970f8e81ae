// CHECK: for what only we can do wrong. The world's mistakes are base/error.h.
#pragma once

#include <cstdint>

namespace longhaul {

using Index = std::int64_t;  // every count, offset and extent

// Names the rank and step that this thread works for, so that a failed CHECK can say where it was.
void set_check_context(int rank, Index step) noexcept;

// Prints condition, file, line, rank, step and the formatted values, then aborts.
[[noreturn, gnu::format(printf, 4, 5)]] void fail_check(const char* condition, const char* file, int line,
                                                        const char* format, ...) noexcept;

}  // namespace longhaul

// CHECK(rows == n, "rows %ld, n %ld", rows, n): the message is a printf format and is required.
#define CHECK(condition, ...)                                              \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::longhaul::fail_check(#condition, __FILE__, __LINE__, __VA_ARGS__); \
  } while (0)
