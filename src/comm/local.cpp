// Ranks as threads of one process: real bytes moved from the sender's memory to the receiver's, without a buffer.
//
// Whoever starts second finds the other's ticket in the receiver's mailbox and copies the bytes, outside the lock.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "comm/comm.h"

namespace longhaul::comm {
namespace {

using Clock = std::chrono::steady_clock;

class LocalGroup;
struct Mailbox;

enum class State : std::uint8_t { kPosted, kCopying, kThrough };

// One started message, on the list of its mailbox until matched and on the list of its rank until waited for.
struct Ticket {
  std::atomic<State> state{State::kThrough};
  bool sends = false;
  int source = 0, peer = 0;  // ranks in the group; peer as the one who started it sees it
  std::uint64_t tag = 0, serial = 0;
  Bytes bytes;
  LocalGroup* group = nullptr;
  Mailbox* box = nullptr;
  Ticket *before = nullptr, *after = nullptr;            // in the mailbox, oldest first
  Ticket *open_before = nullptr, *open_after = nullptr;  // of the rank; open_after also links free tickets
};

// What was started for one receiver of one group and has no partner yet.
struct Mailbox {
  std::mutex mutex;
  Ticket *oldest = nullptr, *newest = nullptr;

  void push(Ticket& t) noexcept {
    t.before = newest, t.after = nullptr;
    (newest ? newest->after : oldest) = &t;
    newest = &t;
  }
  void remove(Ticket& t) noexcept {
    (t.before ? t.before->after : oldest) = t.after;
    (t.after ? t.after->before : newest) = t.before;
  }
  Ticket* partner_of(const Ticket& t) noexcept {
    for (Ticket* o = oldest; o; o = o->after)
      if (o->sends != t.sends && o->source == t.source && o->tag == t.tag) return o;
    return nullptr;
  }
};

struct GroupState {
  explicit GroupState(std::vector<int> members) : world_rank(std::move(members)), boxes(world_rank.size()) {}
  std::vector<int> world_rank;
  std::deque<Mailbox> boxes;  // by receiver
};

// What one rank has beside its thread. The first part is touched by its own thread only.
struct Seat {
  Ticket* free = nullptr;
  Ticket* open = nullptr;
  std::uint64_t serial = 0;
  std::deque<Ticket> pool;  // grows to the largest number of messages under way, then never again
  std::string leftover;     // the first message of a closed group that nobody waited for

  std::mutex mutex;  // with `bell`: sleeping until a message is through, or another rank has ended
  std::condition_variable bell;
  std::atomic<bool> ended{false};

  void ring() noexcept {
    { std::lock_guard lock(mutex); }
    bell.notify_one();
  }
};

struct SplitRound {
  std::vector<int> colors;
  int arrived = 0;
  std::vector<GroupState*> group_of;  // by world rank, once all have arrived
};

// What all ranks share.
struct Hub {
  Hub(int ranks, double watchdog) : seats(ranks), watchdog_seconds(watchdog) {
    std::vector<int> members(ranks);
    for (int r = 0; r < ranks; ++r) members[r] = r;
    groups.emplace_back(std::move(members));
    if (ranks <= static_cast<int>(std::thread::hardware_concurrency())) spins = 4000;
  }

  void fail(int rank, std::exception_ptr error) {
    {
      std::lock_guard lock(mutex);
      if (!first_error) first_error = error, first_rank = rank;
    }
    failed.store(true);
    ring_all();
  }
  void end(int rank) {
    seats[rank].ended.store(true);
    ++ended;
    ring_all();
  }
  void ring_all() noexcept {
    for (Seat& s : seats) s.ring();
    { std::lock_guard lock(mutex); }
    all_arrived.notify_all();
  }
  Clock::time_point deadline() const {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(watchdog_seconds));
  }

  std::deque<Seat> seats;
  double watchdog_seconds;
  int spins = 0;  // looks at a ticket before sleeping; none where ranks share cores
  std::atomic<bool> failed{false};
  std::atomic<int> ended{0};

  std::mutex mutex;  // guards what follows
  std::exception_ptr first_error;
  int first_rank = -1;
  std::deque<GroupState> groups;
  std::deque<SplitRound> rounds;
  std::condition_variable all_arrived;
};

Error ended_by_another() {
  return run_error("stopped because another rank failed", "", "see the error of the other rank");
}

class LocalGroup final : public Group {
 public:
  LocalGroup(Hub& hub, GroupState& state, int world_rank) : hub_(hub), state_(state), seat_(hub.seats[world_rank]) {
    for (int r = 0; r < size(); ++r)
      if (state.world_rank[r] == world_rank) rank_ = r;
  }
  ~LocalGroup() override {
    for (Ticket* t = seat_.open; t; t = t->open_after)
      if (t->group == this && seat_.leftover.empty()) seat_.leftover = text_of(*t);
    withdraw(this);
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(state_.world_rank.size()); }
  Event start_send(Queue&, const Message& m) override {
    const Event event = start(m, true);
    sent_[static_cast<int>(m.traffic)] += m.bytes.size;
    return event;
  }
  Event start_receive(Queue&, const Message& m) override { return start(m, false); }
  void wait(Queue&, Event) override;
  void progress() override {}
  Index bytes_sent(Traffic traffic) const noexcept override { return sent_[static_cast<int>(traffic)]; }

 private:
  Event start(const Message& m, bool sends);
  void wait_asleep(Ticket& t);
  Ticket& take_ticket();
  void close(Ticket& t) noexcept;
  void withdraw(const LocalGroup* only) noexcept;
  std::string text_of(const Ticket& t) const;

  Hub& hub_;
  GroupState& state_;
  Seat& seat_;
  int rank_ = 0;
  Index sent_[2] = {};
};

std::string LocalGroup::text_of(const Ticket& t) const {
  return fmt::format("{} of {} bytes {} rank {}, tag {:#x}", t.sends ? "a send" : "a receive", t.bytes.size,
                     t.sends ? "to" : "from", state_.world_rank[t.peer], t.tag);
}

Ticket& LocalGroup::take_ticket() {
  if (!seat_.free)
    for (int i = 0; i < 64; ++i) {
      Ticket& t = seat_.pool.emplace_back();
      t.open_after = seat_.free, seat_.free = &t;
    }
  Ticket& t = *seat_.free;
  seat_.free = t.open_after;
  t.open_before = nullptr, t.open_after = seat_.open;
  if (seat_.open) seat_.open->open_before = &t;
  seat_.open = &t;
  return t;
}

void LocalGroup::close(Ticket& t) noexcept {
  (t.open_before ? t.open_before->open_after : seat_.open) = t.open_after;
  if (t.open_after) t.open_after->open_before = t.open_before;
  t.group = nullptr, t.serial = 0;
  t.open_after = seat_.free, seat_.free = &t;
}

// Takes back what this rank has started, in one group or (null) in all, so that nobody touches its memory any more.
void LocalGroup::withdraw(const LocalGroup* only) noexcept {
  for (Ticket* t = seat_.open; t;) {
    Ticket* const next = t->open_after;
    if (!only || t->group == only) {
      {
        std::lock_guard lock(t->box->mutex);
        if (t->state == State::kPosted) t->box->remove(*t), t->state = State::kThrough;
      }
      while (t->state.load() != State::kThrough) std::this_thread::yield();  // someone copies: soon over
      close(*t);
    }
    t = next;
  }
}

Event LocalGroup::start(const Message& m, bool sends) {
  CHECK(0 <= m.peer && m.peer < size() && m.bytes.size >= 0, "peer %d of %d, %ld bytes", m.peer, size(), m.bytes.size);
  if (hub_.failed.load(std::memory_order_relaxed)) {
    withdraw(nullptr);
    throw ended_by_another();
  }
  Ticket& t = take_ticket();
  t.state.store(State::kPosted, std::memory_order_relaxed);
  t.sends = sends, t.source = sends ? rank_ : m.peer, t.peer = m.peer, t.tag = m.tag, t.bytes = m.bytes;
  t.group = this, t.serial = ++seat_.serial, t.box = &state_.boxes[sends ? m.peer : rank_];
  Ticket* partner = nullptr;
  {
    std::lock_guard lock(t.box->mutex);
    partner = t.box->partner_of(t);
    if (!partner) {
      t.box->push(t);
    } else if (partner->bytes.size == t.bytes.size) {
      t.box->remove(*partner);
      partner->state.store(State::kCopying, std::memory_order_relaxed);
    }
  }
  if (!partner) return {&t, t.serial};
  if (partner->bytes.size != t.bytes.size) {
    t.state.store(State::kThrough, std::memory_order_relaxed);
    const Index sent = sends ? t.bytes.size : partner->bytes.size, wanted = sends ? partner->bytes.size : t.bytes.size;
    const int from = state_.world_rank[t.source], to = state_.world_rank[sends ? m.peer : rank_];
    withdraw(nullptr);
    throw run_error(
        fmt::format("rank {} sends {} bytes and rank {} expects {}, tag {:#x}", from, sent, to, wanted, m.tag), "",
        "this is an error of the program: please report it");
  }
  const Bytes &from = sends ? t.bytes : partner->bytes, &to = sends ? partner->bytes : t.bytes;
  if (t.bytes.size > 0) std::memcpy(to.data, from.data, static_cast<std::size_t>(t.bytes.size));
  t.state.store(State::kThrough, std::memory_order_relaxed);
  Seat& other = hub_.seats[state_.world_rank[m.peer]];
  partner->state.store(State::kThrough, std::memory_order_release);  // from here on it is the other's again
  other.ring();
  return {&t, t.serial};
}

void LocalGroup::wait(Queue&, Event event) {
  if (!event.impl) return;
  Ticket& t = *static_cast<Ticket*>(event.impl);
  CHECK(t.group == this && t.serial == event.ticket, "ticket %lu is not under way in this group",
        static_cast<unsigned long>(event.ticket));
  for (int i = 0; t.state.load(std::memory_order_acquire) != State::kThrough; ++i) {
    if (i < hub_.spins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      continue;
    }
    wait_asleep(t);
  }
  close(t);
}

// Returns when the message is through.
void LocalGroup::wait_asleep(Ticket& t) {
  const Clock::time_point deadline = hub_.deadline();
  const Seat& peer = hub_.seats[state_.world_rank[t.peer]];
  std::string why, hint;
  {
    std::unique_lock lock(seat_.mutex);
    bool late = false;
    while (t.state.load(std::memory_order_acquire) != State::kThrough) {
      // The peer's last act, if it matched this ticket, comes before its end: so look at the ticket once more.
      if (peer.ended.load() && t.state.load(std::memory_order_acquire) == State::kPosted && &peer != &seat_) {
        why = fmt::format("rank {} has ended", state_.world_rank[t.peer]);
        hint = "this is an error of the program: please report it";
        break;
      }
      if (hub_.failed.load()) break;
      if (late) {
        why = fmt::format("nothing came for {:g} s", hub_.watchdog_seconds);
        hint = "the other rank is stuck or very slow; look at what it does, or allow more time";
        break;
      }
      late = seat_.bell.wait_until(lock, deadline) == std::cv_status::timeout;
    }
  }
  if (t.state.load(std::memory_order_acquire) == State::kThrough) return;
  const std::string text = text_of(t);
  withdraw(nullptr);
  if (hub_.failed.load()) throw ended_by_another();
  throw run_error("waiting for " + text + ": " + why, "", hint);
}

class LocalWorld final : public World {
 public:
  LocalWorld(Hub& hub, int rank) : hub_(hub), rank_(rank), all_(hub, hub.groups.front(), rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(hub_.seats.size()); }
  Group& all() noexcept override { return all_; }
  std::unique_ptr<Group> split(int color) override;

 private:
  Hub& hub_;
  int rank_;
  std::size_t splits_ = 0;
  LocalGroup all_;
};

// The groups of a round, once every rank has said its color.
void make_groups(Hub& hub, SplitRound& round) {
  round.group_of.resize(round.colors.size());
  for (std::size_t r = 0; r < round.colors.size(); ++r) {
    if (round.group_of[r]) continue;
    std::vector<int> members;
    for (std::size_t o = r; o < round.colors.size(); ++o)
      if (round.colors[o] == round.colors[r]) members.push_back(static_cast<int>(o));
    GroupState& state = hub.groups.emplace_back(members);
    for (int o : members) round.group_of[o] = &state;
  }
}

std::unique_ptr<Group> LocalWorld::split(int color) {
  const Clock::time_point deadline = hub_.deadline();
  std::unique_lock lock(hub_.mutex);
  const std::size_t number = splits_++;
  if (hub_.rounds.size() <= number) hub_.rounds.emplace_back().colors.resize(size());
  SplitRound& round = hub_.rounds[number];
  round.colors[rank_] = color;
  if (++round.arrived == size()) {
    make_groups(hub_, round);
    hub_.all_arrived.notify_all();
  }
  bool late = false;
  while (round.group_of.empty()) {
    if (hub_.failed.load()) throw ended_by_another();
    if (late || hub_.ended.load() > 0)
      throw run_error(fmt::format("{} of {} ranks came to make group {}", round.arrived, size(), number), "",
                      "every rank must make the same groups in the same order");
    late = hub_.all_arrived.wait_until(lock, deadline) == std::cv_status::timeout;
  }
  return std::make_unique<LocalGroup>(hub_, *round.group_of[rank_], rank_);
}

void run_rank(Hub& hub, int rank, const std::function<void(World&)>& body) {
  set_check_context(rank, -1);
  try {
    {
      LocalWorld world(hub, rank);
      body(world);
    }
    if (const std::string& left = hub.seats[rank].leftover; !left.empty())
      throw run_error("ended without waiting for " + left, "", "this is an error of the program: please report it");
  } catch (...) {
    hub.fail(rank, std::current_exception());
  }
  hub.end(rank);
}

[[noreturn]] void rethrow_first(const Hub& hub) {
  try {
    std::rethrow_exception(hub.first_error);
  } catch (const Error& e) {
    if (e.kind == Error::Kind::kInput || hub.first_rank < 0) throw;
    throw run_error(fmt::format("rank {}: {}", hub.first_rank, e.what()), e.where, e.hint);
  } catch (const std::exception& e) {
    throw run_error(fmt::format("rank {}: {}", hub.first_rank, e.what()), "", "see what the rank was doing");
  } catch (...) {
    throw run_error(fmt::format("rank {}: an unknown exception", hub.first_rank), "", "see what the rank was doing");
  }
}

}  // namespace

void run_local(int ranks, double watchdog_seconds, const std::function<void(World&)>& body) {
  CHECK(ranks >= 1 && watchdog_seconds > 0, "%d ranks, watchdog %g s", ranks, watchdog_seconds);
  Hub hub(ranks, watchdog_seconds);
  std::atomic<int> gate{0};  // 0: wait until all threads are there, 1: go, 2: go home
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  try {
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&hub, &gate, &body, r] {
        gate.wait(0);
        if (gate.load() == 1) run_rank(hub, r, body);
      });
    gate.store(1);
  } catch (const std::system_error& e) {
    hub.first_error = std::make_exception_ptr(
        run_error(fmt::format("cannot start thread {} of {} ranks: {}", threads.size(), ranks, e.code().message()), "",
                  "ask for fewer ranks"));
    gate.store(2);
  }
  gate.notify_all();
  for (std::thread& t : threads) t.join();
  if (hub.first_error) rethrow_first(hub);
}

}  // namespace longhaul::comm
