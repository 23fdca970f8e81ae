// Builds the schedules of the candidates and weighs them.
#include "plan/strategy_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/size.h"
#include "plan/memory.h"
#include "spec/flops.h"
#include "strategy/mesh.h"

namespace longhaul::plan {
namespace {

using strategy::LayoutKind;

// In the order of preference: large chunks first, then the balance of causal masks.
constexpr std::array kLayouts = {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped};
// Every rank's schedule would take too long in large groups: ranks at both ends and in the middle stand for all.
constexpr int kSmallGroup = 64;

int most_to_weigh(int ranks) {
  return ranks <= kSmallGroup ? 12 : 3;
}
int most_to_place(int ranks) {
  return ranks <= kSmallGroup ? ranks : 12;
}
constexpr double kTie = 1.02;  // times within 2 % of each other count as equal

std::vector<int> some_ranks(int ranks, int most) {
  std::vector<int> some;
  const int each = most / 3;
  for (int r = 0; r < ranks; ++r) {
    const int from_middle = r - (ranks - each) / 2;
    if (ranks <= most || r < each || r >= ranks - each || (0 <= from_middle && from_middle < each)) some.push_back(r);
  }
  return some;
}

double pairs_of(const strategy::Layout& layout, const MaskSpec& mask, int rank) {
  double pairs = 0;
  for (int c = 0; c < layout.chunks(); ++c) {
    const strategy::Chunk chunk = layout.chunk(rank, c);
    pairs += spec::visible_pairs(mask, layout.length, {chunk.first, chunk.count, chunk.step});
  }
  return pairs;
}

// What a rank sends: all, and what belongs to a collective or an all-to-all, which nothing overlaps.
struct Sent {
  Index all = 0, exposed = 0;
};
Sent bytes_sent(const strategy::Schedule& schedule, const strategy::Layout& layout, const strategy::Shapes& shapes) {
  Sent sent;
  for (const strategy::Program* p : {&schedule.forward, &schedule.backward})
    for (const strategy::Step& s : p->steps) {
      if (s.op != strategy::Op::kStartSend) continue;
      const Index bytes = strategy::bytes_of(s.what, layout, shapes);
      sent.all += bytes;
      if (s.collective != 0 || s.axis == strategy::Axis::kUlysses) sent.exposed += bytes;
    }
  return sent;
}

// Work of each rank in pairs times its share of the query heads: the ranks of a group of `ulysses` have all of the
// group's rows for some heads.
void weigh_work(const ChoiceRequest& r, const strategy::Layout& layout, Choice& c) {
  const int groups = r.ranks / c.ulysses;
  double most = 0, sum = 0;
  for (int g = 0; g < groups; ++g) {
    double pairs = 0;
    for (int m = 0; m < c.ulysses; ++m) pairs += pairs_of(layout, r.mask, g * c.ulysses + m);
    sum += pairs;
    const int heads = (r.shapes.q_heads + c.ulysses - 1) / c.ulysses;  // of the member with the most
    most = std::max(most, pairs * heads / r.shapes.q_heads);
  }
  c.pairs = most;
  c.balance = sum > 0 ? most * r.ranks / sum : 1;
}

// Calls see(schedule, layout) for some ranks' schedules under a mask.
template <class See>
void look_at(const ChoiceRequest& r, const Choice& c, const MaskSpec& mask, int ranks_looked_at, See&& see) {
  const strategy::Layout layout{c.layout, r.length, r.ranks};
  strategy::Visibility visible;
  visible.assume_one_document(layout, mask);
  strategy::Schedule schedule;
  for (int rank : some_ranks(r.ranks, ranks_looked_at)) {
    c.strategy->build({rank, r.ranks, c.ulysses, r.shapes, &layout, &visible}, schedule);
    see(schedule, layout);
  }
}

// Slots are at most those of a mask that needs everything.
Index slots_under_any_mask(const ChoiceRequest& r, const Choice& c, int ranks_looked_at) {
  Index most = 0;
  look_at(r, c, {Order::kFull, 0, 0}, ranks_looked_at,
          [&](const strategy::Schedule& s, const strategy::Layout&) { most = std::max(most, slot_bytes_of(s)); });
  return most;
}

void weigh(const ChoiceRequest& r, Choice& c) {
  look_at(r, c, r.mask, most_to_weigh(r.ranks), [&](const strategy::Schedule& s, const strategy::Layout& layout) {
    const Sent sent = bytes_sent(s, layout, r.shapes);
    c.bytes = std::max(c.bytes, sent.all), c.exposed_bytes = std::max(c.exposed_bytes, sent.exposed);
  });
  c.slot_bytes = slots_under_any_mask(r, c, most_to_weigh(r.ranks));
  weigh_work(r, {c.layout, r.length, r.ranks}, c);
  // Two products forward, five backward; what goes round a ring does so meanwhile.
  const double work = 7.0 * c.pairs * r.shapes.q_heads * (r.shapes.d_qk + r.shapes.d_v) / r.rates.flops;
  const double hidden = static_cast<double>(c.bytes - c.exposed_bytes) / r.rates.bytes;
  c.seconds = std::max(work, hidden) + static_cast<double>(c.exposed_bytes) / r.rates.bytes;
}

// Ulysses degrees of usp worth a look: divisors that also divide the KV heads, so that no key is sent twice.
std::vector<int> usp_degrees(const ChoiceRequest& r) {
  if (r.ulysses > 0) return {r.ulysses};
  std::vector<int> degrees;
  for (int u = 2; u < r.ranks; ++u)
    if (r.ranks % u == 0 && r.shapes.kv_heads % u == 0) degrees.push_back(u);
  if (degrees.empty() && r.strategy == "usp") degrees.push_back(strategy::balanced_ulysses(r.ranks));
  return degrees;
}

std::vector<LayoutKind> layouts_for(const ChoiceRequest& r, std::string_view strategy_name) {
  for (LayoutKind kind : kLayouts)
    if (r.layout == name_of(kind)) return {kind};
  // Every rank has all rows for some of the heads, or all rows: the layout changes no work, and large chunks are best.
  if (strategy_name == "ulysses" || strategy_name == "single") return {LayoutKind::kContiguous};
  return {kLayouts.begin(), kLayouts.end()};
}

std::vector<Choice> candidates(const ChoiceRequest& r) {
  std::vector<Choice> all;
  const auto add = [&](const char* name, int ulysses) {
    const strategy::StrategyEntry* entry = strategy::find_strategy(name);
    CHECK(entry != nullptr, "no strategy %s", name);
    if (r.strategy != "auto" && r.strategy != name) return;
    for (LayoutKind layout : layouts_for(r, name)) {
      Choice c;
      c.strategy = entry, c.layout = layout, c.ulysses = ulysses;
      all.push_back(c);
    }
  };
  if (r.ranks == 1 && r.strategy == "auto") {
    add("single", 1);
    return all;
  }
  if (r.ranks == 1) add("single", 1);
  const bool usp_asked = r.strategy == "auto" && r.ulysses > 0;
  if (!usp_asked) {
    add("ring", 1);
    add("all_gather", 1);
    if (r.strategy == "ulysses" || r.shapes.kv_heads % r.ranks == 0) add("ulysses", r.ranks);
  }
  for (int u : usp_degrees(r)) add("usp", u);
  return all;
}

std::string bytes_text(const Choice& c) {
  return fmt::format("{} sent, {} of buffers", format_bytes(c.bytes), format_bytes(c.slot_bytes));
}

// Clauses with semicolons between them.
std::string reason_for(const ChoiceRequest& r, const Choice& best, const std::vector<Choice>& all) {
  if (r.ranks == 1) return "one rank has the whole sequence";
  std::string text =
      fmt::format("{}a rank and attention: {}", r.strategy == "auto" ? "" : "as asked; ", bytes_text(best));
  for (const char* other : {"ring", "all_gather", "ulysses", "usp"}) {
    const Choice* rival = nullptr;
    for (const Choice& c : all)
      if (other == std::string_view(c.strategy->name) && c.strategy != best.strategy &&
          (rival == nullptr || c.seconds < rival->seconds))
        rival = &c;
    if (rival != nullptr) text += fmt::format("; {} would have {}", other, bytes_text(*rival));
  }
  text += fmt::format("; the busiest rank has {:.2f} times the mean work", best.balance);
  std::string layouts;
  for (const Choice& c : all)
    if (c.strategy == best.strategy && c.ulysses == best.ulysses && c.layout != best.layout)
      layouts += fmt::format("{}{} {:.2f}", layouts.empty() ? "" : ", ", name_of(c.layout), c.balance);
  return layouts.empty() ? text : text + fmt::format(" (layouts: {})", layouts);
}

}  // namespace

const char* name_of(LayoutKind kind) noexcept {
  return kind == LayoutKind::kContiguous ? "contiguous" : kind == LayoutKind::kZigzag ? "zigzag" : "striped";
}

Index slot_bytes_of(const strategy::Schedule& schedule) noexcept {
  Index most = 0;
  for (const strategy::Program* p : {&schedule.forward, &schedule.backward}) {
    Index bytes = 0;
    for (const strategy::Slot& s : p->slots) bytes += align_up(s.bytes);
    most = std::max(most, bytes);
  }
  return most;
}

Choice choose_strategy(const ChoiceRequest& r) {
  if (r.strategy == "single" && r.ranks > 1)
    throw input_error(fmt::format("strategy single with {} ranks that share a sequence", r.ranks), "--strategy",
                      fmt::format("set --context-parallel 1 and --data-parallel {}, or another strategy", r.ranks));
  std::vector<Choice> all = candidates(r);
  CHECK(!all.empty(), "no candidate for strategy %.*s", static_cast<int>(r.strategy.size()), r.strategy.data());
  double least = -1;
  for (Choice& c : all) {
    weigh(r, c);
    if (least < 0 || c.seconds < least) least = c.seconds;
  }
  const Choice* best = nullptr;
  for (const Choice& c : all) {
    if (c.seconds > kTie * least) continue;
    if (best == nullptr || c.bytes + c.slot_bytes < best->bytes + best->slot_bytes) best = &c;
  }
  Choice chosen = *best;
  chosen.slot_bytes = slots_under_any_mask(r, chosen, most_to_place(r.ranks));
  chosen.reason = reason_for(r, chosen, all);
  return chosen;
}

}  // namespace longhaul::plan
