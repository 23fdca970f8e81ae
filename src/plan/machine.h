// What a plan needs to know of a machine.
#pragma once

#include <string>

#include "base/check.h"

namespace longhaul::plan {

struct Machine {
  int cores = 1;                  // that this process may use
  Index memory = 0;               // bytes; 0: not known
  bool multiplies_bf16 = false;   // natively
  double flops_per_core = 25e9;   // a second, of matrix products and attention
  double bytes_per_second = 4e9;  // from one rank's memory to another's
  std::string rates_from = "25 GFLOP/s a core and 4 GB/s between ranks, assumed";
};

// The one that this process runs on. Its rates are assumed: nothing is timed.
Machine machine_at_hand();

}  // namespace longhaul::plan
