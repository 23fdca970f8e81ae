// Addition, strided copy with a cast, and fill.
#include <algorithm>
#include <cstring>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"

namespace longhaul::kernel::cpu {
namespace {

template <int R>
void check_extents(const AnyView<R>& from, const AnyView<R>& to) {
  for (int d = 0; d < R; ++d)
    CHECK(from.extent[d] == to.extent[d], "dimension %d has %ld and %ld", d, from.extent[d], to.extent[d]);
}

// Makes rows longer where all views have the last two dimensions adjacent, or the first two for one loop over rows.
template <class... Views>
void join_dimensions(Views&... views) {
  const auto join = [](auto& v, int d) {  // dimensions d and d + 1 become d + 1
    v.extent[d + 1] *= v.extent[d];
    v.extent[d] = 1;
  };
  if (((views.stride[2] == 1 && views.stride[1] == views.extent[2]) && ...)) {
    (join(views, 1), ...);
    if (((views.stride[0] == views.extent[2]) && ...)) {
      ((views.extent[2] *= views.extent[0], views.extent[0] = 1), ...);
    }
  }
}

}  // namespace

void add(Queue& queue, const AnyView<2>& from_view, const AnyView<2>& to_view, const ElementRows& kernels) noexcept {
  AnyView<2> from = from_view, to = to_view;
  if (!is_fp32_or_bf16(from.dtype) || !is_fp32_or_bf16(to.dtype) || !is_row_major(from) || !is_row_major(to))
    return ref::add(queue, from, to);
  check_extents(from, to);
  join_rows(from, to);
  const auto kernel = kernels.add[storage_index(from.dtype)][storage_index(to.dtype)];
  for_pieces(queue, to.extent[0], to.extent[1], [&](Index row, Index begin, Index count) {
    kernel(address(from, row * from.stride[0] + begin), address(to, row * to.stride[0] + begin), count);
  });
}

void copy(Queue& queue, const AnyView<3>& from_view, const AnyView<3>& to_view, const ElementRows& kernels) noexcept {
  AnyView<3> from = from_view, to = to_view;
  const bool cast = from.dtype != to.dtype;
  const bool known = !cast || (is_fp32_or_bf16(from.dtype) && is_fp32_or_bf16(to.dtype));
  if (!known || !is_row_major(from) || !is_row_major(to)) return ref::copy(queue, from, to);
  check_extents(from, to);
  join_dimensions(from, to);
  const auto kernel = kernels.cast[storage_index(from.dtype)][storage_index(to.dtype)];
  const Index inner = to.extent[1];
  for_pieces(queue, to.extent[0] * inner, to.extent[2], [&](Index row, Index begin, Index count) {
    const Index i = row / inner, j = row % inner;
    const std::byte* const source = address(from, i * from.stride[0] + j * from.stride[1] + begin);
    std::byte* const target = address(to, i * to.stride[0] + j * to.stride[1] + begin);
    if (cast)
      kernel(source, target, count);
    else
      std::memcpy(target, source, count * size_of(to.dtype));
  });
}

void fill(Queue& queue, const AnyView<3>& view, double value) noexcept {
  AnyView<3> to = view;
  if (!is_row_major(to)) return ref::fill(queue, to, value);
  join_dimensions(to);
  ref::with_storage(to.dtype, [&]<class S>(S) {
    const S x = static_cast<S>(static_cast<ref::Accumulator<S>>(value));
    const Index inner = to.extent[1];
    for_pieces(queue, to.extent[0] * inner, to.extent[2], [&](Index row, Index begin, Index count) {
      const Index at = row / inner * to.stride[0] + row % inner * to.stride[1] + begin;
      std::fill_n(reinterpret_cast<S*>(address(to, at)), count, x);
    });
  });
}

}  // namespace longhaul::kernel::cpu
