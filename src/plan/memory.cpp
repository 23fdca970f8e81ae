// Best fit in several orders, then the buffers that stick out are placed earlier, until the bound is met.
#include "plan/memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace longhaul::plan {
namespace {

// What placing needs of a buffer.
struct Block {
  Index size;
  int first, last;
  Index offset;
};

bool meet(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

Index largest_live(std::span<const Block> blocks) {
  int phases = 0;
  for (const Block& b : blocks) phases = std::max(phases, b.last + 1);
  std::vector<Index> change(static_cast<std::size_t>(phases) + 1);
  for (const Block& b : blocks) {
    change[static_cast<std::size_t>(b.first)] += b.size;
    change[static_cast<std::size_t>(b.last) + 1] -= b.size;
  }
  Index live = 0, most = 0;
  for (Index c : change) most = std::max(most, live += c);
  return most;
}

class Placer {
 public:
  explicit Placer(std::vector<Block> blocks) : blocks_(std::move(blocks)), bound_(largest_live(blocks_)) {
    by_offset_.reserve(blocks_.size());
  }

  // The offsets of the best order found.
  std::vector<Index> run(Index& bytes) {
    std::vector<int> order(blocks_.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<int>> orders;
    const auto sorted_by = [&](auto key) {
      orders.push_back(order);
      std::stable_sort(orders.back().begin(), orders.back().end(), [&](int a, int b) { return key(a) > key(b); });
    };
    const auto span_of = [&](int i) { return static_cast<double>(blocks_[i].last - blocks_[i].first + 1); };
    sorted_by([&](int i) { return static_cast<double>(blocks_[i].size); });
    sorted_by([&](int i) { return static_cast<double>(blocks_[i].size) * span_of(i); });
    sorted_by([&](int i) { return span_of(i); });
    for (const auto& o : orders)
      if (improve(o)) break;
    bytes = best_;
    return best_offsets_;
  }

 private:
  // Places in this order, then again and again with what sticks out moved to the front. True when the bound is met.
  bool improve(std::vector<int> order) {
    // A pass costs about n^2 / 8 comparisons; a table of a thousand buffers gets some dozens of them.
    const std::size_t n = std::max<std::size_t>(order.size(), 1);
    const std::size_t passes = std::clamp<std::size_t>(20'000'000 / (n * n), 8, 400);
    for (std::size_t pass = 0; pass < passes; ++pass) {
      const Index bytes = place_all(order);
      if (bytes < best_) {
        best_ = bytes;
        best_offsets_.clear();
        for (const Block& b : blocks_) best_offsets_.push_back(b.offset);
      }
      if (best_ <= bound_) return true;
      const auto highest = std::max_element(order.begin(), order.end(), [&](int a, int b) {
        return blocks_[a].offset + blocks_[a].size < blocks_[b].offset + blocks_[b].size;
      });
      // To a place that falls back from pass to pass, so that two blocks do not push each other for ever.
      const auto place = std::min<std::ptrdiff_t>(highest - order.begin(), static_cast<std::ptrdiff_t>(pass % 7));
      std::rotate(order.begin() + (highest - order.begin() == place ? 0 : place), highest, highest + 1);
    }
    return false;
  }

  Index place_all(std::span<const int> order) {
    by_offset_.clear();
    Index bytes = 0;
    for (int i : order) {
      Block& b = blocks_[i];
      b.offset = best_fit(b);
      bytes = std::max(bytes, b.offset + b.size);
      const auto at = std::upper_bound(by_offset_.begin(), by_offset_.end(), b.offset,
                                       [&](Index offset, int other) { return offset < blocks_[other].offset; });
      by_offset_.insert(at, i);
    }
    return bytes;
  }

  // The smallest gap between blocks that meet this one in time; behind all of them when no gap is large enough.
  Index best_fit(const Block& b) const {
    Index end = 0, best = -1, best_gap = 0;
    for (int i : by_offset_) {
      const Block& other = blocks_[i];
      if (!meet(b, other)) continue;
      const Index gap = other.offset - end;
      if (gap >= b.size && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, other.offset + other.size);
    }
    return best < 0 ? end : best;
  }

  std::vector<Block> blocks_;
  Index bound_;
  std::vector<int> by_offset_;
  Index best_ = INT64_MAX;
  std::vector<Index> best_offsets_;
};

std::vector<Block> blocks_of(std::span<const spec::Buffer> buffers, Index gap) {
  std::vector<Block> blocks;
  blocks.reserve(buffers.size());
  for (const spec::Buffer& b : buffers) {
    CHECK(b.life.first <= b.life.last && b.life.first >= 0, "%s lives from %d to %d", name_of(b.id), b.life.first,
          b.life.last);
    blocks.push_back({align_up(b.bytes() + gap), b.life.first, b.life.last, -1});
  }
  return blocks;
}

}  // namespace

Index place(std::span<spec::Buffer> buffers, Index gap) {
  if (buffers.empty()) return 0;
  Index bytes = 0;
  const std::vector<Index> offsets = Placer(blocks_of(buffers, gap)).run(bytes);
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = offsets[i];
  return bytes;
}

Index largest_live_bytes(std::span<const spec::Buffer> buffers) {
  return largest_live(blocks_of(buffers, 0));
}

}  // namespace longhaul::plan
