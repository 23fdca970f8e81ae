// One way to use several threads: a Team runs a function once on each of its threads and waits.
//
// The OpenMP build (parallel_omp.cpp) shares its threads with oneDNN; the other (parallel_std.cpp) is for tsan.
// Work is divided by index alone, so results depend on the number of threads but never on timing.
#pragma once

#include "base/check.h"

namespace longhaul {

struct Team {
  int threads = 1;
};

// Calls body(context, thread) for thread in [0, team.threads), in parallel. Bodies must not throw.
void run_on_team(const Team& team, void (*body)(void* context, int thread), void* context) noexcept;

// Calls f(begin, end, thread) once a thread with contiguous, nearly equal parts of [0, count); parts may be empty.
template <class F>
void parallel_ranges(const Team& team, Index count, F&& f) {
  struct Context {
    F& f;
    Index count;
    int threads;
  } context{f, count, team.threads};
  run_on_team(
      team,
      [](void* raw, int thread) {
        auto& c = *static_cast<Context*>(raw);
        c.f(c.count * thread / c.threads, c.count * (thread + 1) / c.threads, thread);
      },
      &context);
}

// Calls f(i, thread) for each i of [0, count), contiguous parts a thread.
template <class F>
void parallel_for(const Team& team, Index count, F&& f) {
  parallel_ranges(team, count, [&](Index begin, Index end, int thread) {
    for (Index i = begin; i < end; ++i) f(i, thread);
  });
}

}  // namespace longhaul
