// Sums over ranks: every rank's part arrives before it is added, in rank order.
#include "exec/reduce.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include "base/error.h"

namespace longhaul::exec {
namespace {

constexpr std::uint64_t kSumTag = 0x53'0000'0000'0000;  // apart from those of attention
constexpr Index kBlock = 1 << 20;                       // elements that are on their way at once, over all ranks
constexpr Index kRow = 512;                             // elements: ops share their work out by rows
constexpr Index kAlignment = 64;

constexpr Index align_up(Index bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
constexpr Index part_begin(Index count, int rank, int ranks) noexcept {
  return count * rank / ranks;
}
// The largest part of a block, in elements.
constexpr Index largest_part(Index elements, int ranks) noexcept {
  return (std::min(elements, kBlock) + ranks - 1) / ranks;
}

// f(view) once for the rows of kRow elements and once for the rest.
template <class F>
void in_rows(const AnyView<1>& x, F&& f) {
  const Index rows = x.extent[0] / kRow, whole = rows * kRow;
  if (rows > 0) f(x.slice(0, 0, whole), rows, kRow);
  if (whole < x.extent[0]) f(x.slice(0, whole, x.extent[0] - whole), Index{1}, x.extent[0] - whole);
}
void add(Queue& queue, const Ops& ops, const AnyView<1>& from, const AnyView<1>& to) {
  in_rows(to, [&](const AnyView<1>& t, Index rows, Index columns) {
    const Index offset = (static_cast<std::byte*>(t.data) - static_cast<std::byte*>(to.data)) / size_of(to.dtype);
    const AnyView<1> f = from.slice(0, offset, rows * columns);
    ops.add(queue, make_view<2>(f.data, f.dtype, {rows, columns}, f.space),
            make_view<2>(t.data, t.dtype, {rows, columns}, t.space));
  });
}

// One block of a sum over ranks.
class BlockSum {
 public:
  BlockSum(Queue& queue, const Ops& ops, comm::Group& group, const AnyView<1>& block, Bytes scratch)
      : queue_(queue), ops_(ops), group_(group), block_(block), ranks_(group.size()), rank_(group.rank()) {
    const Index count = 2 * ranks_;
    events_ = reinterpret_cast<Event*>(scratch.data);
    std::uninitialized_value_construct_n(events_, count);
    buffers_ = scratch.data + align_up(count * static_cast<Index>(sizeof(Event)));
    buffer_bytes_ = align_up(largest_part(block.extent[0], ranks_) * size_of(block.dtype));
  }

  void run() {
    for (int i = 1; i < ranks_; ++i) {  // everyone talks to a different rank first
      const int from = (rank_ + ranks_ - i) % ranks_, to = (rank_ + i) % ranks_;
      receive(from) = group_.start_receive(queue_, message(from, buffer(from)));
      send(to) = group_.start_send(queue_, message(to, part(to)));
    }
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) group_.wait(queue_, receive(r));
    AnyView<1> sum = of(0);
    for (int r = 1; r < ranks_; ++r) add(queue_, ops_, of(r), sum);
    if (rank_ != 0) ops_.copy(queue_, as_row(sum), as_row(part(rank_)));
    wait_for_sends();
    for (int i = 1; i < ranks_; ++i) {
      const int from = (rank_ + ranks_ - i) % ranks_, to = (rank_ + i) % ranks_;
      receive(from) = group_.start_receive(queue_, message(from, part(from)));
      send(to) = group_.start_send(queue_, message(to, part(rank_)));
    }
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) group_.wait(queue_, receive(r));
    wait_for_sends();
  }

 private:
  static AnyView<3> as_row(const AnyView<1>& x) { return make_view<3>(x.data, x.dtype, {1, 1, x.extent[0]}, x.space); }
  AnyView<1> part(int rank) const {
    const Index n = block_.extent[0], begin = part_begin(n, rank, ranks_);
    return block_.slice(0, begin, part_begin(n, rank + 1, ranks_) - begin);
  }
  AnyView<1> buffer(int rank) const {  // what `rank` has sent of this rank's part
    return make_view<1>(buffers_ + (rank < rank_ ? rank : rank - 1) * buffer_bytes_, block_.dtype,
                        {part(rank_).extent[0]}, block_.space);
  }
  AnyView<1> of(int rank) const { return rank == rank_ ? part(rank) : buffer(rank); }
  static comm::Message message(int peer, const AnyView<1>& x) { return {peer, kSumTag, x.bytes()}; }
  Event& send(int rank) { return events_[rank]; }
  Event& receive(int rank) { return events_[ranks_ + rank]; }
  void wait_for_sends() {
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) group_.wait(queue_, send(r));
  }

  Queue& queue_;
  const Ops& ops_;
  comm::Group& group_;
  AnyView<1> block_;
  int ranks_, rank_;
  Event* events_ = nullptr;
  std::byte* buffers_ = nullptr;
  Index buffer_bytes_ = 0;
};

Bytes as_bytes(std::span<double> values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<Index>(values.size_bytes())};
}
void send_control(Queue& queue, comm::Group& group, int peer, Bytes bytes) {
  group.wait(queue, group.start_send(queue, {peer, kSumTag, bytes, comm::Traffic::kControl}));
}
void receive_control(Queue& queue, comm::Group& group, int peer, Bytes bytes) {
  group.wait(queue, group.start_receive(queue, {peer, kSumTag, bytes, comm::Traffic::kControl}));
}

}  // namespace

void sum_over(Queue& queue, comm::Group& group, std::span<double> values) {
  constexpr std::size_t kMost = 64;
  CHECK(values.size() <= kMost, "%zu values", values.size());
  if (group.rank() != 0) {
    send_control(queue, group, 0, as_bytes(values));
    return receive_control(queue, group, 0, as_bytes(values));
  }
  double memory[kMost];
  const std::span<double> of_rank = std::span(memory).first(values.size());
  for (int r = 1; r < group.size(); ++r) {
    receive_control(queue, group, r, as_bytes(of_rank));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += of_rank[i];
  }
  for (int r = 1; r < group.size(); ++r) send_control(queue, group, r, as_bytes(values));
}

Index sum_scratch_bytes(Index elements, DType type, int ranks) noexcept {
  if (ranks <= 1) return 0;
  return align_up(2 * ranks * static_cast<Index>(sizeof(Event))) +
         (ranks - 1) * align_up(largest_part(elements, ranks) * size_of(type));
}

void sum_over(Queue& queue, const Ops& ops, comm::Group& group, const AnyView<1>& x, Bytes scratch) {
  if (group.size() == 1) return;
  const Index n = x.extent[0], needed = sum_scratch_bytes(n, x.dtype, group.size());
  CHECK(x.contiguous() && accumulator_of(x.dtype) == x.dtype && scratch.size >= needed,
        "%s, %ld elements, scratch %ld of %ld bytes", name_of(x.dtype), n, scratch.size, needed);
  for (Index begin = 0; begin < n; begin += kBlock)
    BlockSum(queue, ops, group, x.slice(0, begin, std::min(kBlock, n - begin)), scratch).run();
}

void check_equal(Queue& queue, comm::Group& group, std::uint64_t value, const char* what) {
  struct Verdict {
    std::uint64_t first, other;
    std::int64_t rank;  // the first that differs from rank 0, or -1
  } verdict{value, value, -1};
  const auto bytes = [](auto& x) { return Bytes{reinterpret_cast<std::byte*>(&x), sizeof x}; };
  if (group.rank() == 0) {
    for (int r = 1; r < group.size(); ++r) {
      std::uint64_t theirs = 0;
      receive_control(queue, group, r, bytes(theirs));
      if (theirs != value && verdict.rank < 0) verdict.other = theirs, verdict.rank = r;
    }
    for (int r = 1; r < group.size(); ++r) send_control(queue, group, r, bytes(verdict));
  } else {
    send_control(queue, group, 0, bytes(value));
    receive_control(queue, group, 0, bytes(verdict));
  }
  if (verdict.rank >= 0)
    throw run_error(fmt::format("{} differs between ranks: {:016x} on rank 0, {:016x} on rank {} of a group of {}",
                                what, verdict.first, verdict.other, verdict.rank, group.size()),
                    "", "all ranks must read the same data with the same options");
}

}  // namespace longhaul::exec
