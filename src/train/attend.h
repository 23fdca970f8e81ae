// One attention, forward and backward, over ranks of this process: what `longhaul attend` and the tests of exec run.
#pragma once

#include <string_view>
#include <vector>

#include "contract/ops.h"
#include "strategy/mesh.h"
#include "strategy/schedule.h"

namespace longhaul::train {

// Row-major, rows in the order of the sequence: q [T, N, D], k [T, G, D], v [T, G, V], do [T, N, V].
struct AttentionCase {
  AttentionParams params;
  Index rows = 0;                       // T
  int q_heads = 1, kv_heads = 1;        // N, G; G divides N
  int d_qk = 1, d_v = 1;                // D, V
  std::vector<float> q, k, v, d_o;      // rounded to the storage type when cut into shards; d_o empty: no gradients
  std::vector<float> sinks;             // [N], or empty
  std::vector<std::int32_t> documents;  // [T], or empty: one document
};

struct AttentionSetup {
  const strategy::StrategyEntry* strategy = nullptr;
  strategy::LayoutKind layout = strategy::LayoutKind::kContiguous;
  int ranks = 1, ulysses = 1;
  DType storage = DType::kF32;
  const Ops* ops = nullptr;
  const AttentionVariant* variant = nullptr;
  int threads = 1;  // a rank
  int repeats = 1;  // of the forward and the backward pass, one after the other
  double watchdog_seconds = 600;
  bool poison = false;  // all memory that a pass has not written is NaN before it
};

// In the order of the sequence, shapes as in AttentionCase; lse [T, N]. Values are those of the storage and accumulator
// types, widened.
struct AttentionResult {
  std::vector<double> o, lse;                        // lse = m + l; -inf where a row sees nothing
  std::vector<double> dq, dk, dv, dsinks;            // empty without gradients
  std::vector<Index> forward_bytes, backward_bytes;  // payload sent, by rank
  std::vector<double> seconds;                       // of the last passes, by rank
};

// Throws what comm::run_local throws.
AttentionResult run_attention(const AttentionCase& c, const AttentionSetup& setup);

// The extents of the largest pair of chunks: what a variant is chosen for.
AttentionShape largest_shape(const AttentionCase& c, const AttentionSetup& setup);

// What `auto` stands for. `ulysses` is 0 where it was not given.
// Strategy: single on one rank; usp where its factor is given; ulysses where the degree divides the KV heads (every
// rank then attends the whole sequence for its own heads, and no gradient is summed over ranks); else ring.
// Layout: zigzag balances a causal ring; elsewhere contiguous, which has the larger chunks and, for windows, the
// fewest neighbours. Factor of usp: the largest divisor of the degree, below it, that divides the KV heads, else the
// query heads; 1 when there is none.
const strategy::StrategyEntry* choose_strategy(std::string_view wanted, const AttentionCase& c, int ranks, int ulysses);
strategy::LayoutKind choose_layout(std::string_view strategy, const MaskSpec& mask);
int choose_ulysses(const AttentionCase& c, int ranks);

}  // namespace longhaul::train
