// The local transport: pairing, groups, failures, counted bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "comm/allocations.h"
#include "comm/comm.h"

namespace longhaul::comm {
namespace {

template <class T>
Bytes bytes_of(std::vector<T>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), static_cast<Index>(v.size() * sizeof(T))};
}
template <class T>
Bytes bytes_of(T& v) {
  return {reinterpret_cast<std::byte*>(&v), sizeof v};
}

void send(Group& g, Queue& q, int peer, std::uint64_t tag, Bytes b) {
  g.wait(q, g.start_send(q, {peer, tag, b}));
}
void receive(Group& g, Queue& q, int peer, std::uint64_t tag, Bytes b) {
  g.wait(q, g.start_receive(q, {peer, tag, b}));
}

Error failure_of(int ranks, double watchdog, const std::function<void(World&)>& body) {
  try {
    run_local(ranks, watchdog, body);
  } catch (const Error& e) {
    return e;
  }
  return run_error("no failure", "", "");
}

TEST(Local, EveryRankRunsOnce) {
  for (int ranks : {1, 2, 5, 16}) {
    std::vector<std::atomic<int>> runs(ranks);
    run_local(ranks, 60, [&](World& w) {
      EXPECT_EQ(w.size(), ranks);
      EXPECT_EQ(w.all().rank(), w.rank());
      EXPECT_EQ(w.all().size(), ranks);
      ++runs[w.rank()];
    });
    for (auto& n : runs) EXPECT_EQ(n, 1);
  }
}

// Every order of (send early, receive late) and back, with waits before and after.
TEST(Local, PairsInWhateverOrderTheTwoSidesStart) {
  for (int late : {0, 1})
    run_local(2, 60, [&](World& w) {
      CpuQueue q(1);
      Group& g = w.all();
      if (w.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::vector<int> out{w.rank() * 10, 7}, in(2);
      Event s, r;
      if (w.rank() == 0) {
        s = g.start_send(q, {1, 5, bytes_of(out)}), r = g.start_receive(q, {1, 5, bytes_of(in)});
        g.wait(q, r), g.wait(q, s);
      } else {
        r = g.start_receive(q, {0, 5, bytes_of(in)}), s = g.start_send(q, {0, 5, bytes_of(out)});
        g.wait(q, s), g.wait(q, r);
      }
      EXPECT_EQ(in[0], (1 - w.rank()) * 10);
    });
}

TEST(Local, EqualTagsMatchInTheOrderOfStartsAndOthersDoNotMatch) {
  run_local(2, 60, [](World& w) {
    CpuQueue q(1);
    Group& g = w.all();
    int v[6] = {10, 11, 12, 20, 21, 22};
    std::vector<Event> events;
    if (w.rank() == 0) {
      for (int i = 0; i < 6; ++i) events.push_back(g.start_send(q, {1, i < 3 ? 1u : 2u, bytes_of(v[i])}));
    } else {
      std::fill(v, v + 6, 0);
      for (int i : {3, 0, 1, 4, 5, 2}) events.push_back(g.start_receive(q, {0, i < 3 ? 1u : 2u, bytes_of(v[i])}));
    }
    for (auto i = events.rbegin(); i != events.rend(); ++i) g.wait(q, *i);
    EXPECT_EQ((std::vector<int>(v, v + 6)), (std::vector<int>{10, 11, 12, 20, 21, 22}));
  });
}

TEST(Local, SendsAreUnbuffered) {
  std::atomic<bool> received{false};
  run_local(2, 60, [&](World& w) {
    CpuQueue q(1);
    int x = 3;
    if (w.rank() == 0) {
      const Event e = w.all().start_send(q, {1, 0, bytes_of(x)});
      x = 4;  // not allowed, and seen: the bytes are taken when both sides have started
      send(w.all(), q, 1, 1, {});
      w.all().wait(q, e);
      EXPECT_TRUE(received);
    } else {
      receive(w.all(), q, 0, 1, {});
      received = true;
      receive(w.all(), q, 0, 0, bytes_of(x));
      EXPECT_EQ(x, 4);
    }
  });
}

TEST(Local, ARankMayTalkToItselfAndMessagesMayBeEmpty) {
  run_local(3, 60, [](World& w) {
    CpuQueue q(1);
    int x = 8, y = 0;
    const Event s = w.all().start_send(q, {w.rank(), 0, bytes_of(x)});
    receive(w.all(), q, w.rank(), 0, bytes_of(y));
    w.all().wait(q, s);
    EXPECT_EQ(y, 8);
    const Event empty = w.all().start_send(q, {(w.rank() + 1) % 3, 0, {}});
    receive(w.all(), q, (w.rank() + 2) % 3, 0, {});
    w.all().wait(q, empty);
    w.all().wait(q, Event{});
  });
}

// All pairs exchange many messages of random sizes, started and waited for in random order.
TEST(Local, ManyMessages) {
  constexpr int kRanks = 6, kEach = 40;
  const auto size = [](int from, int to, int i) {
    return static_cast<std::size_t>(random_bits(from, to, i) % (i % 13 == 0 ? 70000 : 300));
  };
  const auto value = [](int from, int to, int i) { return static_cast<std::uint8_t>(random_bits(from + 50, to, i)); };
  run_local(kRanks, 60, [&](World& w) {
    CpuQueue q(1);
    Group& g = w.all();
    struct Item {
      int peer, i;
      bool sends;
      std::vector<std::uint8_t> data;
      Event event;
    };
    std::vector<Item> items;
    for (int p = 0; p < kRanks; ++p)
      for (int i = 0; i < kEach; ++i) {
        items.push_back({p, i, true, std::vector<std::uint8_t>(size(w.rank(), p, i), value(w.rank(), p, i)), {}});
        items.push_back({p, i, false, std::vector<std::uint8_t>(size(p, w.rank(), i)), {}});
      }
    const auto shuffle = [&](int round) {
      for (std::size_t i = items.size(); i > 1; --i)
        std::swap(items[i - 1], items[random_bits(w.rank(), round, i) % i]);
    };
    shuffle(100);
    for (Item& x : items) {
      const Message m{x.peer, static_cast<std::uint64_t>(x.i), bytes_of(x.data)};
      x.event = x.sends ? g.start_send(q, m) : g.start_receive(q, m);
    }
    shuffle(101);
    for (Item& x : items) g.wait(q, x.event);
    for (const Item& x : items) {
      if (x.sends) continue;
      for (std::uint8_t b : x.data)
        ASSERT_EQ(b, value(x.peer, w.rank(), x.i)) << "from " << x.peer << " to " << w.rank() << " message " << x.i;
    }
  });
}

TEST(Local, GroupsAreSeparateAndOrderedByWorldRank) {
  run_local(6, 60, [](World& w) {
    CpuQueue q(1);
    const auto parity = w.split(w.rank() % 2), halves = w.split(w.rank() / 3), alone = w.split(w.rank());
    EXPECT_EQ(parity->size(), 3);
    EXPECT_EQ(parity->rank(), w.rank() / 2);
    EXPECT_EQ(halves->size(), 3);
    EXPECT_EQ(halves->rank(), w.rank() % 3);
    EXPECT_EQ(alone->size(), 1);
    // The same tag in three groups, started in one order and waited for in another.
    Group* groups[3] = {parity.get(), halves.get(), &w.all()};
    int out[3], in[3];
    Event s[3], r[3];
    for (int i = 0; i < 3; ++i) {
      Group& g = *groups[i];
      out[i] = w.rank() * 10 + i;
      s[i] = g.start_send(q, {(g.rank() + 1) % g.size(), 9, bytes_of(out[i])});
    }
    for (int i = 2; i >= 0; --i) {
      Group& g = *groups[i];
      r[i] = g.start_receive(q, {(g.rank() + g.size() - 1) % g.size(), 9, bytes_of(in[i])});
    }
    for (int i = 0; i < 3; ++i) groups[i]->wait(q, s[i]), groups[i]->wait(q, r[i]);
    const int rank = w.rank();
    EXPECT_EQ(in[0], (rank + 4) % 6 * 10);
    EXPECT_EQ(in[1], (rank / 3 * 3 + (rank + 2) % 3) * 10 + 1);
    EXPECT_EQ(in[2], (rank + 5) % 6 * 10 + 2);
  });
}

TEST(Local, BytesAreCountedByTraffic) {
  run_local(2, 60, [](World& w) {
    CpuQueue q(1);
    Group& g = w.all();
    std::vector<char> a(100), b(8);
    if (w.rank() == 0) {
      g.wait(q, g.start_send(q, {1, 0, bytes_of(a)}));
      g.wait(q, g.start_send(q, {1, 0, bytes_of(b), Traffic::kControl}));
    } else {
      receive(g, q, 0, 0, bytes_of(a));
      g.wait(q, g.start_receive(q, {0, 0, bytes_of(b), Traffic::kControl}));
    }
    EXPECT_EQ(g.bytes_sent(Traffic::kPayload), w.rank() == 0 ? 100 : 0);
    EXPECT_EQ(g.bytes_sent(Traffic::kControl), w.rank() == 0 ? 8 : 0);
  });
}

TEST(Local, NothingIsAllocatedAfterTheFirstRound) {
  std::atomic<long> before{0}, after{0};
  run_local(4, 60, [&](World& w) {
    CpuQueue q(1);
    Group& g = w.all();
    std::vector<int> in(100 * 4), out(100 * 4);
    Event events[800];
    const auto round = [&] {
      int n = 0;
      for (int i = 0; i < 100; ++i)
        for (int p = 0; p < 4; ++p) {
          events[n++] = g.start_send(q, {p, static_cast<std::uint64_t>(i), bytes_of(out[4 * i + p])});
          events[n++] = g.start_receive(q, {p, static_cast<std::uint64_t>(i), bytes_of(in[4 * i + p])});
        }
      for (int i = n; i-- > 0;) g.wait(q, events[i]);
    };
    round();
    round();  // nobody is in the first round any more when this ends
    if (w.rank() == 0) before = allocations();
    for (int i = 0; i < 5; ++i) round();
    if (w.rank() == 0) after = allocations();
    round();
  });
  EXPECT_EQ(after - before, 0);
}

TEST(Local, TheFirstFailureEndsTheOthersAndIsTheOneThatIsThrown) {
  const double start = now_seconds();
  const Error e = failure_of(5, 300, [](World& w) {
    CpuQueue q(1);
    int x = 0;
    if (w.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      throw run_error("the disk is full", "/tmp/x", "make room");
    }
    receive(w.all(), q, 3, 0, bytes_of(x));  // never comes
  });
  EXPECT_LT(now_seconds() - start, 20);
  EXPECT_EQ(e.kind, Error::Kind::kRun);
  EXPECT_STREQ(e.what(), "rank 3: the disk is full");
  EXPECT_EQ(e.where, "/tmp/x");
  EXPECT_EQ(e.hint, "make room");
}

TEST(Local, AnInputErrorStaysOneAndOtherExceptionsAreNamed) {
  const Error input = failure_of(2, 300, [](World& w) {
    if (w.rank() == 1) throw input_error("no such head", "q", "ask for another");
    w.split(0);
  });
  EXPECT_EQ(input.kind, Error::Kind::kInput);
  EXPECT_STREQ(input.what(), "no such head");
  const Error other = failure_of(2, 300, [](World& w) {
    CpuQueue q(1);
    if (w.rank() == 0) throw std::bad_alloc();
    send(w.all(), q, 0, 0, {});
  });
  EXPECT_EQ(other.kind, Error::Kind::kRun);
  EXPECT_NE(std::string(other.what()).find("rank 0: std::bad_alloc"), std::string::npos);
}

TEST(Local, AFailureAlsoEndsRanksThatStartNewMessages) {
  const Error e = failure_of(2, 300, [](World& w) {
    CpuQueue q(1);
    if (w.rank() == 1) throw run_error("stop", "", "");
    for (int x = 0;;) send(w.all(), q, 0, 0, bytes_of(x)), receive(w.all(), q, 0, 0, bytes_of(x));
  });
  EXPECT_STREQ(e.what(), "rank 1: stop");
}

TEST(Local, SizesThatDifferAreNamed) {
  for (int late : {0, 1}) {
    const Error e = failure_of(2, 300, [&](World& w) {
      CpuQueue q(1);
      std::vector<char> a(16), b(24);
      if (w.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (w.rank() == 0)
        send(w.all(), q, 1, 0x2a, bytes_of(a));
      else
        receive(w.all(), q, 0, 0x2a, bytes_of(b));
    });
    EXPECT_NE(std::string(e.what()).find("rank 0 sends 16 bytes and rank 1 expects 24, tag 0x2a"), std::string::npos)
        << e.what();
  }
}

TEST(Local, TheWatchdogNamesPeerTagAndBytes) {
  std::atomic<bool> over{false};
  const Error e = failure_of(2, 0.1, [&](World& w) {
    CpuQueue q(1);
    std::vector<char> a(40);
    if (w.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      receive(w.all(), q, 1, 0x77, bytes_of(a));
    } catch (...) {
      over = true;
      throw;
    }
  });
  EXPECT_NE(std::string(e.what()).find("a receive of 40 bytes from rank 1, tag 0x77: nothing came for 0.1 s"),
            std::string::npos)
      << e.what();
}

TEST(Local, WaitingForARankThatHasEndedIsAnErrorAtOnce) {
  const Error e = failure_of(2, 300, [](World& w) {
    CpuQueue q(1);
    int x = 0;
    if (w.rank() == 0) receive(w.all(), q, 1, 0, bytes_of(x));
  });
  EXPECT_NE(std::string(e.what()).find("rank 1 has ended"), std::string::npos) << e.what();
  const Error split = failure_of(2, 300, [](World& w) {
    if (w.rank() == 0) w.split(0);
  });
  EXPECT_NE(std::string(split.what()).find("1 of 2 ranks came"), std::string::npos) << split.what();
}

TEST(Local, MessagesThatNobodyConsumesAreFound) {
  int kept = 0;
  const Error sent = failure_of(2, 300, [&](World& w) {
    CpuQueue q(1);
    if (w.rank() == 0) w.all().start_send(q, {1, 3, bytes_of(kept)});
  });
  EXPECT_NE(std::string(sent.what()).find("rank 0: ended without waiting for a send of 4 bytes to rank 1, tag 0x3"),
            std::string::npos)
      << sent.what();
  const Error in_group = failure_of(2, 300, [&](World& w) {
    CpuQueue q(1);
    const auto g = w.split(w.rank());
    g->start_receive(q, {0, 3, bytes_of(kept)});
  });
  EXPECT_NE(std::string(in_group.what()).find("a receive of 4 bytes"), std::string::npos) << in_group.what();
}

// A failure while others copy from and into the memory of ranks that unwind.
TEST(Local, FailuresAtRandomMomentsEndCleanly) {
  for (int round = 0; round < 40; ++round) {
    const Error e = failure_of(4, 300, [&](World& w) {
      CpuQueue q(1);
      const auto group = w.split(0);
      std::vector<char> out(5000), in(5000);
      for (int i = 0;; ++i) {
        if (w.rank() == round % 4 && i == round) throw run_error("stop", "", "");
        Group& g = i % 2 ? *group : w.all();
        const Event s = g.start_send(q, {(w.rank() + 1) % 4, 0, bytes_of(out)});
        const Event r = g.start_receive(q, {(w.rank() + 3) % 4, 0, bytes_of(in)});
        g.wait(q, r), g.wait(q, s);
      }
    });
    EXPECT_EQ(std::string(e.what()), "rank " + std::to_string(round % 4) + ": stop");
  }
}

}  // namespace
}  // namespace longhaul::comm
