// Team on OpenMP: the same threads that oneDNN uses, so that the two never compete.
#include <omp.h>

#include "base/parallel.h"

namespace longhaul {

void run_on_team(const Team& team, void (*body)(void*, int), void* context) noexcept {
  if (team.threads == 1) return body(context, 0);
#pragma omp parallel num_threads(team.threads)
  {
    // OpenMP may grant fewer threads than asked; every share of the work is still done once.
    for (int t = omp_get_thread_num(); t < team.threads; t += omp_get_num_threads()) body(context, t);
  }
}

}  // namespace longhaul
