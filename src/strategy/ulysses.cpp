// ulysses: an all-to-all gives each rank the whole sequence for some heads; results go back the same way (Jacobs et al.
// 2023, "DeepSpeed Ulysses"). Any numbers of heads: ranges of query heads may differ by one or be empty, and KV heads
// go to every rank whose query heads use them; their owner then adds the gradients of several ranks.
#include "strategy/exchange.h"

namespace longhaul::strategy {

void ulysses(const Request& request, Schedule& schedule) {
  using namespace build;
  const Grid grid(request, request.ranks);
  {
    Emitter emit(grid, schedule.forward);
    Places group(grid.member);
    exchange_in(emit, kForwardInputs, group);
    open_forward(emit, group);
    attend_to(emit, group, grid.ring_index, group);
    close_forward(emit, group);
    exchange_out(emit, kForwardResults, group, Op::kCopy);
  }
  Emitter emit(grid, schedule.backward);
  Places group(grid.member);
  exchange_in(emit, kBackwardInputs, group);
  open_backward(emit, group);
  attend_to(emit, group, grid.ring_index, group);
  exchange_out(emit, kBackwardResults, group, Op::kAdd);
}

}  // namespace longhaul::strategy
