// Sums over ranks: exact, in rank order, the same bits on every rank, without allocation.
#include "exec/reduce.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/random.h"
#include "comm/allocations.h"
#include "kernel/ops.h"
#include "tensor/arena.h"

namespace longhaul::exec {
namespace {

template <class T>
T value(int rank, Index i) {
  return static_cast<T>(random_normal(static_cast<std::uint64_t>(rank), 0, static_cast<std::uint64_t>(i)));
}

template <class T>
void expect_sums_in_rank_order(int ranks, Index count) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements of " << sizeof(T) << " bytes");
  std::vector<T> want(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) {
    want[i] = value<T>(0, i);
    for (int r = 1; r < ranks; ++r) want[i] += value<T>(r, i);
  }
  comm::run_local(ranks, 60, [&](comm::World& w) {
    CpuQueue queue(1);
    std::vector<T> x(want.size());
    for (Index i = 0; i < count; ++i) x[i] = value<T>(w.rank(), i);
    const DType type = DTypeOf<T>::value;
    Arena scratch(sum_scratch_bytes(count, type, ranks));
    scratch.poison(0, scratch.size());
    sum_over(queue, kernel::reference_ops(), w.all(), make_view<1>(x.data(), type, {count}),
             scratch.at(0, scratch.size()));
    EXPECT_EQ(x, want);
  });
}

TEST(Reduce, SumsAreInRankOrderOnEveryRank) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (Index count : {0, 1, 2, 3, 7, 64, 513, 5000}) {
      expect_sums_in_rank_order<float>(ranks, count);
      if (ranks % 3 == 0) expect_sums_in_rank_order<double>(ranks, count);
    }
}

TEST(Reduce, MoreElementsThanABlock) {
  expect_sums_in_rank_order<float>(3, (1 << 20) + 12345);
}

TEST(Reduce, FewNumbersInFp64) {
  for (int ranks : {1, 2, 5, 8})
    for (std::size_t count : {0, 1, 64})
      comm::run_local(ranks, 60, [&](comm::World& w) {
        CpuQueue queue(1);
        std::vector<double> x(count), want(count);
        for (std::size_t i = 0; i < count; ++i) {
          x[i] = value<double>(w.rank(), static_cast<Index>(i));
          for (int r = 0; r < ranks; ++r) {
            const double y = value<double>(r, static_cast<Index>(i));
            want[i] = r == 0 ? y : want[i] + y;
          }
        }
        sum_over(queue, w.all(), x);
        EXPECT_EQ(x, want);
        EXPECT_EQ(w.all().bytes_sent(comm::Traffic::kPayload), 0);
      });
}

TEST(Reduce, NothingIsAllocatedAfterTheFirstSum) {
  std::atomic<long> before{0}, after{0};
  comm::run_local(4, 60, [&](comm::World& w) {
    CpuQueue queue(1);
    std::vector<float> x(1000);
    Arena scratch(sum_scratch_bytes(1000, DType::kF32, 4));
    double few[3] = {1, 2, 3};
    const auto round = [&] {
      sum_over(queue, kernel::reference_ops(), w.all(), make_view<1>(x.data(), DType::kF32, {1000}),
               scratch.at(0, scratch.size()));
      sum_over(queue, w.all(), few);
      check_equal(queue, w.all(), 7, "the batch");
    };
    round(), round();
    if (w.rank() == 0) before = comm::allocations();
    round(), round();
    if (w.rank() == 0) after = comm::allocations();
    round();
  });
  EXPECT_EQ(after - before, 0);
}

TEST(Reduce, ValuesThatDifferAreNamedOnEveryRank) {
  for (int ranks : {1, 2, 6})
    comm::run_local(ranks, 60, [](comm::World& w) {
      CpuQueue queue(1);
      check_equal(queue, w.all(), 42, "the batch");
    });
  std::atomic<int> failures{0};
  try {
    comm::run_local(4, 60, [&](comm::World& w) {
      CpuQueue queue(1);
      try {
        check_equal(queue, w.all(), w.rank() == 2 ? 43 : 42, "the batch");
      } catch (const Error&) {
        ++failures;
        throw;
      }
    });
    FAIL() << "no failure";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the batch differs between ranks: 000000000000002a on rank 0, "
                                         "000000000000002b on rank 2"),
              std::string::npos)
        << e.what();
  }
  EXPECT_GE(failures, 1);
}

}  // namespace
}  // namespace longhaul::exec
