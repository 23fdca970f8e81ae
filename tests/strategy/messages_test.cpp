// What travels, when, and how much of it: bytes by formula, rotations, halos, overlap, slots.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "cases.h"

namespace longhaul::strategy {
namespace {

Index total(const std::vector<Index>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Index{0});
}
bool is_key(Tensor t) {
  return t == Tensor::kK || t == Tensor::kV;
}

// cases.cpp: widths 3 (q, k) and 4 (v, o), 2 bytes of storage, 4 of partial results.
constexpr Index kKeyBytes = (3 + 4) * 2, kKeyGradientBytes = (3 + 4) * 4;  // a row and KV head

TEST(Messages, BytesOfARingAndOfAnAllGather) {
  for (const char* strategy : {"ring", "all_gather"})
    for (const LayoutKind layout : kLayouts)
      for (int ranks = 1; ranks <= 8; ++ranks) {
        const World world({.strategy = strategy,
                           .layout = layout,
                           .ranks = ranks,
                           .mask = MaskCase::kFull,
                           .length = 37,
                           .q_heads = 6,
                           .kv_heads = 3});
        const Findings findings = world.check_all();
        // Every shard visits all other ranks; in the backward pass again, and as many gradients come back.
        EXPECT_EQ(total(findings.bytes_sent_forward), (ranks - 1) * 37 * 3 * kKeyBytes) << strategy << ranks;
        EXPECT_EQ(total(findings.bytes_sent_backward), (ranks - 1) * 37 * 3 * (kKeyBytes + kKeyGradientBytes))
            << strategy << ranks;
      }
}

TEST(Messages, BytesOfUlysses) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const World world(
        {.strategy = "ulysses", .ranks = ranks, .mask = MaskCase::kFull, .length = 24, .q_heads = 12, .kv_heads = 12});
    const Findings findings = world.check_all();
    // (N-1)/N of every row's heads leave home: Q, K, V; and O, m, l come back. Backward: with dO, delta, m, l; dQ, dK,
    // dV.
    const Index moved = 24 * 12 * (ranks - 1) / ranks;
    EXPECT_EQ(total(findings.bytes_sent_forward), moved * (10 * 2 + 4 * 2 + 2 * 4)) << ranks;
    EXPECT_EQ(total(findings.bytes_sent_backward), moved * ((10 + 4) * 2 + 3 * 4 + 10 * 4)) << ranks;
  }
}

TEST(Messages, UspSendsLessThanARing) {
  const auto bytes = [](const char* strategy, int ulysses) {
    const World world({.strategy = strategy,
                       .ranks = 8,
                       .ulysses = ulysses,
                       .mask = MaskCase::kFull,
                       .length = 64,
                       .q_heads = 8,
                       .kv_heads = 8});
    return total(world.check_all().bytes_sent_forward);
  };
  EXPECT_EQ(bytes("usp", 1), bytes("ring", 1));
  EXPECT_EQ(bytes("usp", 8), bytes("ulysses", 1));
  EXPECT_LT(bytes("usp", 2), bytes("ring", 1));
  EXPECT_LT(bytes("usp", 4), bytes("usp", 2));
}

// A ring of N makes N-1 rotations: each rank receives each other's keys once, from the rank before; gradients as well.
TEST(Messages, ARingRotatesOnceLessThanItsRanks) {
  for (const LayoutKind layout : kLayouts)
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const World world({.strategy = "ring", .layout = layout, .ranks = ranks, .mask = MaskCase::kFull, .length = 64});
      const int chunks = chunks_of(layout);
      for (int r = 0; r < ranks; ++r)
        for (const bool back : {false, true}) {
          const Schedule& schedule = world.schedules[static_cast<std::size_t>(r)];
          int keys = 0, gradients_sent = 0;
          for (const Step& s : (back ? schedule.backward : schedule.forward).steps) {
            if (s.op == Op::kStartReceive && s.what.tensor == Tensor::kK) {
              ++keys;
              EXPECT_EQ(s.peer, (r + ranks - 1) % ranks);
            }
            if (s.op == Op::kStartSend && s.what.tensor == Tensor::kDK) {
              ++gradients_sent;
              EXPECT_EQ(s.peer, (r + 1) % ranks);
              EXPECT_NE(s.what.owner, r);
            }
          }
          EXPECT_EQ(keys, (ranks - 1) * chunks);
          EXPECT_EQ(gradients_sent, back ? (ranks - 1) * chunks : 0);
        }
    }
}

// A window is a halo: only the ranks within it talk.
TEST(Messages, AWindowIsAHalo) {
  for (const char* strategy : {"ring", "all_gather", "usp"})
    for (const Index window : {1, 2, 9, 10, 17}) {
      const World world({.strategy = strategy, .ranks = 8, .mask = MaskCase::kWindow, .length = 64, .window = window});
      const int reach = static_cast<int>((window - 1 + 7) / 8);  // shards of 8 rows: the farthest that one sees
      for (int r = 0; r < 8; ++r)
        for (const bool back : {false, true}) {
          const Schedule& schedule = world.schedules[static_cast<std::size_t>(r)];
          std::set<int> peers;
          for (const Step& s : (back ? schedule.backward : schedule.forward).steps)
            if (s.op == Op::kStartSend || s.op == Op::kStartReceive) peers.insert(s.peer);
          // A ring goes from neighbour to neighbour; only gradients come straight home, from the end of the window.
          const bool ring_keys = std::string(strategy) != "all_gather" && !back;
          std::set<int> near;
          for (int p = 0; p < 8; ++p)
            if (p != r && std::abs(p - r) <= (ring_keys ? std::min(reach, 1) : reach)) near.insert(p);
          EXPECT_EQ(peers, near) << strategy << " window " << window << " rank " << r << (back ? " backward" : "");
        }
    }
}

// While a rank attends, the next hop's keys are on their way: the receive starts before the attends, its wait follows.
TEST(Messages, KeysTravelWhileOthersAreAttendedTo) {
  const World world({.strategy = "ring", .ranks = 5, .mask = MaskCase::kFull, .length = 40});
  for (const Schedule& schedule : world.schedules)
    for (const Program* program : {&schedule.forward, &schedule.backward}) {
      std::map<std::int32_t, int> attends_at_start;
      int attends = 0, overlapped = 0;
      for (const Step& s : program->steps) {
        attends += s.op == Op::kAttend;
        if ((s.op == Op::kStartReceive || s.op == Op::kStartSend) && is_key(s.what.tensor))
          attends_at_start[s.event] = attends;
        if (s.op == Op::kWait && attends_at_start.contains(s.event)) overlapped += attends > attends_at_start[s.event];
      }
      EXPECT_EQ(overlapped, static_cast<int>(attends_at_start.size()));
      EXPECT_EQ(overlapped, 2 * 2 * 4);  // K and V, in and out, of four hops
    }
}

// A ring holds two passing shards at most, whatever its length.
TEST(Messages, KeysOfARingLieInTwoBuffers) {
  for (int ranks = 3; ranks <= 8; ++ranks) {
    const World world({.strategy = "ring", .ranks = ranks, .mask = MaskCase::kFull, .length = 64});
    for (const Schedule& schedule : world.schedules) {
      Index buffers = 0;
      for (const Slot& slot : schedule.forward.slots) buffers += slot.tensor == Tensor::kK;
      EXPECT_EQ(buffers, 2);
    }
  }
}

Index bytes_of_slots(const Program& program) {
  Index bytes = 0;
  for (const Slot& slot : program.slots) bytes += (slot.bytes + 63) / 64 * 64;
  return bytes;
}

TEST(Messages, SlotsAreLargestForTheFullMask) {
  for (const StrategyEntry& entry : strategies())
    for (const LayoutKind layout : kLayouts)
      for (int ranks = 1; ranks <= 8; ++ranks)
        for (int ulysses = 1; ulysses <= ranks; ++ulysses) {
          const std::string name = entry.name;
          if (ranks % ulysses != 0 || (name != "usp" && ulysses != 1) || (name == "single" && ranks != 1)) continue;
          Case c{.strategy = name, .layout = layout, .ranks = ranks, .ulysses = ulysses, .length = 37, .q_heads = 8};
          c.mask = MaskCase::kFull;
          const World full(c);
          for (const MaskCase mask : kMaskCases) {
            c.mask = mask;
            const World world(c);
            for (std::size_t r = 0; r < world.schedules.size(); ++r) {
              ASSERT_LE(bytes_of_slots(world.schedules[r].forward), bytes_of_slots(full.schedules[r].forward))
                  << text_of(c);
              ASSERT_LE(bytes_of_slots(world.schedules[r].backward), bytes_of_slots(full.schedules[r].backward))
                  << text_of(c);
            }
          }
        }
}

TEST(Messages, TheHashSeesEveryField) {
  const World world({.strategy = "usp", .ranks = 4, .ulysses = 2});
  const World same({.strategy = "usp", .ranks = 4, .ulysses = 2});
  const World other({.strategy = "usp", .ranks = 4, .ulysses = 2, .mask = MaskCase::kFull});
  EXPECT_EQ(hash_of(world.schedules[1]), hash_of(same.schedules[1]));
  EXPECT_NE(hash_of(world.schedules[1]), hash_of(other.schedules[1]));
  const std::vector<void (*)(Schedule&)> kChanges{
      [](Schedule& s) { s.forward.steps[0].op = Op::kAdd; },
      [](Schedule& s) { s.forward.steps[0].axis = Axis::kRing; },
      [](Schedule& s) { ++s.forward.steps[0].peer; },
      [](Schedule& s) { ++s.forward.steps[0].event; },
      [](Schedule& s) { ++s.forward.steps[0].collective; },
      [](Schedule& s) { s.forward.steps[0].what.tensor = Tensor::kDV; },
      [](Schedule& s) { ++s.forward.steps[0].what.owner; },
      [](Schedule& s) { ++s.forward.steps[0].what.chunk; },
      [](Schedule& s) { ++s.forward.steps[0].what.slot; },
      [](Schedule& s) { ++s.forward.steps[0].what.heads.begin; },
      [](Schedule& s) { ++s.forward.steps[0].what.heads.end; },
      [](Schedule& s) { ++s.forward.steps[0].other.owner; },
      [](Schedule& s) { ++s.forward.steps[0].at[kTensors - 1]; },
      [](Schedule& s) { ++s.forward.slots[0].bytes; },
      [](Schedule& s) { std::swap(s.forward.steps[0], s.forward.steps[1]); },
      [](Schedule& s) { s.backward.steps.pop_back(); },
      [](Schedule& s) { std::swap(s.forward, s.backward); },
  };
  std::set<std::uint64_t> hashes{hash_of(world.schedules[1])};
  for (const auto& change : kChanges) {
    Schedule changed = world.schedules[1];
    change(changed);
    hashes.insert(hash_of(changed));
  }
  EXPECT_EQ(hashes.size(), kChanges.size() + 1);
}

TEST(Strategies, AreFoundByName) {
  for (const StrategyEntry& entry : strategies()) EXPECT_EQ(find_strategy(entry.name), &entry);
  EXPECT_EQ(find_strategy("spiral"), nullptr);
  EXPECT_EQ(strategies().size(), 5u);
}

}  // namespace
}  // namespace longhaul::strategy
