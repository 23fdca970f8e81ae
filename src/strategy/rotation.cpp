// The messages of a ring, chunk by chunk as the mask needs them.
#include "strategy/rotation.h"

namespace longhaul::strategy::build {

// The group's keys to the first rank of each run that sees them.
Events Rotation::send_own_keys() {
  const std::int32_t first = emit_.next_event();
  const int self = grid_.ring_index;
  for (int hop = 1; hop < grid_.ring; ++hop)
    for (int m = 0; m < grid_.ulysses; ++m)
      for (int c = 0; c < grid_.layout.chunks(); ++c)
        if (travels(self, hop, m, c) && !travels(self, hop - 1, m, c))
          for (const Tensor t : kKeys) emit_.send(Axis::kRing, peer(self + hop), part(t, self, m, c, group_));
  return emit_.since(first);
}

Events Rotation::receive_keys(int hop, int visit) {
  const std::int32_t first = emit_.next_event();
  if (hop < grid_.ring)
    each(hop, [&](int m, int c) {
      const int from = travels(owner(hop), hop - 1, m, c) ? previous() : peer(owner(hop));
      for (const Tensor t : kKeys) emit_.receive(Axis::kRing, from, part(t, owner(hop), m, c, buffer(visit, kKeys)));
    });
  return emit_.since(first);
}

Events Rotation::relay_keys(int hop, int visit) {
  const std::int32_t first = emit_.next_event();
  each(hop, [&](int m, int c) {
    if (travels(owner(hop), hop + 1, m, c))
      for (const Tensor t : kKeys) emit_.send(Axis::kRing, next(), part(t, owner(hop), m, c, buffer(visit, kKeys)));
  });
  return emit_.since(first);
}

void Rotation::zero_gradients(int hop, int visit) {
  each(hop, [&](int m, int c) {
    for (const Tensor t : kKeyGradients) emit_.zero(part(t, owner(hop), m, c, buffer(visit, kKeyGradients)));
  });
}

// What the ranks before this one in the run have summed.
Events Rotation::receive_gradients(int hop) {
  const std::int32_t first = emit_.next_event();
  each(hop, [&](int m, int c) {
    if (travels(owner(hop), hop - 1, m, c))
      for (const Tensor t : kKeyGradients)
        emit_.receive(Axis::kRing, previous(), part(t, owner(hop), m, c, prepare(partial_, kKeyGradients)));
  });
  return emit_.since(first);
}

void Rotation::add_gradients(int hop, int visit) {
  each(hop, [&](int m, int c) {
    if (travels(owner(hop), hop - 1, m, c))
      for (const Tensor t : kKeyGradients)
        emit_.add(part(t, owner(hop), m, c, buffer(visit, kKeyGradients)), part(t, owner(hop), m, c, partial_));
  });
}

Events Rotation::send_gradients(int hop, int visit) {
  const std::int32_t first = emit_.next_event();
  each(hop, [&](int m, int c) {
    const int to = travels(owner(hop), hop + 1, m, c) ? next() : peer(owner(hop));
    for (const Tensor t : kKeyGradients)
      emit_.send(Axis::kRing, to, part(t, owner(hop), m, c, buffer(visit, kKeyGradients)));
  });
  return emit_.since(first);
}

// Starts to receive the gradient of an own chunk from the end of the first run at or after a hop. One at a time, so
// that one slot is enough for any number of runs.
void Rotation::await_return(int from_hop, int m, int c) {
  const int self = grid_.ring_index;
  for (int hop = from_hop; hop < grid_.ring; ++hop)
    if (travels(self, hop, m, c) && !travels(self, hop + 1, m, c)) {
      std::int32_t event = first_return_ + ((hop * grid_.ulysses + m) * grid_.layout.chunks() + c) * 2;
      for (const Tensor t : kKeyGradients)
        emit_.start(Op::kStartReceive, Axis::kRing, peer(self + hop),
                    part(t, self, m, c, prepare(returned_, kKeyGradients)), event++);
      return;
    }
}

// Adds what runs that ended at the hop before send home.
void Rotation::take_returns(int hop) {
  const int self = grid_.ring_index;
  for (int m = 0; m < grid_.ulysses; ++m)
    for (int c = 0; c < grid_.layout.chunks(); ++c) {
      if (!travels(self, hop - 1, m, c) || travels(self, hop, m, c)) continue;
      const std::int32_t event = first_return_ + (((hop - 1) * grid_.ulysses + m) * grid_.layout.chunks() + c) * 2;
      emit_.wait(Axis::kRing, {event, event + 2});
      for (const Tensor t : kKeyGradients) emit_.add(part(t, self, m, c, group_), part(t, self, m, c, returned_));
      await_return(hop + 1, m, c);
    }
}

}  // namespace longhaul::strategy::build
