// Drives attention backward. A tile is some key/value heads, a panel of keys and a part of the queries; its items, one
// query head and one block of queries each, are shared by the threads. Gradients of queries are added in place, as each
// item has its own; gradients of keys are summed by each thread and then added in the order of the threads.
#include "kernel/cpu/attention_driver.h"

namespace longhaul::kernel {
namespace {

constexpr Index kItems = 128;              // a tile's least, where heads are there to have them
constexpr Index kPartBlocks = 170;         // blocks of queries of a tile
constexpr Index kPanelFloats = 64 * 1024;  // packed keys and values of a panel and head; their gradients are as many

struct Plan {
  explicit Plan(const AttentionShape& s) noexcept
      : q_blocks{ceil_divide(s.q_rows, kBlock)},
        k_blocks{ceil_divide(s.k_rows, kBlock)},
        part_blocks{std::min(q_blocks, kPartBlocks)},
        panel_blocks{std::min(
            k_blocks, std::max<Index>(kPanelFloats / (kBlock * (padded_width(s.d_qk) + padded_width(s.d_v))), 1))},
        q_parts{q_blocks == 0 ? 0 : ceil_divide(q_blocks, part_blocks)},
        panels{k_blocks == 0 ? 0 : ceil_divide(k_blocks, panel_blocks)} {
    if (tile_count_is_zero(s)) return;
    const Index items_a_head = ceil_divide(s.q_heads, s.kv_heads) * part_blocks;
    tile_heads = std::clamp<Index>(ceil_divide(kItems, items_a_head), 1, s.kv_heads);
    head_groups = ceil_divide(s.kv_heads, tile_heads);
  }
  bool tile_count_is_zero(const AttentionShape& s) const noexcept {
    return q_parts == 0 || panels == 0 || s.q_heads == 0 || s.kv_heads == 0;
  }
  Index tiles() const noexcept { return panels * q_parts * head_groups; }

  Index q_blocks, k_blocks, part_blocks, panel_blocks, q_parts, panels;
  Index tile_heads = 0, head_groups = 0;  // key/value heads
};

struct Scratch {
  Scratch(ScratchCutter& cutter, const AttentionKernels& kernels, const AttentionShape& s, const Plan& plan,
          int threads) noexcept {
    q_ranges = cutter.take<TokenRange>(plan.q_blocks);
    k_ranges = cutter.take<TokenRange>(plan.k_blocks);
    keys.take(cutter, s, plan.panel_blocks, plan.tile_heads);
    classes = cutter.take<std::uint8_t>(plan.part_blocks * plan.panel_blocks);
    costs = cutter.take<Index>(plan.part_blocks);
    dk_floats = plan.panel_blocks * kBlock * padded_width(s.d_qk);
    dv_floats = plan.panel_blocks * kBlock * padded_width(s.d_v);
    sums = cutter.take<float>(threads * 2 * (dk_floats + dv_floats));
    waiting = cutter.take<Index>(threads);
    workspace_floats = kernels.backward_workspace(s.d_qk, s.d_v);
    workspaces = cutter.take<float>(threads * workspace_floats);
    queries = cutter.take<QueryBlock>(threads);
  }
  float* dk(int thread, int slot) const noexcept { return sums + (thread * 2 + slot) * (dk_floats + dv_floats); }
  float* dv(int thread, int slot) const noexcept { return dk(thread, slot) + dk_floats; }

  TokenRange *q_ranges, *k_ranges;
  PackedKeys keys;
  std::uint8_t* classes;  // [query block of the tile, key block of the panel]
  Index* costs;           // of a query block of the tile in the panel
  float* sums;            // two slots a thread: dk and dv of the panel for one key/value head
  Index* waiting;         // of each thread: the key/value head in its slot 0, -1 for none
  float* workspaces;
  QueryBlock* queries;
  Index dk_floats, dv_floats, workspace_floats;
};

class Backward {
 public:
  Backward(const AttentionKernels& kernels, const Team& team, const AttentionBackward& a, const AttentionShape& s,
           Bytes memory) noexcept
      : kernels_{kernels},
        team_{team},
        a_{a},
        shape_{s},
        plan_{s},
        cutter_{memory.data},
        scratch_{cutter_, kernels, s, plan_, team.threads} {
    CHECK(cutter_.used() <= memory.size, "scratch has %ld bytes, not %ld", memory.size, cutter_.used());
  }

  void run(Index begin, Index end) noexcept {
    CHECK(0 <= begin && begin <= end && end <= plan_.tiles(), "tiles [%ld, %ld) of %ld", begin, end, plan_.tiles());
    if (begin == end) return;
    fill_ranges(team_, a_.q_tokens, scratch_.q_ranges, a_.k_tokens, scratch_.k_ranges);
    for (Index tile = begin; tile < end; ++tile) run_tile(tile);
  }

 private:
  void run_tile(Index tile) noexcept {
    const Index group = tile % plan_.head_groups, q_part = tile / plan_.head_groups % plan_.q_parts;
    const Index panel = tile / (plan_.head_groups * plan_.q_parts);
    kv_head0_ = group * plan_.tile_heads;
    kv_heads_ = std::min(plan_.tile_heads, shape_.kv_heads - kv_head0_);
    head0_ = query_heads_of(a_, kv_head0_).begin;
    heads_ = query_heads_of(a_, kv_head0_ + kv_heads_ - 1).end - head0_;
    block0_ = q_part * plan_.part_blocks;
    blocks_ = std::min(plan_.part_blocks, plan_.q_blocks - block0_);
    PackedKeys& keys = scratch_.keys;
    keys.head0 = kv_head0_;
    keys.block0 = panel * plan_.panel_blocks;
    keys.blocks = std::min(plan_.panel_blocks, plan_.k_blocks - keys.block0);
    const TokenRange queries = join({scratch_.q_ranges + block0_, static_cast<std::size_t>(blocks_)});
    if (heads_ == 0 || classify(a_.params.mask, queries, join(key_ranges())) == TileClass::kEmpty) return;
    prepare();
    on_threads(team_, [&](int thread) { run_items(thread); });
    parallel_for(team_, kv_heads_ * keys.blocks, [&](Index unit, int) { add_waiting(unit); });
  }

  std::span<const TokenRange> key_ranges() const noexcept {
    return {scratch_.k_ranges + scratch_.keys.block0, static_cast<std::size_t>(scratch_.keys.blocks)};
  }

  void prepare() noexcept {
    const PackedKeys& keys = scratch_.keys;
    const bool last_is_whole = (keys.block0 + keys.blocks) * kBlock <= shape_.k_rows;
    const Index units = kv_heads_ * keys.blocks;
    on_threads(team_, [&](int thread) {
      for (Index u = part(units, team_.threads, thread); u < part(units, team_.threads, thread + 1); ++u)
        pack_keys(kernels_, a_, keys, u);
      for (Index b = part(blocks_, team_.threads, thread); b < part(blocks_, team_.threads, thread + 1); ++b)
        scratch_.costs[b] = classify_blocks(a_.params.mask, scratch_.q_ranges[block0_ + b], key_ranges(), last_is_whole,
                                            scratch_.classes + b * keys.blocks);
    });
  }

  // A thread's share is a run of items, so at most the first of its key/value heads begins in an earlier thread's
  // share. The sums of that head wait in slot 0 until all threads are done; those of others are added at once from
  // slot 1.
  void run_items(int thread) noexcept {
    scratch_.waiting[thread] = -1;
    const Share share = share_of(
        heads_ * blocks_, [&](Index i) { return scratch_.costs[i % blocks_]; }, team_.threads, thread);
    for (Index g = kv_head0_; g < kv_head0_ + kv_heads_; ++g) {
      const HeadRange heads = query_heads_of(a_, g);
      const Index first = (heads.begin - head0_) * blocks_, last = (heads.end - head0_) * blocks_;
      const Index begin = std::max(share.begin, first), end = std::min(share.end, last);
      if (begin >= end) continue;
      const int slot = begin > first ? 0 : 1;
      if (!run_head(thread, slot, g, begin, end)) continue;
      if (slot == 0)
        scratch_.waiting[thread] = g;
      else
        add_panel(thread, slot, g, 0, scratch_.keys.blocks);
    }
  }

  // Items [begin, end), which use key/value head g. Returns whether any of them sees a key.
  bool run_head(int thread, int slot, Index g, Index begin, Index end) noexcept {
    const PackedKeys& keys = scratch_.keys;
    const Index head_keys = keys.blocks * kBlock, h = g - keys.head0;
    bool some = false;
    for (Index i = begin; i < end; ++i) {
      const Index b = i % blocks_;
      if (scratch_.costs[b] == 0) continue;
      if (!some) std::fill_n(scratch_.dk(thread, slot), scratch_.dk_floats + scratch_.dv_floats, 0.f);
      some = true;
      describe_queries(a_.params.mask, a_.q_tokens, block0_ + b, scratch_.queries[thread]);
      kernels_.backward(
          item(i, thread, slot),
          {keys.k + h * head_keys * padded_width(shape_.d_qk), keys.v + h * head_keys * padded_width(shape_.d_v),
           keys.marks(), shape_.d_qk, shape_.d_v, scratch_.classes + b * keys.blocks, keys.blocks});
    }
    return some;
  }

  BackwardBlock item(Index i, int thread, int slot) noexcept {
    const Index row = (block0_ + i % blocks_) * kBlock, head = head0_ + i / blocks_;
    const auto m = a_.m_TN.as<const float>(), l = a_.l_TN.as<const float>(), delta = a_.delta_TN.as<const float>();
    return {rows_of(a_.q_TND, row, head),
            rows_of(a_.do_TNV, row, head),
            std::min(kBlock, shape_.q_rows - row),
            scratch_.queries[thread].keep,
            &scratch_.queries[thread].bounds,
            {static_cast<float>(a_.params.scale), static_cast<float>(a_.params.softcap)},
            &m(row, head),
            &l(row, head),
            &delta(row, head),
            m.stride[0],
            l.stride[0],
            delta.stride[0],
            sums_of(a_.dq_TND, row, head),
            scratch_.dk(thread, slot),
            scratch_.dv(thread, slot),
            scratch_.workspaces + thread * scratch_.workspace_floats};
  }

  // Adds key blocks [begin, end) of a slot to the gradients of head g.
  void add_panel(int thread, int slot, Index g, Index begin, Index end) noexcept {
    const Index first = (scratch_.keys.block0 + begin) * kBlock, from = begin * kBlock;
    const Index rows = std::min((end - begin) * kBlock, shape_.k_rows - first);
    kernels_.add_rows(scratch_.dk(thread, slot) + from * padded_width(shape_.d_qk), rows, shape_.d_qk,
                      sums_of(a_.dk_KGD, first, g));
    kernels_.add_rows(scratch_.dv(thread, slot) + from * padded_width(shape_.d_v), rows, shape_.d_v,
                      sums_of(a_.dv_KGV, first, g));
  }

  void add_waiting(Index unit) noexcept {
    const Index g = kv_head0_ + unit / scratch_.keys.blocks, block = unit % scratch_.keys.blocks;
    for (int thread = 0; thread < team_.threads; ++thread)
      if (scratch_.waiting[thread] == g) add_panel(thread, 0, g, block, block + 1);
  }

  const AttentionKernels& kernels_;
  const Team& team_;
  const AttentionBackward& a_;
  const AttentionShape shape_;
  const Plan plan_;
  ScratchCutter cutter_;
  Scratch scratch_;
  Index kv_head0_ = 0, kv_heads_ = 0;                      // of the tile
  Index head0_ = 0, heads_ = 0, block0_ = 0, blocks_ = 0;  // of the tile: query heads and query blocks
};

}  // namespace

Index backward_scratch_bytes(const AttentionKernels& kernels, const AttentionShape& s, int threads) noexcept {
  ScratchCutter cutter;
  const Plan plan(s);
  const Scratch scratch(cutter, kernels, s, plan, threads);
  return cutter.used();
}

Index backward_tile_count(const AttentionShape& s) noexcept {
  return Plan(s).tiles();
}

void backward_tiles(const AttentionKernels& kernels, Queue& queue, const AttentionBackward& a, Index begin, Index end,
                    Bytes scratch) noexcept {
  Backward(kernels, queue.team(), a, checked_shape(a), scratch).run(begin, end);
}

}  // namespace longhaul::kernel
