// No op takes memory of its own once it has run with a shape.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string_view>

#include "kernel/ops.h"
#include "tensors.h"

namespace {

std::atomic<long> g_ours{0};

// oneDNN makes a small map of each call's arguments (2.6: 6 allocations, 264 bytes); those are not ours to avoid.
void count(void* caller) {
  Dl_info info{};
  const bool library = dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
                       std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos;
  if (!library) ++g_ours;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  count(__builtin_return_address(0));
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace longhaul::testing {
namespace {

struct Call {
  const char* name;
  std::function<void()> run;
};

// Where threads are made for each call (the build for tsan), a team of more than one allocates whatever the op does.
int threads_without_allocation() {
  const long before = g_ours;
  parallel_for(Team{2}, 2, [](Index, int) {});
  parallel_for(Team{2}, 2, [](Index, int) {});
  return g_ours == before ? 2 : 1;
}

TEST(Allocation, NoOpAllocatesOnceItHasRun) {
  for (const Ops* ops : {&kernel::cpu_ops(), &kernel::reference_ops()})
    for (const DType storage : {DType::kF32, DType::kBF16}) {
      constexpr Index kRows = 40, kWidth = 256;  // enough that the whole team works
      CpuQueue queue(threads_without_allocation());
      Tensor a(storage, kRows, kWidth), b(storage, kRows, kWidth), c(storage, kRows, kWidth),
          narrow(storage, 1, kWidth), square(storage, kWidth, kWidth), rstd(DType::kF32, kRows, 1),
          wide(DType::kF32, 1, kWidth), table(DType::kF32, kRows, kWidth / 2), logits(DType::kF32, kRows, kWidth),
          master(DType::kF32, 1, kRows * kWidth), m(DType::kF32, 1, kRows * kWidth), v(DType::kF32, 1, kRows * kWidth);
      for (Tensor* t : {&a, &b, &c, &narrow, &square, &rstd, &wide, &table, &logits, &master, &m, &v}) t->fill(0.5);
      std::vector<std::int32_t> tokens(kRows, 3);
      std::vector<Token> positions(kRows);
      const std::vector<double> frequency(kWidth / 2, 0.1);
      std::vector<std::byte> memory(std::max(ops->matmul_scratch({kRows, kWidth, kWidth, storage, storage}, 2),
                                             ops->rms_norm_backward_scratch(kRows, kWidth, storage, 2)));
      const Bytes scratch{memory.data(), static_cast<Index>(memory.size())};
      const AnyView<1> labels = int_view(tokens);
      const Call calls[] = {
          {"matmul",
           [&] {
             ops->matmul(queue, {a.matrix(), square.matrix(), c.matrix()}, scratch);
           }},
          {"rms_norm_forward",
           [&] {
             ops->rms_norm_forward(queue, {a.matrix(), narrow.row(), 1e-5, 0, c.matrix(), rstd.column()});
           }},
          {"rms_norm_backward",
           [&] {
             ops->rms_norm_backward(
                 queue, {a.matrix(), b.matrix(), narrow.row(), rstd.column(), 0, c.matrix(), wide.row()}, scratch);
           }},
          {"rope_table",
           [&] {
             ops->rope_table(queue, {positions, frequency, 1, table.matrix(), table.matrix()});
           }},
          {"rope",
           [&] {
             ops->rope(queue, {a.heads(1), table.matrix(), table.matrix(), c.heads(1)});
           }},
          {"gated_forward",
           [&] {
             ops->gated_forward(queue, {Activation::kSilu, a.matrix(), b.matrix(), c.matrix()});
           }},
          {"gated_backward",
           [&] {
             ops->gated_backward(queue,
                                 {Activation::kGeluTanh, a.matrix(), b.matrix(), c.matrix(), a.matrix(), b.matrix()});
           }},
          {"embedding_forward",
           [&] {
             ops->embedding_forward(queue, {labels, square.matrix(), c.matrix()});
           }},
          {"embedding_backward",
           [&] {
             ops->embedding_backward(queue, {labels, a.matrix(), logits.matrix()});
           }},
          {"cross_entropy",
           [&] {
             ops->cross_entropy(queue, {logits.matrix(), labels, 1, rstd.column(), c.matrix()});
           }},
          {"adamw",
           [&] {
             ops->adamw(queue, {master.row(), master.row(), m.row(), v.row(), {}});
           }},
          {"sum_squares", [&] { ops->sum_squares(queue, m.row()); }},
          {"add", [&] { ops->add(queue, a.matrix(), c.matrix()); }},
          {"copy", [&] { ops->copy(queue, a.heads(2), c.heads(2)); }},
          {"fill", [&] { ops->fill(queue, a.heads(2), 1); }},
      };
      for (const Call& call : calls) {
        call.run();
        const long ours = g_ours;
        call.run();
        EXPECT_EQ(g_ours - ours, 0) << call.name << ", " << ops->name << ", " << name_of(storage);
      }
    }
}

}  // namespace
}  // namespace longhaul::testing
