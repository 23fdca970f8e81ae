// Proves things about the schedules of all ranks: used by tests, by explain, and by faults that must be caught.
#pragma once

#include <string>
#include <vector>

#include "strategy/schedule.h"

namespace longhaul::strategy {

struct Findings {
  std::vector<std::string> problems;      // empty when everything below holds
  std::vector<Index> bytes_sent_forward;  // by rank: what the messages of the schedule carry
  std::vector<Index> bytes_sent_backward;
};

// schedules[r] is rank r's. Holds when: every (query head, query chunk, key chunk) that the mask needs is attended
// exactly once, forward and backward, and nothing else is; every operand is on the rank, whole and current, when it is
// used (so no stale or overwritten slot); every message is paired; no deadlock under unbuffered sends; every gradient
// part gets home exactly once; every query row and head is finished exactly once and its O, m, l get home; slots are
// large enough.
Findings check(const std::vector<Schedule>& schedules, const Request& request);

}  // namespace longhaul::strategy
