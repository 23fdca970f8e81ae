// single: one rank has the whole sequence; nothing travels.
#include "strategy/build.h"

namespace longhaul::strategy {

void single(const Request& request, Schedule& schedule) {
  CHECK(request.ranks == 1, "strategy single on %d ranks", request.ranks);
  const build::Grid grid(request, 1);
  {
    build::Emitter emit(grid, schedule.forward);
    build::Places own(grid.member);
    build::open_forward(emit, own);
    build::attend_to(emit, own, 0, own);
    build::close_forward(emit, own);
  }
  build::Emitter emit(grid, schedule.backward);
  build::Places own(grid.member);
  build::open_backward(emit, own);
  build::attend_to(emit, own, 0, own);
}

}  // namespace longhaul::strategy
