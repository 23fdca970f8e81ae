// Reference addition, strided copy with a cast, and fill, between any of the float types.
#include "kernel/ref/ref.h"

namespace longhaul::kernel::ref {
namespace {

template <int R>
void check_extents(const AnyView<R>& from, const AnyView<R>& to) {
  for (int d = 0; d < R; ++d)
    CHECK(from.extent[d] == to.extent[d], "dimension %d has %ld and %ld", d, from.extent[d], to.extent[d]);
}

// Calls f(From{}, To{}) with the two element types.
template <class F>
void with_both(DType from, DType to, F&& f) {
  with_storage(from, [&](auto a) { with_storage(to, [&](auto b) { f(a, b); }); });
}

// What a From and a To are added in.
template <class From, class To>
using Common = std::conditional_t<std::is_same_v<From, double> || std::is_same_v<To, double>, double, float>;

}  // namespace

void add(Queue& queue, const AnyView<2>& from, const AnyView<2>& to) noexcept {
  check_extents(from, to);
  with_both(from.dtype, to.dtype, [&]<class From, class To>(From, To) {
    using C = Common<From, To>;
    const auto a = from.as<const From>();
    const auto b = to.as<To>();
    parallel_for(queue.team(), a.extent[0], [&](Index i, int) {
      for (Index j = 0; j < a.extent[1]; ++j)
        b(i, j) = static_cast<To>(static_cast<C>(b(i, j)) + static_cast<C>(a(i, j)));
    });
  });
}

void copy(Queue& queue, const AnyView<3>& from, const AnyView<3>& to) noexcept {
  check_extents(from, to);
  with_both(from.dtype, to.dtype, [&]<class From, class To>(From, To) {
    const auto a = from.as<const From>();
    const auto b = to.as<To>();
    parallel_for(queue.team(), a.extent[0] * a.extent[1], [&](Index row, int) {
      const Index i = row / a.extent[1], j = row % a.extent[1];
      for (Index k = 0; k < a.extent[2]; ++k) b(i, j, k) = static_cast<To>(static_cast<Common<From, To>>(a(i, j, k)));
    });
  });
}

void fill(Queue& queue, const AnyView<3>& to, double value) noexcept {
  with_storage(to.dtype, [&]<class S>(S) {
    const auto b = to.as<S>();
    const S v = static_cast<S>(static_cast<Accumulator<S>>(value));
    parallel_for(queue.team(), b.extent[0] * b.extent[1], [&](Index row, int) {
      const Index i = row / b.extent[1], j = row % b.extent[1];
      for (Index k = 0; k < b.extent[2]; ++k) b(i, j, k) = v;
    });
  });
}

}  // namespace longhaul::kernel::ref
