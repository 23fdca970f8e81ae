// The messages of a ring: what this rank sends, receives and adds at a hop. Internal to this folder; ring.cpp says
// when.
#pragma once

#include "strategy/build.h"

namespace longhaul::strategy::build {

class Rotation {
 public:
  Rotation(Emitter& emit, const Places& group) : emit_(emit), grid_(emit.grid), group_(group) {}
  void forward();
  void backward();

 private:
  using Tensors = std::span<const Tensor>;

  int owner(int hop) const { return (grid_.ring_index - hop + grid_.ring) % grid_.ring; }
  // Chunk `c` of member `m` of the group `from` is seen by the group `hop` places on.
  bool travels(int from, int hop, int m, int c) const {
    return 0 < hop && hop < grid_.ring && grid_.sees((from + hop) % grid_.ring, grid_.rank_at(from, m), c);
  }
  // Calls f(member, chunk) for what this rank uses at a hop.
  template <class F>
  void each(int hop, F&& f) const {
    for (int m = 0; m < grid_.ulysses; ++m)
      for (int c = 0; c < grid_.layout.chunks(); ++c)
        if (travels(owner(hop), hop, m, c)) f(m, c);
  }
  bool visits(int hop) const {
    bool any = false;
    each(hop, [&](int, int) { any = true; });
    return any;
  }
  int next_visit(int hop) const {
    do ++hop;
    while (hop < grid_.ring && !visits(hop));
    return hop;
  }
  int peer(int ring_index) const { return grid_.rank_at((ring_index + grid_.ring) % grid_.ring, grid_.member); }
  int previous() const { return peer(grid_.ring_index - 1); }
  int next() const { return peer(grid_.ring_index + 1); }
  Payload part(Tensor t, int from, int m, int c, const Places& places) const {
    return {t, static_cast<std::int16_t>(grid_.rank_at(from, m)), static_cast<std::int16_t>(c), places(t, m),
            grid_.kv_heads};
  }
  // Buffers alternate from visit to visit, so that one is filled and emptied while the other is used.
  Places& buffer(int visit, Tensors tensors) { return prepare(buffers_[static_cast<std::size_t>(visit % 2)], tensors); }
  Places& prepare(Places& places, Tensors tensors) {
    for (const Tensor t : tensors)
      if (!places.has_others(t)) places.set_others(t, emit_.slots_for_any_group(t));
    return places;
  }

  Events send_own_keys();
  Events receive_keys(int hop, int visit);
  Events relay_keys(int hop, int visit);
  void zero_gradients(int hop, int visit);
  Events receive_gradients(int hop);
  void add_gradients(int hop, int visit);
  Events send_gradients(int hop, int visit);
  void await_return(int from_hop, int m, int c);
  void take_returns(int hop);

  Emitter& emit_;
  const Grid& grid_;
  const Places& group_;                                    // this rank's group
  std::array<Places, 2> buffers_{Places(-1), Places(-1)};  // passing keys, and their gradients from this rank
  Places partial_{-1};                                     // gradients of passing keys from the ranks before
  Places returned_{-1};                                    // gradients of the group's own keys
  std::int32_t first_return_ = 0;
};

}  // namespace longhaul::strategy::build
