// Schedule: who does what when in one attention, as plain data. exec runs it, plan times it, the checker proves
// things about it. A strategy is a pure function (mesh, rank, layout, shapes, mask) -> Schedule, one file each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategy/layout.h"

namespace longhaul::strategy {

// What a payload holds, a row and head at a time. Storage types: kQ kK kV kO kDO. Accumulator types (fp32, see
// accumulator_of): the rest. kOPartial is the normalised partial result, (kM, kL) the row statistic:
// m the row maximum, l = ln sum exp(s - m). kDelta is sum(dO * O).
enum class Tensor : std::uint8_t { kQ, kK, kV, kO, kDO, kOPartial, kM, kL, kDelta, kDQ, kDK, kDV };
constexpr int kTensors = 12;
const char* name_of(Tensor tensor) noexcept;
constexpr bool has_query_heads(Tensor tensor) noexcept {
  return tensor != Tensor::kK && tensor != Tensor::kV && tensor != Tensor::kDK && tensor != Tensor::kDV;
}

// Half-open range of GLOBAL head numbers: query heads for kQ kO kDO kOPartial kM kL kDelta kDQ, else KV heads.
struct HeadRange {
  int begin = 0, end = 0;
  int count() const noexcept { return end - begin; }
  friend bool operator==(const HeadRange&, const HeadRange&) = default;
};

constexpr std::int16_t kAllChunks = -1;
constexpr std::int16_t kHome = -1;  // not a slot: the rank's own tensor, with all its heads
constexpr std::array<std::int16_t, kTensors> home_everywhere() noexcept {
  std::array<std::int16_t, kTensors> at{};
  at.fill(kHome);
  return at;
}

// Rows of `owner`'s shard (one chunk of it, or all), some heads, and where they lie on this rank.
// A slot holds [rows of the owner's shard, heads, width], contiguous, with exactly the payload's heads; chunk c starts
// at its offset in the shard. Home is this rank's own shard with all its heads, so `heads` may be a part of them.
struct Payload {
  Tensor tensor = Tensor::kQ;
  std::int16_t owner = 0;  // context rank
  std::int16_t chunk = kAllChunks;
  std::int16_t slot = kHome;
  HeadRange heads;
};

enum class Axis : std::uint8_t { kRing, kUlysses };

enum class Op : std::uint8_t {
  kStartSend,     // what -> peer. One chunk, contiguous: from a slot, or from home with all heads. Messages between two
                  // ranks are matched by (tensor, owner, chunk, heads), equal ones in the order of their starts
  kStartReceive,  // what <- peer
  kWait,          // for `event`: the buffer of a send may be reused, that of a receive read
  kCopy,          // what = other, of the same heads: some heads of home into a slot, or back
  kZero,          // what = 0 (kM: -infinity). What no query sees and what sees no key gets its value so
  kAdd,           // what += other, of the same heads, element by element, in the accumulator type
  kAttend,  // what: a kQ payload of one chunk, other: a kK payload of one chunk. Operands lie where `at` says; those
            // of the query side have what's owner, chunk and heads, those of the key side other's.
            // forward: (kOPartial, kM, kL) of the queries take in the keys; backward: adds to kDQ, kDK, kDV
  kFinish,  // forward, once a query row and head that sees a key: kO = cast of kOPartial, after the sinks are taken
            // into it and into (kM, kL). what: the kO payload; kOPartial, kM, kL lie where `at` says
};

struct Step {
  Op op = Op::kWait;
  Axis axis = Axis::kRing;
  std::int16_t peer = -1;   // context rank
  std::int32_t event = -1;  // of a start or its wait; started once a program
  // Steps of one collective share a number > 0, so that plan can price it; 0: point to point.
  std::int32_t collective = 0;
  Payload what, other;
  std::array<std::int16_t, kTensors> at = home_everywhere();  // kAttend, kFinish: the slot of each operand, by Tensor
};

// A buffer of this rank for the length of one program. rows, heads: the largest it holds in this program.
struct Slot {
  Tensor tensor = Tensor::kQ;
  Index rows = 0;
  int heads = 0;
  Index bytes = 0;  // rows * heads * width(tensor) * element size; plan/memory places it
};

// Steps in execution order. Home tensors, given by the caller and with all heads of the rank's own shard:
// forward kQ kK kV kO kM kL; backward kQ kK kV kDO kDelta kM kL kDQ kDK kDV. kOPartial always lies in a slot.
struct Program {
  std::vector<Step> steps;
  std::vector<Slot> slots;
  int events = 0;
  void clear() { steps.clear(), slots.clear(), events = 0; }
};

struct Schedule {
  Program forward, backward;
};

struct Shapes {
  int q_heads = 1, kv_heads = 1, d_qk = 1, d_v = 1;
  int element_bytes = 4;  // of the storage type
  int partial_bytes = 4;  // of the accumulator type
};
int width_of(Tensor tensor, const Shapes& shapes) noexcept;  // elements a row and head
int element_bytes_of(Tensor tensor, const Shapes& shapes) noexcept;
HeadRange all_heads(Tensor tensor, const Shapes& shapes) noexcept;
Index rows_of(const Payload& payload, const Layout& layout);
Index bytes_of(const Payload& payload, const Layout& layout, const Shapes& shapes);

struct Request {
  int rank = 0;     // context rank = ring index * ulysses + ulysses index (ulysses inner)
  int ranks = 1;    // context degree
  int ulysses = 1;  // usp's inner degree; divides ranks
  Shapes shapes;
  const Layout* layout = nullptr;
  const Visibility* visible = nullptr;
};

// Rebuilds `schedule` in place: no allocation after the first build for the same ranks, ulysses, layout kind and heads,
// whatever the mask. Slots are at most those of a mask that needs everything.
using Strategy = void (*)(const Request& request, Schedule& schedule);

void single(const Request& request, Schedule& schedule);
void all_gather(const Request& request, Schedule& schedule);
void ring(const Request& request, Schedule& schedule);
void ulysses(const Request& request, Schedule& schedule);
void usp(const Request& request, Schedule& schedule);

struct StrategyEntry {
  const char* name;
  Strategy build;
  const char* summary;  // one line for --help
};
std::span<const StrategyEntry> strategies() noexcept;  // the one table of names
const StrategyEntry* find_strategy(std::string_view name) noexcept;

// 64-bit hash of a rank's lists; ranks compare the hash of all of them with each batch.
std::uint64_t hash_of(const Schedule& schedule) noexcept;
// One step as text, for explain, failures and golden files.
std::string describe(const Step& step);
// A payload as text, such as "K of rank 2 chunk 0 heads 0-3 at home".
std::string describe(const Payload& payload);
std::string describe(const HeadRange& heads);  // "heads 0-3", "head 2"

}  // namespace longhaul::strategy
