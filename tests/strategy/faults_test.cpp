// Planted faults: one-line errors in correct schedules, each of which the checker must find.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cases.h"

namespace longhaul::strategy {
namespace {

const Case kRing{.strategy = "ring", .ranks = 4, .mask = MaskCase::kFull, .length = 16};
const Case kUlysses{.strategy = "ulysses", .ranks = 3, .mask = MaskCase::kFull, .length = 12, .q_heads = 8};
const Case kUsp{.strategy = "usp", .ranks = 4, .ulysses = 2, .length = 16, .q_heads = 5, .kv_heads = 1};

// The unchanged schedules pass, these do not, and some finding says `what`.
void expect_found(const World& world, const std::string& what) {
  const Findings findings = world.check_all();
  EXPECT_FALSE(findings.problems.empty());
  const bool said = std::any_of(findings.problems.begin(), findings.problems.end(),
                                [&](const std::string& p) { return p.find(what) != std::string::npos; });
  std::string all;
  for (const std::string& p : findings.problems) all += "\n  " + p;
  EXPECT_TRUE(said) << "no finding says \"" << what << "\":" << all;
}

struct PlantedFaults : testing::Test {
  // Worlds are made of sound schedules.
  static void expect_sound(const World& world) { ASSERT_TRUE(world.check_all().problems.empty()); }
};

Program& forward(World& world, int rank) {
  return world.schedules[static_cast<std::size_t>(rank)].forward;
}
Program& backward(World& world, int rank) {
  return world.schedules[static_cast<std::size_t>(rank)].backward;
}
std::int16_t& slot_of(Step& step, Tensor tensor) {
  return step.at[static_cast<std::size_t>(tensor)];
}

using Matches = std::function<bool(const Step&)>;

Step& find(Program& program, const Matches& matches, int skip = 0) {
  for (Step& step : program.steps)
    if (matches(step) && skip-- == 0) return step;
  ADD_FAILURE() << "no such step";
  return program.steps.front();
}

// Removes steps, and the waits for what they start.
void drop(Program& program, const Matches& matches) {
  std::vector<std::int32_t> events;
  for (const Step& step : program.steps)
    if (matches(step) && step.event >= 0) events.push_back(step.event);
  const auto gone = std::remove_if(program.steps.begin(), program.steps.end(), [&](const Step& step) {
    return matches(step) || (step.op == Op::kWait && std::count(events.begin(), events.end(), step.event) > 0);
  });
  EXPECT_NE(gone, program.steps.end()) << "nothing to drop";
  program.steps.erase(gone, program.steps.end());
}

bool is_attend(const Step& step) {
  return step.op == Op::kAttend;
}

TEST_F(PlantedFaults, StaleKvForward) {
  World world(kRing);
  expect_sound(world);
  Step& last = find(forward(world, 1), is_attend, 3);
  const Step& before = find(forward(world, 1), is_attend, 2);
  last.at = before.at;  // the buffer of the hop before
  expect_found(world, "rank 1, forward step");
  expect_found(world, "holds rank 3 heads 0-1, not rank 2 heads 0-1");
}

TEST_F(PlantedFaults, StaleKvBackward) {
  World world(kRing);
  expect_sound(world);
  Step& last = find(backward(world, 1), is_attend, 3);
  Step& before = find(backward(world, 1), is_attend, 2);
  for (const Tensor t : {Tensor::kK, Tensor::kV}) slot_of(last, t) = slot_of(before, t);
  expect_found(world, "rank 1, backward step");
  expect_found(world, "holds rank 3 heads 0-1, not rank 2 heads 0-1");
}

TEST_F(PlantedFaults, HopShort) {
  World world(kRing);
  expect_sound(world);
  for (int r = 0; r < 4; ++r) {
    const int reached = (r + 3) % 4;  // by r's keys at the last hop
    drop(forward(world, reached), [&](const Step& s) {
      return (s.op == Op::kStartReceive && s.what.owner == r) || (is_attend(s) && s.other.owner == r);
    });
    drop(forward(world, (r + 2) % 4), [&](const Step& s) { return s.op == Op::kStartSend && s.what.owner == r; });
  }
  expect_found(world, "attend 0 times, not 1");
  expect_found(world, "misses keys");
}

TEST_F(PlantedFaults, HopTooMany) {
  World world(kRing);
  expect_sound(world);
  for (int r = 0; r < 4; ++r) {  // a fourth hop: every rank's keys come home
    Program& program = forward(world, r);
    const Step last = find(program, is_attend, 3);
    const auto finish =
        std::find_if(program.steps.begin(), program.steps.end(), [](const Step& s) { return s.op == Op::kFinish; });
    std::vector<Step> hop;
    for (const Tensor t : {Tensor::kK, Tensor::kV}) {
      Payload mine = find(program, [&](const Step& s) { return s.op == Op::kStartSend && s.what.tensor == t; }).what;
      mine.slot = find(program, is_attend, 2).at[static_cast<std::size_t>(t)];
      Payload held = mine;
      held.owner = static_cast<std::int16_t>((r + 1) % 4), held.slot = last.at[static_cast<std::size_t>(t)];
      hop.push_back(
          {.op = Op::kStartReceive, .peer = std::int16_t((r + 3) % 4), .event = program.events++, .what = mine});
      hop.push_back({.op = Op::kStartSend, .peer = std::int16_t((r + 1) % 4), .event = program.events++, .what = held});
    }
    for (std::int32_t e = program.events - 4; e < program.events; ++e) hop.push_back({.op = Op::kWait, .event = e});
    Step attend = last;
    attend.other.owner = static_cast<std::int16_t>(r);
    for (const Tensor t : {Tensor::kK, Tensor::kV}) slot_of(attend, t) = slot_of(find(program, is_attend, 2), t);
    hop.push_back(attend);
    program.steps.insert(finish, hop.begin(), hop.end());
  }
  expect_found(world, "has taken in this tile before");
  expect_found(world, "attend 2 times, not 1");
}

TEST_F(PlantedFaults, GradientToWrongNeighbour) {
  World world(kRing);
  expect_sound(world);
  find(backward(world, 2), [](const Step& s) { return s.op == Op::kStartSend && s.what.tensor == Tensor::kDK; }).peer =
      1;
  expect_found(world, "rank 1 has no receive for it");
}

TEST_F(PlantedFaults, LastGradientHopDropped) {
  World world(kRing);
  expect_sound(world);
  for (int r = 0; r < 4; ++r)  // neither sent home nor awaited there
    drop(backward(world, r), [&](const Step& s) {
      return (s.op == Op::kStartReceive && s.what.owner == r) || (s.op == Op::kAdd && s.what.owner == r) ||
             (s.op == Op::kStartSend && s.what.tensor >= Tensor::kDK && s.what.owner == s.peer);
    });
  expect_found(world, "dK of rank 0 chunk 0 head 0 is not complete at home");
}

TEST_F(PlantedFaults, WrongHeadRange) {
  World world(kUlysses);  // 8 query and 2 KV heads on 3 ranks: rank 1 has query heads 2-4 and so KV heads 0-1
  expect_sound(world);
  for (Step& s : forward(world, 1).steps)
    if (is_attend(s)) s.other.heads = {0, 1};  // as if KV heads were cut like query heads
  expect_found(world, "query heads 2-4 use KV heads 0-1, not head 0");
}

TEST_F(PlantedFaults, KvReplicatedBeforeRing) {
  World world(kUsp);  // both members of a group use the one KV head
  expect_sound(world);
  Program& program = backward(world, 0);
  const auto last = std::find_if(program.steps.rbegin(), program.steps.rend(),
                                 [](const Step& s) { return s.op == Op::kAdd && s.what.tensor == Tensor::kDK; });
  program.steps.insert(last.base(), *last);  // as if each replica were a head with a gradient of its own
  expect_found(world, "would be counted twice");
}

TEST_F(PlantedFaults, UnpairedMessage) {
  World world(kRing);
  expect_sound(world);
  drop(forward(world, 2),
       [](const Step& s) { return s.op == Op::kStartSend && s.what.tensor == Tensor::kV && s.what.owner == 2; });
  expect_found(world, "rank 3, forward step");
  expect_found(world, "rank 2 has no send for it");
}

TEST_F(PlantedFaults, TileSkippedByLocalData) {
  Case c = kRing;
  c.mask = MaskCase::kSorted, c.length = 32;
  World world(c);
  expect_sound(world);
  Visibility own;  // rank 3 takes the documents of others for its own first document
  std::vector<std::vector<Token>> shards = world.shards;
  for (int r = 0; r < 3; ++r)
    for (Token& token : shards[static_cast<std::size_t>(r)]) token.document = shards[3][0].document + 1;
  own.rebuild(world.layout, {}, shards);
  Request request = world.request;
  request.rank = 3;
  request.visible = &own;
  ring(request, world.schedules[3]);
  expect_found(world, "rank 3");
}

TEST_F(PlantedFaults, ZigzagOffByOne) {
  Case c = kRing;
  c.layout = LayoutKind::kZigzag, c.mask = MaskCase::kCausal;
  World world(c);
  expect_sound(world);
  std::vector<std::vector<Token>> shards = world.shards;
  for (int r = 0; r < 4; ++r)  // rank r's late piece is 2N-2-r
    for (std::size_t i = 2; i < 4; ++i) shards[std::size_t(r)][i] = world.shards[std::size_t(r + 1) % 4][i];
  Visibility wrong;
  wrong.rebuild(world.layout, {}, shards);
  const Visibility* right = world.request.visible;
  world.request.visible = &wrong;
  world.build(ring);
  world.request.visible = right;
  expect_found(world, "attend 0 times, not 1");
  expect_found(world, "the mask leaves this tile empty");
}

TEST_F(PlantedFaults, ReadBeforeItsWait) {
  World world(kRing);
  expect_sound(world);
  std::vector<Step>& steps = forward(world, 0).steps;
  const auto second =
      std::find_if(steps.begin(), steps.end(), [](const Step& s) { return is_attend(s) && s.other.owner == 3; });
  const std::int32_t event = find(forward(world, 0), [](const Step& s) {
                               return s.op == Op::kStartReceive && s.what.tensor == Tensor::kV && s.what.owner == 3;
                             }).event;
  const auto wait =
      std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.op == Op::kWait && s.event == event; });
  ASSERT_LT(wait, second);
  std::rotate(wait, wait + 1, second + 1);  // the wait comes after the attend
  expect_found(world, "is still on its way");
}

TEST_F(PlantedFaults, OverwrittenWhileLeaving) {
  World world(kUlysses);
  expect_sound(world);
  Program& program = forward(world, 0);  // the wait for the first packed keys moves to the end
  const std::int32_t event =
      find(program, [](const Step& s) { return s.op == Op::kStartSend && s.what.slot != kHome; }).event;
  const auto wait = std::find_if(program.steps.begin(), program.steps.end(),
                                 [&](const Step& s) { return s.op == Op::kWait && s.event == event; });
  std::rotate(wait, wait + 1, program.steps.end());
  const Payload packed = find(program, [](const Step& s) { return s.op == Op::kCopy; }).what;
  program.steps.insert(
      program.steps.end() - 1,
      {.op = Op::kCopy, .what = packed, .other = find(program, [](const Step& s) { return s.op == Op::kCopy; }).other});
  expect_found(world, "a message is still leaving from there");
}

TEST_F(PlantedFaults, SendsAwaitedBeforeReceivesStart) {
  World world(kRing);
  expect_sound(world);
  for (int r = 0; r < 4; ++r) {  // every rank sends first and waits for it: nobody receives
    std::vector<Step>& steps = forward(world, r).steps;
    const auto send = std::find_if(steps.begin(), steps.end(), [](const Step& s) { return s.op == Op::kStartSend; });
    const auto wait = std::find_if(steps.begin(), steps.end(),
                                   [&](const Step& s) { return s.op == Op::kWait && s.event == send->event; });
    std::rotate(send + 1, wait, wait + 1);
  }
  expect_found(world, "deadlock, it waits for ever for: send K of rank 0 chunk 0 heads 0-1 at home to rank 1");
}

TEST_F(PlantedFaults, SlotTooSmall) {
  World world(kRing);
  expect_sound(world);
  Slot& slot = forward(world, 0).slots[std::size_t(slot_of(find(forward(world, 0), is_attend, 1), Tensor::kK))];
  slot.rows -= 1;
  slot.bytes -= slot.bytes / (slot.rows + 1);
  expect_found(world, "too few for 4 x 2");
}

TEST_F(PlantedFaults, FinishedTwice) {
  World world(kRing);
  expect_sound(world);
  std::vector<Step>& steps = forward(world, 0).steps;
  steps.push_back(steps.back());  // sinks would be counted twice
  expect_found(world, "is finished already");
  expect_found(world, "are finished 2 times");
}

TEST_F(PlantedFaults, ResultNotTakenHome) {
  World world(kUlysses);
  expect_sound(world);
  drop(forward(world, 2),
       [](const Step& s) { return s.op == Op::kCopy && s.what.tensor == Tensor::kL && s.what.slot == kHome; });
  expect_found(world, "l of rank 2 chunk 0 head 0 is not complete at home");
}

TEST_F(PlantedFaults, GradientsNotZeroed) {
  World world(kRing);
  expect_sound(world);
  drop(backward(world, 0), [](const Step& s) { return s.op == Op::kZero && s.what.tensor == Tensor::kDQ; });
  expect_found(world, "dQ of rank 0 chunk 0 head 0 is not there");
}

TEST_F(PlantedFaults, PartOfHomeAsOneMessage) {
  World world(kUlysses);
  expect_sound(world);
  find(forward(world, 0), [](const Step& s) { return s.op == Op::kStartSend && s.what.slot != kHome; }).what.slot =
      kHome;
  expect_found(world, "some heads of home are not contiguous");
}

}  // namespace
}  // namespace longhaul::strategy
