// The plan is exact: a debug run touches every planned byte while it is live and none outside, and a step allocates
// nothing on the threads of its ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "plan/memory.h"
#include "train/setup.h"
#include "train/small_run.h"

namespace {

thread_local bool t_counts = false;
std::atomic<long> g_allocations{0}, g_bytes{0}, g_frees{0}, g_largest{0};

void* counted(std::size_t size) {
  if (t_counts) {
    ++g_allocations, g_bytes += static_cast<long>(size);
    g_largest = std::max(g_largest.load(), static_cast<long>(size));
  }
  return std::malloc(size);
}
void release(void* p) {
  if (t_counts && p != nullptr) ++g_frees;
  std::free(p);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* p = counted(size)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void operator delete(void* p) noexcept {
  release(p);
}
void operator delete[](void* p) noexcept {
  release(p);
}
void operator delete(void* p, std::size_t) noexcept {
  release(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  release(p);
}

namespace longhaul {
namespace {

using spec::ActivationId;
using test::SmallRun;

// Holds every planned buffer to its lifetime: poison before the first phase and after the last, every line written in
// between, nothing written behind it.
class LifetimeCheck final : public model::PhaseObserver {
 public:
  LifetimeCheck(const train::TrainSpec& spec, Arena& arena, int phases) : spec_(spec), arena_(arena), phases_(phases) {}

  void begin(int phase) override {
    if (phase == 0) return;  // its inputs are in place
    for (const spec::Buffer& b : spec_.activations)
      if (b.life.first == phase) start(b);
  }
  void end(int phase) override {
    for (const spec::Buffer& b : spec_.activations) {
      if (last_phase(b) != phase) continue;
      // A library may leave some of the scratch that it asks for alone, and the schedule of a batch needs at most the
      // slots of the fullest mask.
      if (b.id == ActivationId::kScratch || b.id == ActivationId::kSlots) continue;
      const Index line = arena_.first_untouched_line(b.offset, b.bytes());
      EXPECT_EQ(line, -1) << name_of(b.id) << " layer " << b.layer << ": byte " << line - b.offset << " of "
                          << b.bytes() << " was planned and never written";
      const Index past = arena_.first_written_byte(b.offset + b.bytes(), end_of(b) - b.offset - b.bytes());
      EXPECT_EQ(past, -1) << "something wrote past " << name_of(b.id) << ", layer " << b.layer << ", phase " << phase;
      arena_.poison(b.offset, b.bytes());
    }
  }
  // Poison in the buffer and in the gap behind it, which nothing else owns while the buffer lives.
  void start(const spec::Buffer& b) { arena_.poison(b.offset, end_of(b) - b.offset); }

 private:
  static Index end_of(const spec::Buffer& b) { return b.offset + Arena::align_up(b.bytes()) + Arena::kSentinelBytes; }
  int last_phase(const spec::Buffer& b) const { return std::min(b.life.last, phases_); }

  const train::TrainSpec& spec_;
  Arena& arena_;
  int phases_;  // the last one that the model runs
};

// A spec placed by the plan, with room for a sentinel behind every buffer.
train::TrainSpec placed_spec(const SmallRun& run) {
  train::TrainSpec s = make_spec(run);
  for (spec::Buffer& b : s.activations)  // rows of the largest shard, no more
    if (b.extent[0] == (run.length + run.context - 1) / run.context + 2) b.extent[0] -= 2;
  s.activation_bytes = plan::place(s.activations, Arena::kSentinelBytes);
  return s;
}

void check_lifetimes(SmallRun run) {
  const train::TrainSpec spec = placed_spec(run);
  const int last = spec::Phases{static_cast<int>(run.layers)}.embed_backward();
  comm::run_local(run.data * run.context, 60, [&](comm::World& world) {
    train::Trainer t(spec, world);
    t.initialize(3);
    const test::RandomBatches batches(run);
    LifetimeCheck check(spec, t.activation_memory, last);
    t.model.observer = &check;
    for (const spec::Buffer& b : spec.activations)
      if (b.life.first == 0) check.start(b);
    batches.fill(0, 0, t.row);
    t.load(t.row);
    t.run_loaded(0.1, true);
  });
}

TEST(MemoryPlan, EveryPlannedByteIsTouchedAndNoneOutside) {
  for (spec::LayerPolicy policy :
       {spec::LayerPolicy::kKeep, spec::LayerPolicy::kRecomputeMlp, spec::LayerPolicy::kRecomputeLayer})
    for (DType storage : {DType::kF32, DType::kBF16})
      for (int context : {1, 4}) {
        SmallRun run;
        run.length = 48, run.hidden = 32, run.head_dim = 16, run.ffn = 48, run.policy = policy, run.storage = storage;
        run.mlp_chunk = 8, run.loss_chunk = 4, run.context = context;
        run.strategy = context > 1 ? "ring" : "single", run.layout = strategy::LayoutKind::kZigzag;
        SCOPED_TRACE("policy " + std::to_string(static_cast<int>(policy)) + " " + name_of(storage) + " context " +
                     std::to_string(context));
        check_lifetimes(run);
      }
}

// Allocations of the ranks' threads in steps 2 to 4. The first step has the fullest mask, so that schedules and lists
// have their largest size.
void count_allocations(SmallRun run) {
  run.context = std::string(run.strategy) == "single" ? 1 : 4;
  run.ulysses = std::string(run.strategy) == "ulysses" ? 4 : std::string(run.strategy) == "usp" ? 2 : 1;
  run.documents = 3, run.length = 40, run.layout = strategy::LayoutKind::kZigzag, run.attention = "auto";
  g_allocations = g_bytes = g_frees = g_largest = 0;
  on_ranks(run, [&](train::Trainer& t) {
    SmallRun full = run;
    full.documents = 1;
    train_step(t, test::RandomBatches(full), 1, 9);
    const test::RandomBatches batches(run);
    for (Index step = 2; step <= 4; ++step) {
      t_counts = true;
      train_step(t, batches, step, 9);
      t_counts = false;
    }
  });
}

TEST(MemoryPlan, AStepAllocatesNothing) {
  for (const char* strategy : {"single", "all_gather", "ring", "ulysses", "usp"}) {
    SmallRun run;
    run.strategy = strategy;
    count_allocations(run);
    EXPECT_EQ(g_allocations, 0) << strategy << ": " << g_bytes << " bytes";
  }
}

// With oneDNN each call of a product makes and destroys a map of its arguments inside the library, which its interface
// cannot avoid: a few small nodes, none of them of the size of data, none left when the step ends.
TEST(MemoryPlan, AStepWithALibraryOfProductsAllocatesOnlyItsArgumentMaps) {
  for (const char* strategy : {"single", "ring", "usp"}) {
    SmallRun run;
    run.strategy = strategy, run.ops = &kernel::cpu_ops();
    count_allocations(run);
    EXPECT_LE(g_largest, 256) << strategy;
    EXPECT_EQ(g_allocations, g_frees) << strategy << ": memory is left behind";
  }
}

}  // namespace
}  // namespace longhaul
