// The one table of strategies.
#include <algorithm>

#include "strategy/schedule.h"

namespace longhaul::strategy {

std::span<const StrategyEntry> strategies() noexcept {
  static constexpr std::array kTable{
      StrategyEntry{"single", single, "one rank has the whole sequence"},
      StrategyEntry{"all_gather", all_gather, "every rank fetches the keys that its queries see"},
      StrategyEntry{"ring", ring, "keys go round, one rank a hop, while what passes is attended to"},
      StrategyEntry{"ulysses", ulysses, "ranks exchange rows for heads: each has the whole sequence for some heads"},
      StrategyEntry{"usp", usp, "a ring of groups, ulysses within each"},
  };
  return kTable;
}

const StrategyEntry* find_strategy(std::string_view name) noexcept {
  const auto table = strategies();
  const auto found = std::find_if(table.begin(), table.end(), [&](const StrategyEntry& e) { return e.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace longhaul::strategy
