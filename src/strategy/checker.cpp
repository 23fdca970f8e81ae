// Judges what the programs of all ranks did.
#include "strategy/checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/simulation.h"

namespace longhaul::strategy {

using State = Cell::State;

void Simulation::run() {
  check_slots();
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks_; ++r) moved = advance(r) || moved;
  }
  check_ends();
  check_tiles();
  for (int r = 0; r < ranks_; ++r) check_home(r);
}

void Simulation::check_slots() {
  for (int r = 0; r < ranks_; ++r) {
    const Program& program = *programs_[static_cast<std::size_t>(r)];
    for (std::size_t s = 0; s < program.slots.size(); ++s) {
      const Slot& slot = program.slots[s];
      const Index want = slot.rows * slot.heads * width_of(slot.tensor, request_.shapes) *
                         element_bytes_of(slot.tensor, request_.shapes);
      if (slot.bytes != want)
        report(fmt::format("rank {}: slot {} says {} bytes, it needs {}", r, s, slot.bytes, want));
    }
  }
}

// Every rank came to its end, every message met another, every event was waited for.
void Simulation::check_ends() {
  for (int r = 0; r < ranks_; ++r) {
    const Rank& self = state_[static_cast<std::size_t>(r)];
    if (self.next < programs_[static_cast<std::size_t>(r)]->steps.size()) {
      const std::int32_t event = step_at(r, self.next).event;
      report_at(
          r, self.next,
          "deadlock, it waits for ever for: " + describe(step_at(r, self.started_at[static_cast<std::size_t>(event)])));
    } else {
      for (std::size_t e = 0; e < self.events.size(); ++e)
        if (self.events[e] == EventState::kStarted || self.events[e] == EventState::kThrough)
          report_at(r, self.started_at[e], "it is never waited for");
    }
  }
  for (const Post& p : posts_)
    report_at(p.rank, p.step, fmt::format("rank {} has no {} for it", p.peer, p.is_send ? "receive" : "send"));
}

void Simulation::check_tiles() {
  const int heads = request_.shapes.q_heads;
  const char* pass = backward_ ? "backward" : "forward";
  for (int q = 0; q < pieces_; ++q) {
    for (int k = 0; k < pieces_; ++k)
      for (int h = 0; h < heads; ++h) {
        const int times = attended_[static_cast<std::size_t>((q * pieces_ + k) * heads + h)];
        if (times != tile_visible(q, k))
          report(fmt::format("{}: queries of rank {} chunk {} head {} attend {} times, not {}, to rank {} chunk {}",
                             pass, q / chunks_, q % chunks_, h, times, int(tile_visible(q, k)), k / chunks_,
                             k % chunks_));
      }
    if (backward_) continue;
    for (int h = 0; h < heads; ++h) {
      const int times = finished_[static_cast<std::size_t>(q * heads + h)];
      const bool sees = request_.visible->sees(q / chunks_, q % chunks_);
      if (times > 1 || (sees && times == 0))
        report(fmt::format("forward: queries of rank {} chunk {} head {} are finished {} times", q / chunks_,
                           q % chunks_, h, times));
    }
  }
}

// The outputs are at home, complete.
void Simulation::check_home(int rank) {
  Contents& here = contents(rank);
  const char* pass = backward_ ? "backward" : "forward";
  for (const Tensor t :
       backward_ ? std::array{Tensor::kDQ, Tensor::kDK, Tensor::kDV} : std::array{Tensor::kO, Tensor::kM, Tensor::kL}) {
    const Payload all{t, static_cast<std::int16_t>(rank), kAllChunks, kHome, all_heads(t, request_.shapes)};
    here.each(all, [&](int c, int h) {
      Cell& cell = here.cell(all, c, h);
      std::vector<bool> want = needed(backward_ ? t : Tensor::kDQ, rank, c);
      const bool empty = std::find(want.begin(), want.end(), true) == want.end();
      if (cell.state == State::kSum) cell.set.resize(want.size());
      const bool ok = cell.arriving ? false
                      : backward_   ? cell.state == State::kSum && cell.set == want
                                    : cell.state == State::kFinal || (empty && cell.state == State::kSum);
      if (!ok)
        report(fmt::format("{}: {} of rank {} chunk {} head {} is not complete at home", pass, name_of(t), rank, c, h));
    });
  }
}

Findings check(const std::vector<Schedule>& schedules, const Request& request) {
  Findings findings;
  const auto ranks = static_cast<std::size_t>(request.ranks);
  CHECK(schedules.size() == ranks, "%zu schedules for %zu ranks", schedules.size(), ranks);
  findings.bytes_sent_forward.resize(ranks);
  findings.bytes_sent_backward.resize(ranks);
  std::vector<const Program*> programs(ranks);
  for (std::size_t r = 0; r < ranks; ++r) programs[r] = &schedules[r].forward;
  Simulation(programs, request, false, findings).run();
  for (std::size_t r = 0; r < ranks; ++r) programs[r] = &schedules[r].backward;
  Simulation(programs, request, true, findings).run();
  return findings;
}

}  // namespace longhaul::strategy
