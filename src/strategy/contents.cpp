// Symbolic contents of a rank's memory.
#include "strategy/contents.h"

#include <fmt/format.h>

namespace longhaul::strategy {
namespace {

bool given(Tensor tensor, bool backward) {
  switch (tensor) {
    case Tensor::kQ:
    case Tensor::kK:
    case Tensor::kV:
      return true;
    case Tensor::kDO:
    case Tensor::kDelta:
    case Tensor::kM:
    case Tensor::kL:
      return backward;
    default:
      return false;
  }
}

bool has_home(Tensor tensor, bool backward) {
  switch (tensor) {
    case Tensor::kO:
      return !backward;
    case Tensor::kM:
    case Tensor::kL:
      return true;
    case Tensor::kDQ:
    case Tensor::kDK:
    case Tensor::kDV:
      return backward;
    default:
      return given(tensor, backward);
  }
}

}  // namespace

Contents::Contents(const Request& request, const Program& program, int rank, bool backward)
    : layout_(*request.layout),
      program_(program),
      shapes_(request.shapes),
      rank_(rank),
      home_(kTensors),
      slots_(program.slots.size()) {
  for (std::size_t t = 0; t < kTensors; ++t) {
    const Tensor tensor = static_cast<Tensor>(t);
    if (!has_home(tensor, backward)) continue;
    const HeadRange heads = all_heads(tensor, shapes_);
    Cell cell;
    if (given(tensor, backward))
      cell.state = tensor == Tensor::kM || tensor == Tensor::kL ? Cell::State::kFinal : Cell::State::kWhole;
    home_[t] = {rank, heads, std::vector<Cell>(static_cast<std::size_t>(layout_.chunks() * heads.count()), cell)};
  }
}

const Contents::Area& Contents::area(const Payload& what) const {
  return what.slot == kHome ? home_[static_cast<std::size_t>(what.tensor)]
                            : slots_[static_cast<std::size_t>(what.slot)];
}

const Cell& Contents::cell(const Payload& what, int chunk, int head) const {
  const Area& a = area(what);
  return a.cells[static_cast<std::size_t>(chunk * a.heads.count() + head - a.heads.begin)];
}

Cell& Contents::cell(const Payload& what, int chunk, int head) {
  return const_cast<Cell&>(static_cast<const Contents&>(*this).cell(what, chunk, head));
}

std::optional<std::string> Contents::misplaced(const Payload& what) const {
  if (what.owner < 0 || what.owner >= layout_.ranks) return fmt::format("there is no rank {}", what.owner);
  if (what.chunk != kAllChunks && (what.chunk < 0 || what.chunk >= layout_.chunks()))
    return fmt::format("there is no chunk {}", what.chunk);
  const HeadRange all = all_heads(what.tensor, shapes_);
  if (what.heads.begin < all.begin || what.heads.end > all.end || what.heads.count() <= 0)
    return fmt::format("{} has {}, not {}", name_of(what.tensor), describe(all), describe(what.heads));
  if (rows_of(what, layout_) == 0) return "it has no rows";
  if (what.slot == kHome) {
    if (what.owner != rank_) return fmt::format("rank {}'s shard is not at home on rank {}", what.owner, rank_);
    if (area(what).cells.empty()) return fmt::format("{} has no home in this program", name_of(what.tensor));
    return std::nullopt;
  }
  if (what.slot < 0 || static_cast<std::size_t>(what.slot) >= slots_.size())
    return fmt::format("there is no slot {}", what.slot);
  const Slot& slot = program_.slots[static_cast<std::size_t>(what.slot)];
  if (slot.tensor != what.tensor)
    return fmt::format("slot {} is for {}, not {}", what.slot, name_of(slot.tensor), name_of(what.tensor));
  if (layout_.rows(what.owner) > slot.rows || what.heads.count() > slot.heads)
    return fmt::format("slot {} has {} rows x {} heads, too few for {} x {}", what.slot, slot.rows, slot.heads,
                       layout_.rows(what.owner), what.heads.count());
  return std::nullopt;
}

std::optional<std::string> Contents::unreadable(const Payload& what) const {
  if (auto problem = misplaced(what)) return problem;
  const Area& a = area(what);
  if (what.slot != kHome) {
    if (a.owner < 0) return fmt::format("slot {} holds nothing yet", what.slot);
    if (a.owner != what.owner || !(a.heads == what.heads))
      return fmt::format("slot {} holds rank {} {}, not rank {} {}", what.slot, a.owner, describe(a.heads), what.owner,
                         describe(what.heads));
  }
  std::optional<std::string> problem;
  each(what, [&](int c, int h) {
    const Cell& held = cell(what, c, h);
    if (problem) return;
    if (held.arriving)
      problem = fmt::format("{} of rank {} chunk {} is still on its way", name_of(what.tensor), what.owner, c);
    else if (held.state == Cell::State::kGarbage)
      problem = fmt::format("{} of rank {} chunk {} head {} is not there", name_of(what.tensor), what.owner, c, h);
  });
  return problem;
}

std::optional<std::string> Contents::overwrite(const Payload& what) {
  if (auto problem = misplaced(what)) return problem;
  std::optional<std::string> problem;
  const auto check = [&](const Cell& cell) {
    if (cell.arriving) problem = "a message is still arriving there";
    if (cell.leaving > 0) problem = "a message is still leaving from there";
  };
  Area& a = const_cast<Area&>(area(what));
  if (what.slot == kHome || (a.owner == what.owner && a.heads == what.heads)) {
    each(what, [&](int c, int h) { check(cell(what, c, h)); });
  } else {  // what it held before is laid out in another way: all of it is lost
    for (const Cell& cell : a.cells) check(cell);
    if (problem) return problem;
    a.owner = what.owner;
    a.heads = what.heads;
    a.cells.assign(static_cast<std::size_t>(layout_.chunks() * what.heads.count()), Cell{});
  }
  return problem;
}

}  // namespace longhaul::strategy
