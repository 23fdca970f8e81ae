// Team on std::thread: slower to start, but visible to tsan.
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace longhaul {

void run_on_team(const Team& team, void (*body)(void*, int), void* context) noexcept {
  std::vector<std::jthread> others;
  for (int t = 1; t < team.threads; ++t) others.emplace_back(body, context, t);
  body(context, 0);
}

}  // namespace longhaul
