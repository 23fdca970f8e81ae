// usp: ring x ulysses (Fang and Zhao 2024, "USP: A Unified Sequence Parallelism Approach for Long Context Generative
// AI"). Groups of `ulysses` ranks exchange rows for heads; the ranks with the same heads of all groups form a ring, on
// which the shards of a whole group travel together. Ring and ulysses are its end cases.
#include "strategy/exchange.h"

namespace longhaul::strategy {
namespace {

using namespace build;

// The ring sends this rank's own keys with this rank's heads only: packed, where those are not all.
void pack_own_keys(Emitter& emit, Places& group) {
  const Grid& grid = emit.grid;
  if (grid.ring == 1 || grid.kv_heads.count() == 0) return;
  for (const Tensor t : kKeys) {
    if (grid.kv_heads == all_heads(t, grid.shapes)) continue;
    const std::int16_t slot = emit.slot(t, grid.layout.rows(grid.rank), grid.kv_heads.count());
    group.set_own(t, slot);
    for (int c = 0; c < grid.layout.chunks(); ++c) {
      if (!grid.used(t, grid.rank, c)) continue;
      Payload packed{t, static_cast<std::int16_t>(grid.rank), static_cast<std::int16_t>(c), slot, grid.kv_heads},
          at_home = packed;
      at_home.slot = kHome;
      emit.copy(packed, at_home);
    }
  }
}

}  // namespace

void usp(const Request& request, Schedule& schedule) {
  const Grid grid(request, request.ulysses);
  {
    Emitter emit(grid, schedule.forward);
    Places group(grid.member);
    exchange_in(emit, kForwardInputs, group);
    pack_own_keys(emit, group);
    open_forward(emit, group);
    rotate_forward(emit, group);
    close_forward(emit, group);
    exchange_out(emit, kForwardResults, group, Op::kCopy);
  }
  Emitter emit(grid, schedule.backward);
  Places group(grid.member);
  exchange_in(emit, kBackwardInputs, group);
  pack_own_keys(emit, group);
  open_backward(emit, group);
  rotate_backward(emit, group);
  exchange_out(emit, kBackwardResults, group, Op::kAdd);
}

}  // namespace longhaul::strategy
