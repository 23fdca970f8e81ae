// Wall-clock seconds that never run backwards.
#pragma once

#include <chrono>

namespace longhaul {

inline double now_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace longhaul
