// One table of cases for the elementwise, row and matrix ops: every implementation of the table runs all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/ops.h"

namespace longhaul::testing {

struct Setting {
  const Ops* ops;
  DType storage;
  int threads;
  Index gap;  // elements between rows
};

struct Output {
  std::string name;
  DType type;
  std::vector<double> values;
  bool gaps_untouched;
};

struct OpCase {
  std::string name;
  std::function<std::vector<Output>(const Setting&)> run;
  Index terms;         // of the longest sum
  bool exact = false;  // small integers: every type gives the same numbers
};

std::vector<OpCase> op_cases();

}  // namespace longhaul::testing
