// all_gather: every rank fetches the keys and values that its queries see, then attends. In the backward pass it
// fetches them again and sends their gradients to the owners, who add them (a reduce-scatter). Context parallelism of
// Llama 3 (Dubey et al. 2024, section 3.3.2).
#include <algorithm>

#include "strategy/build.h"

namespace longhaul::strategy {
namespace {

using namespace build;

// Peers in turn from this rank on, so that no rank is everyone's first.
int peer_at(const Grid& grid, int turn) {
  return (grid.rank + turn) % grid.ring;
}

Payload part(const Grid& grid, Tensor tensor, int owner, int chunk, std::int16_t slot) {
  return {tensor, static_cast<std::int16_t>(owner), static_cast<std::int16_t>(chunk), slot,
          all_heads(tensor, grid.shapes)};
}

// Calls f(tensor, chunk) for what the queries of `query_rank` see of `key_rank`.
template <class F>
void each_part(const Grid& grid, std::span<const Tensor> tensors, int query_rank, int key_rank, F&& f) {
  for (int c = 0; c < grid.layout.chunks(); ++c)
    if (grid.visible.any(query_rank, key_rank, c))
      for (const Tensor t : tensors) f(t, c);
}

// Adds a slot for each tensor of each peer, empty where this rank sees nothing of it: by turn, then by tensor.
void add_peer_slots(Emitter& emit, std::span<const Tensor> tensors) {
  const Grid& grid = emit.grid;
  for (int turn = 1; turn < grid.ring; ++turn) {
    const int peer = peer_at(grid, turn);
    bool seen = false;
    each_part(grid, tensors, grid.rank, peer, [&](Tensor, int) { seen = true; });
    for (const Tensor t : tensors) emit.slot(t, seen ? grid.layout.rows(peer) : 0, grid.shapes.kv_heads);
  }
}

void set_peer(Places& places, std::span<const Tensor> tensors, std::int16_t first_slot, int turn) {
  std::size_t next = static_cast<std::size_t>(first_slot) + static_cast<std::size_t>(turn - 1) * tensors.size();
  for (const Tensor t : tensors) places.set_others(t, static_cast<std::int16_t>(next++));
}

// Gathers, and attends to this rank's own keys meanwhile. Returns the first slot of the peers' keys.
std::int16_t gather_keys(Emitter& emit, const Places& own) {
  const Grid& grid = emit.grid;
  const auto first_slot = static_cast<std::int16_t>(emit.program.slots.size());
  const std::int32_t first_event = emit.next_event();
  add_peer_slots(emit, kKeys);
  emit.collective = 1;
  for (int turn = 1; turn < grid.ring; ++turn) {
    const int peer = peer_at(grid, turn);
    Places keys(-1);
    set_peer(keys, kKeys, first_slot, turn);
    each_part(grid, kKeys, grid.rank, peer,
              [&](Tensor t, int c) { emit.receive(Axis::kRing, peer, part(grid, t, peer, c, keys(t, 0))); });
  }
  for (int turn = grid.ring - 1; turn > 0; --turn) {
    const int peer = peer_at(grid, turn);
    each_part(grid, kKeys, peer, grid.rank,
              [&](Tensor t, int c) { emit.send(Axis::kRing, peer, part(grid, t, grid.rank, c, kHome)); });
  }
  const Events started = emit.since(first_event);
  attend_to(emit, own, grid.rank, own);
  emit.wait(Axis::kRing, started);
  emit.collective = 0;
  return first_slot;
}

// Takes in the gradients of this rank's keys, one peer after another into two slots a tensor, and adds them in that
// order: fixed, so that the same ranks give the same bits.
void add_gradients(Emitter& emit) {
  const Grid& grid = emit.grid;
  std::array<Places, 2> landing{Places(-1), Places(-1)};
  for (int i = 0; i < std::min(2, grid.ring - 1); ++i)
    for (const Tensor t : kKeyGradients)
      landing[static_cast<std::size_t>(i)].set_others(t,
                                                      emit.slot(t, grid.layout.rows(grid.rank), grid.shapes.kv_heads));
  Events arriving;
  for (int turn = 1; turn <= grid.ring; ++turn) {
    const std::int32_t first_event = emit.next_event();
    if (turn < grid.ring)
      each_part(grid, kKeyGradients, peer_at(grid, turn), grid.rank, [&](Tensor t, int c) {
        emit.receive(Axis::kRing, peer_at(grid, turn),
                     part(grid, t, grid.rank, c, landing[static_cast<std::size_t>((turn - 1) % 2)](t, 0)));
      });
    emit.wait(Axis::kRing, arriving);
    if (turn > 1)
      each_part(grid, kKeyGradients, peer_at(grid, turn - 1), grid.rank, [&](Tensor t, int c) {
        emit.add(part(grid, t, grid.rank, c, kHome),
                 part(grid, t, grid.rank, c, landing[static_cast<std::size_t>(turn % 2)](t, 0)));
      });
    arriving = emit.since(first_event);
  }
}

void forward(const Grid& grid, Program& program) {
  Emitter emit(grid, program);
  Places own(0);
  open_forward(emit, own);
  const std::int16_t first_slot = gather_keys(emit, own);
  for (int turn = 1; turn < grid.ring; ++turn) {
    Places keys(-1);
    set_peer(keys, kKeys, first_slot, turn);
    attend_to(emit, own, peer_at(grid, turn), keys);
  }
  close_forward(emit, own);
}

void backward(const Grid& grid, Program& program) {
  Emitter emit(grid, program);
  Places own(0);
  open_backward(emit, own);
  const std::int16_t first_slot = gather_keys(emit, own);
  const auto first_gradient = static_cast<std::int16_t>(program.slots.size());
  add_peer_slots(emit, kKeyGradients);
  const std::int32_t first_event = emit.next_event();
  for (int turn = 1; turn < grid.ring; ++turn) {
    const int peer = peer_at(grid, turn);
    Places keys(-1);
    set_peer(keys, kKeys, first_slot, turn);
    set_peer(keys, kKeyGradients, first_gradient, turn);
    each_part(grid, kKeyGradients, grid.rank, peer,
              [&](Tensor t, int c) { emit.zero(part(grid, t, peer, c, keys(t, 0))); });
    attend_to(emit, own, peer, keys);
    emit.collective = 2;
    each_part(grid, kKeyGradients, grid.rank, peer,
              [&](Tensor t, int c) { emit.send(Axis::kRing, peer, part(grid, t, peer, c, keys(t, 0))); });
    emit.collective = 0;
  }
  const Events sent = emit.since(first_event);
  emit.collective = 2;
  add_gradients(emit);
  emit.wait(Axis::kRing, sent);
  emit.collective = 0;
}

}  // namespace

void all_gather(const Request& request, Schedule& schedule) {
  const Grid grid(request, 1);
  forward(grid, schedule.forward);
  backward(grid, schedule.backward);
}

}  // namespace longhaul::strategy
