// Steps on symbols.
#include "strategy/simulation.h"

#include <fmt/format.h>

#include <algorithm>

namespace longhaul::strategy {
namespace {

constexpr std::size_t kMostProblems = 20;  // one mistake causes many
using State = Cell::State;

constexpr std::array kStatistic{Tensor::kM, Tensor::kL};
constexpr std::array kPartials{Tensor::kOPartial, Tensor::kM, Tensor::kL};
constexpr std::array kGradients{Tensor::kDQ, Tensor::kDK, Tensor::kDV};

bool is_one_of(std::span<const Tensor> tensors, Tensor tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

}  // namespace

Simulation::Simulation(const std::vector<const Program*>& programs, const Request& request, bool backward,
                       Findings& findings)
    : programs_(programs),
      request_(request),
      backward_(backward),
      findings_(findings),
      ranks_(request.ranks),
      chunks_(request.layout->chunks()),
      pieces_(ranks_ * chunks_) {
  const auto heads = static_cast<std::size_t>(request.shapes.q_heads);
  const auto pieces = static_cast<std::size_t>(pieces_);
  attended_.resize(pieces * pieces * heads);
  finished_.resize(pieces * heads);
  for (int r = 0; r < ranks_; ++r) {
    const Program& program = *programs[static_cast<std::size_t>(r)];
    const auto events = static_cast<std::size_t>(program.events);
    state_.push_back(
        {0, std::vector(events, EventState::kUnused), std::vector<std::size_t>(events), std::vector<bool>(events)});
    contents_.emplace_back(request, program, r, backward);
  }
}

void Simulation::report(std::string text) {
  if (findings_.problems.size() < kMostProblems) findings_.problems.push_back(std::move(text));
}

std::string Simulation::where(int rank, std::size_t step) const {
  return fmt::format("rank {}, {} step {} ({})", rank, backward_ ? "backward" : "forward", step,
                     describe(step_at(rank, step)));
}

void Simulation::report_at(int rank, std::size_t step, const std::string& text) {
  if (findings_.problems.size() < kMostProblems) report(where(rank, step) + ": " + text);
}

bool Simulation::advance(int rank) {
  Rank& self = state_[static_cast<std::size_t>(rank)];
  const std::vector<Step>& steps = programs_[static_cast<std::size_t>(rank)]->steps;
  const std::size_t before = self.next;
  for (; self.next < steps.size(); ++self.next) {
    const Step& step = steps[self.next];
    if (step.op == Op::kWait && step.event >= 0 && static_cast<std::size_t>(step.event) < self.events.size() &&
        self.events[static_cast<std::size_t>(step.event)] == EventState::kStarted)
      break;
    if (const Problem problem = execute(rank, self.next, step)) report_at(rank, self.next, *problem);
  }
  return self.next != before;
}

Simulation::Problem Simulation::execute(int rank, std::size_t index, const Step& step) {
  Contents& here = contents(rank);
  switch (step.op) {
    case Op::kStartSend:
    case Op::kStartReceive:
      return start(rank, index, step);
    case Op::kWait:
      if (step.event < 0 || step.event >= programs_[static_cast<std::size_t>(rank)]->events ||
          state_[static_cast<std::size_t>(rank)].events[static_cast<std::size_t>(step.event)] != EventState::kThrough)
        return fmt::format("event {} was not started, or is waited for again", step.event);
      end_wait(rank, step.event);
      return std::nullopt;
    case Op::kZero:
      return zero(here, step.what);
    case Op::kCopy:
    case Op::kAdd:
      return combine(here, step);
    case Op::kAttend:
      return attend(here, step);
    case Op::kFinish:
      return finish(here, step);
  }
  return "an unknown op";
}

Simulation::Problem Simulation::start(int rank, std::size_t index, const Step& step) {
  const bool is_send = step.op == Op::kStartSend;
  const Payload& what = step.what;
  Rank& self = state_[static_cast<std::size_t>(rank)];
  Contents& here = contents(rank);
  if (step.peer < 0 || step.peer >= ranks_ || step.peer == rank) return fmt::format("there is no peer {}", step.peer);
  if (step.event < 0 || static_cast<std::size_t>(step.event) >= self.events.size() ||
      self.events[static_cast<std::size_t>(step.event)] != EventState::kUnused)
    return fmt::format("event {} is not free", step.event);
  if (auto problem = here.misplaced(what)) return problem;
  if (what.slot == kHome && !(what.heads == all_heads(what.tensor, request_.shapes)))
    return "some heads of home are not contiguous";
  if (what.chunk == kAllChunks) return "a message is of one chunk";
  Problem problem = is_send ? here.unreadable(what) : here.overwrite(what);
  self.events[static_cast<std::size_t>(step.event)] = EventState::kStarted;
  self.started_at[static_cast<std::size_t>(step.event)] = index;
  const bool in_place = !problem.has_value();  // else its bytes are not followed
  self.in_place[static_cast<std::size_t>(step.event)] = in_place;
  if (in_place)
    here.each(what, [&](int c, int h) {
      Cell& cell = here.cell(what, c, h);
      if (is_send)
        ++cell.leaving;
      else
        cell.arriving = true, cell.state = State::kGarbage;
    });
  if (is_send)
    (backward_ ? findings_.bytes_sent_backward : findings_.bytes_sent_forward)[static_cast<std::size_t>(rank)] +=
        bytes_of(what, *request_.layout, request_.shapes);
  const Post post{rank, step.peer, index, is_send, in_place};
  const auto other = std::find_if(posts_.begin(), posts_.end(), [&](const Post& p) {
    if (p.is_send == is_send || p.rank != post.peer || p.peer != rank) return false;
    const Payload& theirs = step_at(p.rank, p.step).what;
    return theirs.tensor == what.tensor && theirs.owner == what.owner && theirs.chunk == what.chunk &&
           theirs.heads == what.heads;
  });
  if (other == posts_.end()) {
    posts_.push_back(post);
  } else {
    is_send ? meet(post, *other) : meet(*other, post);
    posts_.erase(other);
  }
  return problem;
}

// The bytes move.
void Simulation::meet(const Post& send, const Post& receive) {
  const Step& from = step_at(send.rank, send.step);
  const Step& to = step_at(receive.rank, receive.step);
  if (send.in_place && receive.in_place)
    contents(send.rank).each(from.what, [&](int c, int h) {
      Cell& target = contents(receive.rank).cell(to.what, c, h);
      const Cell& source = contents(send.rank).cell(from.what, c, h);
      target.state = source.state;
      target.set = source.set;
    });
  state_[static_cast<std::size_t>(send.rank)].events[static_cast<std::size_t>(from.event)] = EventState::kThrough;
  state_[static_cast<std::size_t>(receive.rank)].events[static_cast<std::size_t>(to.event)] = EventState::kThrough;
}

void Simulation::end_wait(int rank, std::int32_t event) {
  Rank& self = state_[static_cast<std::size_t>(rank)];
  self.events[static_cast<std::size_t>(event)] = EventState::kWaited;
  if (!self.in_place[static_cast<std::size_t>(event)]) return;
  const Step& started = step_at(rank, self.started_at[static_cast<std::size_t>(event)]);
  Contents& here = contents(rank);
  here.each(started.what, [&](int c, int h) {
    Cell& cell = here.cell(started.what, c, h);
    if (started.op == Op::kStartReceive)
      cell.arriving = false;
    else
      --cell.leaving;
  });
}

Simulation::Problem Simulation::zero(Contents& here, const Payload& what) {
  if (!is_one_of(kGradients, what.tensor) && !is_one_of(kPartials, what.tensor) && what.tensor != Tensor::kO)
    return fmt::format("{} is an input", name_of(what.tensor));
  if (auto problem = here.overwrite(what)) return problem;
  here.each(what, [&](int c, int h) {
    Cell& cell = here.cell(what, c, h);
    cell.state = State::kSum;
    cell.set.clear();
  });
  return std::nullopt;
}

// kCopy and kAdd.
Simulation::Problem Simulation::combine(Contents& here, const Step& step) {
  const Payload &what = step.what, &other = step.other;
  if (what.tensor != other.tensor || what.owner != other.owner || what.chunk != other.chunk ||
      !(what.heads == other.heads))
    return "the two sides are not the same rows and heads of the same tensor";
  if (auto problem = here.unreadable(other)) return "from: " + *problem;
  if (step.op == Op::kAdd) {
    if (!is_one_of(kGradients, what.tensor)) return fmt::format("{} is not a sum", name_of(what.tensor));
    if (auto problem = here.unreadable(what)) return "to: " + *problem;
  }
  if (auto problem = here.overwrite(what)) return "to: " + *problem;
  Problem problem;
  here.each(what, [&](int c, int h) {
    Cell& to = here.cell(what, c, h);
    const Cell& from = here.cell(other, c, h);
    if (step.op == Op::kCopy) {
      to.state = from.state;
      to.set = from.set;
      return;
    }
    to.set.resize(std::max(to.set.size(), from.set.size()));
    for (std::size_t i = 0; i < from.set.size(); ++i) {
      if (from.set[i] && to.set[i]) problem = fmt::format("a part of chunk {} head {} would be counted twice", c, h);
      if (from.set[i]) to.set[i] = true;
    }
  });
  return problem;
}

Simulation::Problem Simulation::attend(Contents& here, const Step& step) {
  const Payload &q = step.what, &k = step.other;
  if (q.tensor != Tensor::kQ || k.tensor != Tensor::kK || q.chunk == kAllChunks || k.chunk == kAllChunks)
    return "attends are of one chunk of Q to one chunk of K";
  const auto operand = [&](Tensor tensor) {
    Payload p = has_query_heads(tensor) ? q : k;
    p.tensor = tensor;
    p.slot = step.at[static_cast<std::size_t>(tensor)];
    return p;
  };
  const HeadRange used{q.heads.begin / group(), (q.heads.end - 1) / group() + 1};
  if (used.begin < k.heads.begin || used.end > k.heads.end)
    return fmt::format("query {} use KV {}, not {}", describe(q.heads), describe(used), describe(k.heads));
  for (const Tensor t : {Tensor::kQ, Tensor::kK, Tensor::kV})
    if (auto problem = here.unreadable(operand(t))) return problem;
  if (!tile_visible(piece(q.owner, q.chunk), piece(k.owner, k.chunk))) return "the mask leaves this tile empty";
  for (int h = q.heads.begin; h < q.heads.end; ++h)
    ++attended_[(static_cast<std::size_t>(piece(q.owner, q.chunk)) * static_cast<std::size_t>(pieces_) +
                 static_cast<std::size_t>(piece(k.owner, k.chunk))) *
                    static_cast<std::size_t>(request_.shapes.q_heads) +
                static_cast<std::size_t>(h)];
  if (!backward_) {
    for (const Tensor t : kPartials)
      if (auto problem = take_in(here, operand(t), true, step)) return problem;
    return std::nullopt;
  }
  for (const Tensor t : {Tensor::kDO, Tensor::kDelta, Tensor::kM, Tensor::kL})
    if (auto problem = here.unreadable(operand(t))) return problem;
  for (const Tensor t : kGradients)
    if (auto problem = take_in(here, operand(t), t == Tensor::kDQ, step)) return problem;
  return std::nullopt;
}

// Adds the step's tile to the sums at `what`.
Simulation::Problem Simulation::take_in(Contents& here, const Payload& what, bool query_side, const Step& step) {
  if (auto problem = here.unreadable(what)) return problem;
  if (auto problem = here.overwrite(what)) return fmt::format("{}: {}", name_of(what.tensor), *problem);
  const Payload &q = step.what, &k = step.other;
  for (int h = q.heads.begin; h < q.heads.end; ++h) {
    Cell& cell = here.cell(what, what.chunk, query_side ? h : h / group());
    const auto entry = static_cast<std::size_t>(query_side ? piece(k.owner, k.chunk)
                                                           : piece(q.owner, q.chunk) * group() + h % group());
    if (cell.state != State::kSum) return fmt::format("{} is finished already", name_of(what.tensor));
    if (cell.set.size() <= entry) cell.set.resize(static_cast<std::size_t>(pieces_ * group()));
    if (cell.set[entry]) return fmt::format("{} has taken in this tile before", name_of(what.tensor));
    cell.set[entry] = true;
  }
  return std::nullopt;
}

Simulation::Problem Simulation::finish(Contents& here, const Step& step) {
  if (step.what.tensor != Tensor::kO || backward_) return "only O is finished, in forward";
  const auto operand = [&](Tensor tensor) {
    Payload p = step.what;
    p.tensor = tensor;
    p.slot = step.at[static_cast<std::size_t>(tensor)];
    return p;
  };
  for (const Tensor t : kPartials)
    if (auto problem = here.unreadable(operand(t))) return problem;
  for (const Tensor t : kStatistic)
    if (auto problem = here.overwrite(operand(t))) return problem;
  if (auto problem = here.overwrite(step.what)) return problem;
  Problem problem;
  here.each(step.what, [&](int c, int h) {
    ++finished_[static_cast<std::size_t>(piece(step.what.owner, c) * request_.shapes.q_heads + h)];
    std::vector<bool> want = needed(Tensor::kDQ, step.what.owner, c);
    for (const Tensor t : kPartials) {
      Cell& cell = here.cell(operand(t), c, h);
      if (cell.state != State::kSum) problem = fmt::format("{} is finished already", name_of(t));
      cell.set.resize(want.size());
      if (cell.set != want) problem = fmt::format("{} of chunk {} head {} misses keys", name_of(t), c, h);
      if (t != Tensor::kOPartial) cell.state = State::kFinal;
    }
    here.cell(step.what, c, h).state = State::kFinal;
  });
  return problem;
}

// What must have come together in a sum: of key chunks, or of query chunks and heads in the group.
std::vector<bool> Simulation::needed(Tensor tensor, int owner, int chunk) const {
  std::vector<bool> set(static_cast<std::size_t>(pieces_ * group()));
  for (int other = 0; other < pieces_; ++other) {
    if (has_query_heads(tensor)) {
      set[static_cast<std::size_t>(other)] = tile_visible(piece(owner, chunk), other);
    } else if (tile_visible(other, piece(owner, chunk))) {
      for (int i = 0; i < group(); ++i) set[static_cast<std::size_t>(other * group() + i)] = true;
    }
  }
  return set;
}

}  // namespace longhaul::strategy
