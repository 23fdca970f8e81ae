// ring: keys and values go round, one rank a hop; each rank attends to what passes by (Liu, Zaharia, Abbeel 2023, "Ring
// Attention with Blockwise Transformers"). In the backward pass they go round again, their gradients one hop behind.
//
// At hop h, ring index i attends to the keys of i - h. What the mask does not need does not travel: a chunk visits only
// the ranks that see it. It goes from rank to rank within a run of neighbours that see it, and from its owner to the
// first of a run; its gradient grows along the run and goes home from the last. So nobody relays what it does not use.
//
// No deadlock with unbuffered sends: what a rank does at a hop waits only for what others do at earlier hops, or
// earlier in the same hop (receives, then sends, are started before anything is attended or waited for).
#include "strategy/rotation.h"

namespace longhaul::strategy {
namespace build {

void Rotation::forward() {
  const Events own = send_own_keys();
  Events arriving;
  for (int hop = 0, visit = 0; hop < grid_.ring; hop = next_visit(hop), ++visit) {
    emit_.wait(Axis::kRing, arriving);
    arriving = receive_keys(next_visit(hop), visit + 1);
    const Events leaving = relay_keys(hop, visit);
    attend_to(emit_, group_, owner(hop), hop == 0 ? group_ : buffer(visit, {}));
    emit_.wait(Axis::kRing, leaving);
  }
  emit_.wait(Axis::kRing, own);
}

void Rotation::backward() {
  const Events own = send_own_keys();
  first_return_ = emit_.next_event();
  emit_.program.events += grid_.ring * grid_.ulysses * grid_.layout.chunks() * static_cast<int>(kKeyGradients.size());
  for (int m = 0; m < grid_.ulysses; ++m)
    for (int c = 0; c < grid_.layout.chunks(); ++c) await_return(1, m, c);
  Events arriving, gradients_leaving;
  for (int hop = 0, visit = 0; hop < grid_.ring; ++hop) {
    if (hop == 0 || visits(hop)) {
      emit_.wait(Axis::kRing, arriving);
      arriving = receive_keys(next_visit(hop), visit + 1);
      const Events leaving = relay_keys(hop, visit);
      const Events gradients_arriving = receive_gradients(hop);
      zero_gradients(hop, visit);
      attend_to(emit_, group_, owner(hop), hop == 0 ? group_ : buffer(visit, {}));
      emit_.wait(Axis::kRing, gradients_arriving);
      add_gradients(hop, visit);
      emit_.wait(Axis::kRing, gradients_leaving);
      gradients_leaving = send_gradients(hop, visit);
      emit_.wait(Axis::kRing, leaving);
      ++visit;
    }
    take_returns(hop);
  }
  take_returns(grid_.ring);
  emit_.wait(Axis::kRing, gradients_leaving);
  emit_.wait(Axis::kRing, own);
}

void rotate_forward(Emitter& emit, const Places& group) {
  if (emit.grid.q_heads.count() > 0) Rotation(emit, group).forward();
}

void rotate_backward(Emitter& emit, const Places& group) {
  if (emit.grid.q_heads.count() > 0) Rotation(emit, group).backward();
}

}  // namespace build

void ring(const Request& request, Schedule& schedule) {
  const build::Grid grid(request, 1);
  {
    build::Emitter emit(grid, schedule.forward);
    build::Places own(0);
    build::open_forward(emit, own);
    build::rotate_forward(emit, own);
    build::close_forward(emit, own);
  }
  build::Emitter emit(grid, schedule.backward);
  build::Places own(0);
  build::open_backward(emit, own);
  build::rotate_backward(emit, own);
}

}  // namespace longhaul::strategy
