// What the strategies share: emitting steps, and where a rank stands in ring x ulysses. Internal to this folder.
#pragma once

#include "strategy/schedule.h"

namespace longhaul::strategy::build {

inline constexpr std::array kKeys{Tensor::kK, Tensor::kV};
inline constexpr std::array kKeyGradients{Tensor::kDK, Tensor::kDV};

// Where this rank stands in ring x ulysses (ulysses inner), and which heads it attends for. The ranks with one ring
// index are a group: each has all their queries for some heads. A ring alone has groups of one, with all heads.
struct Grid {
  Grid(const Request& request, int ulysses_degree);

  int rank_at(int ring_index, int member) const noexcept { return ring_index * ulysses + member; }
  // Heads of `tensor` that a member attends for: [floor(uH/U), floor((u+1)H/U)) of the query heads, and the KV heads
  // that those use. Members may share KV heads, and may have none.
  HeadRange heads(Tensor tensor, int member) const noexcept;
  int most_heads(Tensor tensor) const noexcept;  // of any member
  // A query of the group at `ring_index` sees this chunk of `key_rank`.
  bool sees(int ring_index, int key_rank, int key_chunk) const noexcept;
  // The mask has a use for this chunk of a tensor of `rank`.
  bool used(Tensor tensor, int rank, int chunk) const noexcept;

  const Layout& layout;
  const Visibility& visible;
  Shapes shapes;
  int ring, ulysses, rank;
  int ring_index, member;       // of this rank
  HeadRange q_heads, kv_heads;  // of this rank
};

// Where the tensors of a group lie on this rank. No list of its own, so that a rebuild allocates nothing.
class Places {
 public:
  // `self`: the member whose tensors lie at `own`, at home unless told otherwise; -1: none.
  explicit Places(int self) noexcept : self_(self) { own_.fill(kHome), first_.fill(kHome); }
  void set_own(Tensor tensor, std::int16_t slot) noexcept { own_[index(tensor)] = slot; }
  void set_others(Tensor tensor, std::int16_t first_slot) noexcept { first_[index(tensor)] = first_slot; }
  bool has_others(Tensor tensor) const noexcept { return first_[index(tensor)] != kHome; }
  std::int16_t operator()(Tensor tensor, int member) const noexcept {
    if (member == self_) return own_[index(tensor)];
    return static_cast<std::int16_t>(first_[index(tensor)] + member - (self_ >= 0 && member > self_));
  }

 private:
  static std::size_t index(Tensor tensor) noexcept { return static_cast<std::size_t>(tensor); }
  int self_;
  std::array<std::int16_t, kTensors> own_, first_;
};

// Events that were started one after another.
struct Events {
  std::int32_t begin = 0, end = 0;
};

// Appends steps to a program. Payloads without rows or heads are left out.
class Emitter {
 public:
  // Clears the program, and reserves what the worst mask could need.
  Emitter(const Grid& grid, Program& program);

  std::int16_t slot(Tensor tensor, Index rows, int heads);
  // A slot for each other member of the group (rows of its shard, this rank's heads), or for every member with the
  // rows of the largest shard. Returns the first.
  std::int16_t slots_for_others(Tensor tensor);
  std::int16_t slots_for_any_group(Tensor tensor);

  void send(Axis axis, int peer, const Payload& what) { start(Op::kStartSend, axis, peer, what, program.events++); }
  void receive(Axis axis, int peer, const Payload& what) {
    start(Op::kStartReceive, axis, peer, what, program.events++);
  }
  void start(Op op, Axis axis, int peer, const Payload& what, std::int32_t event);
  std::int32_t next_event() const noexcept { return program.events; }
  Events since(std::int32_t first) const noexcept { return {first, program.events}; }
  void wait(Axis axis, Events events);

  void zero(const Payload& what);
  void copy(const Payload& what, const Payload& from);
  void add(const Payload& what, const Payload& more);
  void attend(const Payload& q, const Payload& k, const std::array<std::int16_t, kTensors>& at);
  void finish(const Payload& o, const std::array<std::int16_t, kTensors>& at);

  const Grid& grid;
  Program& program;
  int collective = 0;  // of the starts and waits to come

 private:
  void local(Op op, const Payload& what, const Payload& other);
};

// This rank's shard at home, whole, all heads.
Payload home(const Grid& grid, Tensor tensor, std::int16_t chunk = kAllChunks);

// Sets partial results and statistics of the group's queries to those of no keys; adds their places.
void open_forward(Emitter& emit, Places& group);
// Sets the gradients of the group's shards to zero; adds their places.
void open_backward(Emitter& emit, Places& group);
// The group's queries attend to the keys of the group at `key_ring`, tile by tile as the mask needs them.
void attend_to(Emitter& emit, const Places& group, int key_ring, const Places& keys);
// Finishes the group's queries. What sees nothing is zero.
void close_forward(Emitter& emit, Places& group);

// The ring's part of a strategy (ring.cpp): the group's queries attend to every group's keys.
void rotate_forward(Emitter& emit, const Places& group);
void rotate_backward(Emitter& emit, const Places& group);

}  // namespace longhaul::strategy::build
