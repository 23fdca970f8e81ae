// Asks the operating system and the CPU.
#include "plan/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace longhaul::plan {

Machine machine_at_hand() {
  Machine m;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) m.cores = std::max(1, CPU_COUNT(&cpus));
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) m.memory = static_cast<Index>(pages) * page;
#if defined(__x86_64__)
  m.multiplies_bf16 = __builtin_cpu_supports("avx512bf16");  // AMX comes with it
#endif
  return m;
}

}  // namespace longhaul::plan
