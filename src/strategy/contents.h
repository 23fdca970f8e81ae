// What one rank's home tensors and slots hold while a program runs, as symbols. Internal to the checker.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategy/schedule.h"

namespace longhaul::strategy {

// Of one chunk and head of a tensor of some owner.
struct Cell {
  enum class State : std::uint8_t {
    kGarbage,
    kWhole,  // the input, complete
    kSum,    // of the contributions in its set: of no keys or queries for an empty set
    kFinal,  // finished: O, m, l
  };
  State state = State::kGarbage;
  bool arriving = false;  // a receive into it has not been waited for
  int leaving = 0;        // sends from it that have not been waited for
  std::vector<bool> set;  // contributions: key chunks (queries' tensors); query chunk and head in group (dK, dV)
};

class Contents {
 public:
  // Home as the caller gives it: inputs whole, outputs garbage; slots garbage.
  Contents(const Request& request, const Program& program, int rank, bool backward);

  // Why the payload is no proper place (unknown slot or heads, too large, not its own shard); nothing when it is.
  std::optional<std::string> misplaced(const Payload& what) const;
  // Why it may not be read: it is not there, or still on its way.
  std::optional<std::string> unreadable(const Payload& what) const;
  // Makes the place hold `what` from now on. Or why it may not be written, because a message uses it: then it stays.
  std::optional<std::string> overwrite(const Payload& what);

  Cell& cell(const Payload& what, int chunk, int head);
  const Cell& cell(const Payload& what, int chunk, int head) const;

  // Calls f(chunk, head) for the cells of a payload that have rows.
  template <class F>
  void each(const Payload& what, F&& f) const {
    for (int c = 0; c < layout_.chunks(); ++c)
      if ((what.chunk == kAllChunks || what.chunk == c) && layout_.chunk(what.owner, c).count > 0)
        for (int h = what.heads.begin; h < what.heads.end; ++h) f(c, h);
  }

 private:
  struct Area {
    int owner = -1;  // whose shard it holds
    HeadRange heads;
    std::vector<Cell> cells;  // by chunk, then head
  };
  const Area& area(const Payload& what) const;

  const Layout& layout_;
  const Program& program_;
  Shapes shapes_;
  int rank_;
  std::vector<Area> home_, slots_;
};

}  // namespace longhaul::strategy
