// Drives attention forward. A tile is some query heads, a part of the queries and a part of the keys; its items, one
// head and one block of queries each, are shared by the threads panel of keys by panel.
#include "kernel/cpu/attention_driver.h"

namespace longhaul::kernel {
namespace {

constexpr Index kItems = 256;               // a tile: enough to share evenly, not too long between messages
constexpr Index kPartKeys = 8192;           // keys of a tile
constexpr Index kPanelFloats = 128 * 1024;  // packed keys and values of a panel and head: half of a 1 MB cache

struct Plan {
  explicit Plan(const AttentionShape& s) noexcept
      : q_blocks{ceil_divide(s.q_rows, kBlock)},
        k_blocks{ceil_divide(s.k_rows, kBlock)},
        tile_heads{std::clamp<Index>(kItems / std::max<Index>(q_blocks, 1), 1, std::max<Index>(s.q_heads, 1))},
        tile_blocks{std::min(q_blocks, kItems)},
        part_blocks{std::min(k_blocks, kPartKeys / kBlock)},
        panel_blocks{std::clamp<Index>(kPanelFloats / (kBlock * (padded_width(s.d_qk) + padded_width(s.d_v))), 1,
                                       std::max<Index>(part_blocks, 1))},
        packed_heads{std::min(tile_heads, s.kv_heads)},
        head_groups{ceil_divide(s.q_heads, tile_heads)},
        q_parts{q_blocks == 0 ? 0 : ceil_divide(q_blocks, tile_blocks)},
        k_parts{k_blocks == 0 ? 0 : ceil_divide(k_blocks, part_blocks)} {}
  Index tiles() const noexcept { return head_groups * q_parts * k_parts; }

  Index q_blocks, k_blocks, tile_heads, tile_blocks, part_blocks, panel_blocks, packed_heads;
  Index head_groups, q_parts, k_parts;
};

struct Scratch {
  Scratch(ScratchCutter& cutter, const AttentionKernels& kernels, const AttentionShape& s, const Plan& plan,
          int threads) noexcept {
    q_ranges = cutter.take<TokenRange>(plan.q_blocks);
    k_ranges = cutter.take<TokenRange>(plan.k_blocks);
    keys.take(cutter, s, plan.panel_blocks, plan.packed_heads);
    classes = cutter.take<std::uint8_t>(plan.tile_blocks * plan.panel_blocks);
    costs = cutter.take<Index>(plan.tile_blocks);
    state_floats = kBlock * (padded_width(s.d_v) + 2);
    states = cutter.take<float>(plan.tile_heads * plan.tile_blocks * state_floats);
    workspace_floats = kernels.forward_workspace(s.d_qk, s.d_v);
    workspaces = cutter.take<float>(threads * workspace_floats);
    queries = cutter.take<QueryBlock>(threads);
  }

  TokenRange *q_ranges, *k_ranges;
  PackedKeys keys;
  std::uint8_t* classes;  // [query block of the tile, key block of the panel]
  Index* costs;           // of a query block of the tile in the panel
  float* states;
  float* workspaces;
  QueryBlock* queries;
  Index state_floats, workspace_floats;
};

class Forward {
 public:
  Forward(const AttentionKernels& kernels, const Team& team, const AttentionForward& a, const AttentionShape& s,
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
    const Index k_part = tile / (plan_.head_groups * plan_.q_parts);
    const Index q_part = tile % plan_.q_parts, head_group = tile / plan_.q_parts % plan_.head_groups;
    head0_ = head_group * plan_.tile_heads;
    heads_ = std::min(plan_.tile_heads, shape_.q_heads - head0_);
    block0_ = q_part * plan_.tile_blocks;
    blocks_ = std::min(plan_.tile_blocks, plan_.q_blocks - block0_);
    PackedKeys& keys = scratch_.keys;
    keys.head0 = kv_head_of(a_, head0_);
    const Index packed_heads = kv_head_of(a_, head0_ + heads_ - 1) - keys.head0 + 1;
    const TokenRange queries = join({scratch_.q_ranges + block0_, static_cast<std::size_t>(blocks_)});
    const Index last = std::min((k_part + 1) * plan_.part_blocks, plan_.k_blocks);
    bool begun = false;
    for (keys.block0 = k_part * plan_.part_blocks; keys.block0 < last; keys.block0 += keys.blocks) {
      keys.blocks = std::min(plan_.panel_blocks, last - keys.block0);
      if (classify(a_.params.mask, queries, join(key_ranges())) == TileClass::kEmpty) continue;
      prepare_panel(packed_heads);
      on_threads(team_, [&](int thread) { run_items(thread, !begun); });
      begun = true;
    }
    if (!begun) return;
    on_threads(team_, [&](int thread) { end_items(thread); });
  }

  std::span<const TokenRange> key_ranges() const noexcept {
    return {scratch_.k_ranges + scratch_.keys.block0, static_cast<std::size_t>(scratch_.keys.blocks)};
  }

  void prepare_panel(Index packed_heads) noexcept {
    const PackedKeys& keys = scratch_.keys;
    const bool last_is_whole = (keys.block0 + keys.blocks) * kBlock <= shape_.k_rows;
    const Index units = packed_heads * keys.blocks;
    on_threads(team_, [&](int thread) {
      for (Index u = part(units, team_.threads, thread); u < part(units, team_.threads, thread + 1); ++u)
        pack_keys(kernels_, a_, keys, u);
      for (Index b = part(blocks_, team_.threads, thread); b < part(blocks_, team_.threads, thread + 1); ++b)
        scratch_.costs[b] = classify_blocks(a_.params.mask, scratch_.q_ranges[block0_ + b], key_ranges(), last_is_whole,
                                            scratch_.classes + b * keys.blocks);
    });
  }

  void run_items(int thread, bool first) noexcept {
    const PackedKeys& keys = scratch_.keys;
    const auto cost = [&](Index i) { return scratch_.costs[i % blocks_]; };
    const Share share = share_of(heads_ * blocks_, cost, team_.threads, thread);
    const Index head_keys = keys.blocks * kBlock;
    for (Index i = share.begin; i < share.end; ++i) {
      const ForwardBlock block = item(i, thread);
      if (first) kernels_.forward_begin(block.state, shape_.d_v);
      if (cost(i) == 0) continue;
      const Index h = kv_head_of(a_, head0_ + i / blocks_) - keys.head0, b = i % blocks_;
      describe_queries(a_.params.mask, a_.q_tokens, block0_ + b, scratch_.queries[thread]);
      kernels_.forward(
          block, {keys.k + h * head_keys * padded_width(shape_.d_qk), keys.v + h * head_keys * padded_width(shape_.d_v),
                  keys.marks(), shape_.d_qk, shape_.d_v, scratch_.classes + b * keys.blocks, keys.blocks});
    }
  }

  void end_items(int thread) noexcept {
    const View<float, 2> m = a_.m_TN.as<float>(), l = a_.l_TN.as<float>();
    const Index items = heads_ * blocks_;
    for (Index i = part(items, team_.threads, thread); i < part(items, team_.threads, thread + 1); ++i) {
      const Index row = (block0_ + i % blocks_) * kBlock, head = head0_ + i / blocks_;
      kernels_.forward_end(item(i, thread), shape_.d_v,
                           {sums_of(a_.o_TNV, row, head), &m(row, head), &l(row, head), m.stride[0], l.stride[0]});
    }
  }

  ForwardBlock item(Index i, int thread) noexcept {
    const Index row = (block0_ + i % blocks_) * kBlock;
    float* state = scratch_.states + i * scratch_.state_floats;
    float* statistics = state + kBlock * padded_width(shape_.d_v);
    QueryBlock& queries = scratch_.queries[thread];
    return {rows_of(a_.q_TND, row, head0_ + i / blocks_),
            std::min(kBlock, shape_.q_rows - row),
            queries.keep,
            &queries.bounds,
            {static_cast<float>(a_.params.scale), static_cast<float>(a_.params.softcap)},
            {state, statistics, statistics + kBlock},
            scratch_.workspaces + thread * scratch_.workspace_floats};
  }

  const AttentionKernels& kernels_;
  const Team& team_;
  const AttentionForward& a_;
  const AttentionShape shape_;
  const Plan plan_;
  ScratchCutter cutter_;
  Scratch scratch_;
  Index head0_ = 0, heads_ = 0, block0_ = 0, blocks_ = 0;  // of the tile: query heads and query blocks
};

}  // namespace

Index forward_scratch_bytes(const AttentionKernels& kernels, const AttentionShape& s, int threads) noexcept {
  ScratchCutter cutter;
  const Plan plan(s);
  const Scratch scratch(cutter, kernels, s, plan, threads);
  return cutter.used();
}

Index forward_tile_count(const AttentionShape& s) noexcept {
  return Plan(s).tiles();
}

void forward_tiles(const AttentionKernels& kernels, Queue& queue, const AttentionForward& a, Index begin, Index end,
                   Bytes scratch) noexcept {
  Forward(kernels, queue.team(), a, checked_shape(a), scratch).run(begin, end);
}

}  // namespace longhaul::kernel
