// The building blocks of the strategies.
#include "strategy/build.h"

#include <algorithm>
#include <limits>

namespace longhaul::strategy::build {

Grid::Grid(const Request& request, int ulysses_degree)
    : layout(*request.layout),
      visible(*request.visible),
      shapes(request.shapes),
      ring(request.ranks / ulysses_degree),
      ulysses(ulysses_degree),
      rank(request.rank),
      ring_index(request.rank / ulysses_degree),
      member(request.rank % ulysses_degree) {
  CHECK(0 <= rank && rank < request.ranks && request.ranks == layout.ranks, "rank %d of %d, a layout of %d", rank,
        request.ranks, layout.ranks);
  CHECK(ring * ulysses == request.ranks, "ulysses %d does not divide %d ranks", ulysses, request.ranks);
  CHECK(request.ranks <= std::numeric_limits<std::int16_t>::max(), "%d ranks", request.ranks);
  CHECK(shapes.kv_heads > 0 && shapes.q_heads > 0 && shapes.q_heads % shapes.kv_heads == 0,
        "%d query heads, %d KV heads", shapes.q_heads, shapes.kv_heads);
  q_heads = heads(Tensor::kQ, member);
  kv_heads = heads(Tensor::kK, member);
}

HeadRange Grid::heads(Tensor tensor, int of_member) const noexcept {
  const HeadRange q{of_member * shapes.q_heads / ulysses, (of_member + 1) * shapes.q_heads / ulysses};
  if (has_query_heads(tensor)) return q;
  const int group = shapes.q_heads / shapes.kv_heads;
  return q.count() == 0 ? HeadRange{} : HeadRange{q.begin / group, (q.end - 1) / group + 1};
}

int Grid::most_heads(Tensor tensor) const noexcept {
  int most = 0;
  for (int m = 0; m < ulysses; ++m) most = std::max(most, heads(tensor, m).count());
  return most;
}

bool Grid::sees(int query_ring, int key_rank, int key_chunk) const noexcept {
  for (int m = 0; m < ulysses; ++m)
    if (visible.any(rank_at(query_ring, m), key_rank, key_chunk)) return true;
  return false;
}

bool Grid::used(Tensor tensor, int of_rank, int chunk) const noexcept {
  return has_query_heads(tensor) ? visible.sees(of_rank, chunk) : visible.seen(of_rank, chunk);
}

Emitter::Emitter(const Grid& the_grid, Program& the_program) : grid(the_grid), program(the_program) {
  program.clear();
  // Tiles, and for each chunk of the group and of the ring the most steps that an exchange and a rotation take.
  const std::size_t chunks = static_cast<std::size_t>(grid.layout.chunks()),
                    ranks = static_cast<std::size_t>(grid.layout.ranks);
  const std::size_t members = static_cast<std::size_t>(grid.ulysses);
  program.steps.reserve(members * ranks * chunks * chunks + (60 * members + 32 * ranks) * chunks + 32);
  program.slots.reserve(32 * members + 4 * ranks + 16);
}

std::int16_t Emitter::slot(Tensor tensor, Index rows, int heads) {
  const Index bytes = rows * heads * width_of(tensor, grid.shapes) * element_bytes_of(tensor, grid.shapes);
  program.slots.push_back({tensor, rows, heads, bytes});
  return static_cast<std::int16_t>(program.slots.size() - 1);
}

std::int16_t Emitter::slots_for_others(Tensor tensor) {
  const auto first = static_cast<std::int16_t>(program.slots.size());
  for (int m = 0; m < grid.ulysses; ++m)
    if (m != grid.member)
      slot(tensor, grid.layout.rows(grid.rank_at(grid.ring_index, m)), grid.heads(tensor, grid.member).count());
  return first;
}

std::int16_t Emitter::slots_for_any_group(Tensor tensor) {
  const auto first = static_cast<std::int16_t>(program.slots.size());
  for (int m = 0; m < grid.ulysses; ++m) slot(tensor, grid.layout.max_rows(), grid.heads(tensor, grid.member).count());
  return first;
}

void Emitter::start(Op op, Axis axis, int peer, const Payload& what, std::int32_t event) {
  CHECK(what.heads.count() > 0 && rows_of(what, grid.layout) > 0, "an empty message of %s", name_of(what.tensor));
  program.steps.push_back({.op = op,
                           .axis = axis,
                           .peer = static_cast<std::int16_t>(peer),
                           .event = event,
                           .collective = collective,
                           .what = what});
}

void Emitter::wait(Axis axis, Events events) {
  for (std::int32_t event = events.begin; event < events.end; ++event)
    program.steps.push_back({.op = Op::kWait, .axis = axis, .event = event, .collective = collective});
}

void Emitter::local(Op op, const Payload& what, const Payload& other) {
  if (what.heads.count() == 0 || rows_of(what, grid.layout) == 0) return;
  program.steps.push_back({.op = op, .what = what, .other = other});
}

void Emitter::zero(const Payload& what) {
  local(Op::kZero, what, {});
}
void Emitter::copy(const Payload& what, const Payload& from) {
  local(Op::kCopy, what, from);
}
void Emitter::add(const Payload& what, const Payload& more) {
  local(Op::kAdd, what, more);
}

void Emitter::attend(const Payload& q, const Payload& k, const std::array<std::int16_t, kTensors>& at) {
  program.steps.push_back({.op = Op::kAttend, .what = q, .other = k, .at = at});
}

void Emitter::finish(const Payload& o, const std::array<std::int16_t, kTensors>& at) {
  program.steps.push_back({.op = Op::kFinish, .what = o, .at = at});
}

Payload home(const Grid& grid, Tensor tensor, std::int16_t chunk) {
  return {tensor, static_cast<std::int16_t>(grid.rank), chunk, kHome, all_heads(tensor, grid.shapes)};
}

namespace {

Payload part_of(const Grid& grid, Tensor tensor, int member, int chunk, const Places& group) {
  return {tensor, static_cast<std::int16_t>(grid.rank_at(grid.ring_index, member)), static_cast<std::int16_t>(chunk),
          group(tensor, member), grid.heads(tensor, grid.member)};
}

}  // namespace

void open_forward(Emitter& emit, Places& group) {
  const Grid& grid = emit.grid;
  for (const Tensor t : {Tensor::kM, Tensor::kL}) emit.zero(home(grid, t));
  group.set_own(Tensor::kOPartial, emit.slot(Tensor::kOPartial, grid.layout.rows(grid.rank), grid.q_heads.count()));
  emit.zero(part_of(grid, Tensor::kOPartial, grid.member, kAllChunks, group));
  for (const Tensor t : {Tensor::kOPartial, Tensor::kM, Tensor::kL}) {
    group.set_others(t, emit.slots_for_others(t));
    for (int m = 0; m < grid.ulysses; ++m)
      if (m != grid.member) emit.zero(part_of(grid, t, m, kAllChunks, group));
  }
}

void open_backward(Emitter& emit, Places& group) {
  const Grid& grid = emit.grid;
  for (const Tensor t : {Tensor::kDQ, Tensor::kDK, Tensor::kDV}) {
    emit.zero(home(grid, t));
    group.set_others(t, emit.slots_for_others(t));
    for (int m = 0; m < grid.ulysses; ++m)
      if (m != grid.member) emit.zero(part_of(grid, t, m, kAllChunks, group));
  }
}

void attend_to(Emitter& emit, const Places& group, int key_ring, const Places& keys) {
  const Grid& grid = emit.grid;
  if (grid.q_heads.count() == 0) return;
  const int chunks = grid.layout.chunks();
  for (int q_member = 0; q_member < grid.ulysses; ++q_member)
    for (int q_chunk = 0; q_chunk < chunks; ++q_chunk)
      for (int k_member = 0; k_member < grid.ulysses; ++k_member)
        for (int k_chunk = 0; k_chunk < chunks; ++k_chunk) {
          const int k_rank = grid.rank_at(key_ring, k_member);
          if (!grid.visible(grid.rank_at(grid.ring_index, q_member), q_chunk, k_rank, k_chunk)) continue;
          std::array<std::int16_t, kTensors> at;
          for (std::size_t t = 0; t < kTensors; ++t) {
            const Tensor tensor = static_cast<Tensor>(t);
            at[t] = has_query_heads(tensor) ? group(tensor, q_member) : keys(tensor, k_member);
          }
          emit.attend(part_of(grid, Tensor::kQ, q_member, q_chunk, group),
                      {Tensor::kK, static_cast<std::int16_t>(k_rank), static_cast<std::int16_t>(k_chunk),
                       keys(Tensor::kK, k_member), grid.kv_heads},
                      at);
        }
}

void close_forward(Emitter& emit, Places& group) {
  const Grid& grid = emit.grid;
  group.set_others(Tensor::kO, emit.slots_for_others(Tensor::kO));
  for (int m = 0; m < grid.ulysses; ++m)
    for (int c = 0; c < grid.layout.chunks(); ++c) {
      if (!grid.visible.sees(grid.rank_at(grid.ring_index, m), c)) {
        if (m == grid.member) emit.zero(home(grid, Tensor::kO, static_cast<std::int16_t>(c)));
        continue;
      }
      if (grid.q_heads.count() == 0) continue;
      auto at = home_everywhere();
      for (const Tensor t : {Tensor::kOPartial, Tensor::kM, Tensor::kL}) at[static_cast<std::size_t>(t)] = group(t, m);
      emit.finish(part_of(grid, Tensor::kO, m, c, group), at);
    }
}

}  // namespace longhaul::strategy::build
