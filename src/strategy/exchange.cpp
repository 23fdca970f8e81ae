// The messages of ulysses.
#include "strategy/exchange.h"

namespace longhaul::strategy::build {
namespace {

int member_at(const Grid& grid, int turn) {
  return (grid.member + turn) % grid.ulysses;
}

// The chunk of a member's shard, with the heads that another member attends for.
Payload part(const Grid& grid, Tensor tensor, int owner, int chunk, std::int16_t slot, int for_member) {
  return {tensor, static_cast<std::int16_t>(grid.rank_at(grid.ring_index, owner)), static_cast<std::int16_t>(chunk),
          slot, grid.heads(tensor, for_member)};
}

// Calls f(tensor, chunk) for what the mask needs of a member's shard for the heads of another.
template <class F>
void each_part(const Grid& grid, std::span<const Tensor> tensors, int owner, int for_member, F&& f) {
  if (grid.heads(Tensor::kQ, for_member).count() == 0) return;
  for (int c = 0; c < grid.layout.chunks(); ++c)
    for (const Tensor t : tensors)
      if (grid.used(t, grid.rank_at(grid.ring_index, owner), c)) f(t, c);
}

// Two slots a tensor, used in turn: this rank's rows, the most heads that any member has.
class TwoSlots {
 public:
  explicit TwoSlots(Emitter& emit) : emit_(emit) {}
  std::int16_t operator()(Tensor tensor, int turn) {
    const Grid& grid = emit_.grid;
    Places& places = places_[static_cast<std::size_t>(turn % 2)];
    if (!places.has_others(tensor))
      places.set_others(tensor, emit_.slot(tensor, grid.layout.rows(grid.rank), grid.most_heads(tensor)));
    return places(tensor, 0);
  }

 private:
  Emitter& emit_;
  std::array<Places, 2> places_{Places(-1), Places(-1)};
};

// Sends a member its heads of this rank's shard: from home where they are all heads, else packed.
Events send_shard(Emitter& emit, std::span<const Tensor> tensors, int turn, TwoSlots& packed) {
  const Grid& grid = emit.grid;
  const int to = member_at(grid, turn);
  const auto source = [&](Tensor t, int c) {
    const bool whole = grid.heads(t, to) == all_heads(t, grid.shapes);
    return part(grid, t, grid.member, c, whole ? kHome : packed(t, turn), to);
  };
  each_part(grid, tensors, grid.member, to, [&](Tensor t, int c) {
    if (source(t, c).slot != kHome) emit.copy(source(t, c), part(grid, t, grid.member, c, kHome, to));
  });
  const std::int32_t first = emit.next_event();
  each_part(grid, tensors, grid.member, to,
            [&](Tensor t, int c) { emit.send(Axis::kUlysses, grid.rank_at(grid.ring_index, to), source(t, c)); });
  return emit.since(first);
}

}  // namespace

void exchange_in(Emitter& emit, std::span<const Tensor> tensors, Places& group) {
  const Grid& grid = emit.grid;
  emit.collective = 1;
  const std::int32_t first = emit.next_event();
  for (const Tensor t : tensors) group.set_others(t, emit.slots_for_others(t));
  for (int turn = grid.ulysses - 1; turn > 0; --turn) {
    const int from = member_at(grid, turn);
    each_part(grid, tensors, from, grid.member, [&](Tensor t, int c) {
      emit.receive(Axis::kUlysses, grid.rank_at(grid.ring_index, from),
                   part(grid, t, from, c, group(t, from), grid.member));
    });
  }
  const Events arriving = emit.since(first);
  TwoSlots packed(emit);
  std::array<Events, 2> leaving;  // from either slot
  for (int turn = 1; turn < grid.ulysses; ++turn) {
    Events& before = leaving[static_cast<std::size_t>(turn % 2)];
    emit.wait(Axis::kUlysses, before);
    before = send_shard(emit, tensors, turn, packed);
  }
  for (const Events& events : {leaving[0], leaving[1], arriving}) emit.wait(Axis::kUlysses, events);
  emit.collective = 0;
}

void exchange_out(Emitter& emit, std::span<const Tensor> tensors, const Places& group, Op op) {
  const Grid& grid = emit.grid;
  emit.collective = 2;
  const std::int32_t first = emit.next_event();
  for (int turn = grid.ulysses - 1; turn > 0; --turn) {
    const int to = member_at(grid, turn);
    each_part(grid, tensors, to, grid.member, [&](Tensor t, int c) {
      emit.send(Axis::kUlysses, grid.rank_at(grid.ring_index, to), part(grid, t, to, c, group(t, to), grid.member));
    });
  }
  const Events leaving = emit.since(first);
  TwoSlots landing(emit);
  Events arriving;
  for (int turn = 1; turn <= grid.ulysses; ++turn) {  // one member's results arrive while the last one's are taken in
    const std::int32_t first_receive = emit.next_event();
    const int from = member_at(grid, turn), last = member_at(grid, turn - 1);
    if (turn < grid.ulysses)
      each_part(grid, tensors, grid.member, from, [&](Tensor t, int c) {
        emit.receive(Axis::kUlysses, grid.rank_at(grid.ring_index, from),
                     part(grid, t, grid.member, c, landing(t, turn), from));
      });
    emit.wait(Axis::kUlysses, arriving);
    if (turn > 1)
      each_part(grid, tensors, grid.member, last, [&](Tensor t, int c) {
        const Payload to = part(grid, t, grid.member, c, kHome, last);
        const Payload from_slot = part(grid, t, grid.member, c, landing(t, turn - 1), last);
        op == Op::kAdd ? emit.add(to, from_slot) : emit.copy(to, from_slot);
      });
    arriving = emit.since(first_receive);
  }
  emit.wait(Axis::kUlysses, leaving);
  emit.collective = 0;
}

}  // namespace longhaul::strategy::build
