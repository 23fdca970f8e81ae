// RMS norm and its gradient over rows.
#include <cstring>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/pieces.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {
namespace {

constexpr Index kLine = 16;  // fp32 elements of a cache line: threads' partial sums share none

Index partial_width(Index hidden) {
  return (hidden + kLine - 1) / kLine * kLine;
}

bool taken(const RmsNormForward& a) {
  return is_fp32_or_bf16(a.x_TE.dtype) && is_row_major(a.x_TE) && is_row_major(a.w_E) && is_row_major(a.y_TE);
}

bool taken(const RmsNormBackward& a) {
  return is_fp32_or_bf16(a.x_TE.dtype) && is_row_major(a.dy_TE) && is_row_major(a.x_TE) && is_row_major(a.w_E) &&
         is_row_major(a.dx_TE);
}

}  // namespace

void rms_norm_forward(Queue& queue, const RmsNormForward& a, const NormRows& kernels) noexcept {
  if (!taken(a)) return ref::rms_norm_forward(queue, a);
  check_shapes(a);
  const auto kernel = kernels.forward[storage_index(a.x_TE.dtype)];
  const auto rstd = a.rstd_T.as<float>();
  const Index rows = a.x_TE.extent[0], width = a.x_TE.extent[1];
  parallel_for(team_for(queue, rows * width), rows, [&](Index t, int) {
    rstd(t) = kernel(address(a.x_TE, t * a.x_TE.stride[0]), a.w_E.data, address(a.y_TE, t * a.y_TE.stride[0]), width,
                     static_cast<float>(a.eps), static_cast<float>(a.weight_offset));
  });
}

Index rms_norm_backward_scratch(Index, Index hidden, DType storage, int threads) noexcept {
  return storage == DType::kF64 ? 0 : threads * partial_width(hidden) * static_cast<Index>(sizeof(float));
}

// Each thread sums dw over its rows; the threads' sums are added in thread order.
void rms_norm_backward(Queue& queue, const RmsNormBackward& a, Bytes scratch, const NormRows& kernels) noexcept {
  if (!taken(a)) return ref::rms_norm_backward(queue, a, scratch);
  check_shapes(a);
  const auto kernel = kernels.backward[storage_index(a.x_TE.dtype)];
  const auto rstd = a.rstd_T.as<const float>();
  const auto dw = a.dw_E.as<float>();
  const Index rows = a.x_TE.extent[0], width = a.x_TE.extent[1], apart = partial_width(width);
  const Team team = team_for(queue, rows * width);
  CHECK(scratch.size >= rms_norm_backward_scratch(rows, width, a.x_TE.dtype, team.threads),
        "rms_norm_backward: %ld bytes of scratch for %d threads of %ld", scratch.size, team.threads, width);
  auto* const partial = reinterpret_cast<float*>(scratch.data);
  parallel_ranges(team, rows, [&](Index begin, Index end, int thread) {
    float* const sum = partial + thread * apart;
    std::memset(sum, 0, width * sizeof(float));
    for (Index t = begin; t < end; ++t)
      kernel(address(a.dy_TE, t * a.dy_TE.stride[0]), address(a.x_TE, t * a.x_TE.stride[0]), a.w_E.data, rstd(t),
             address(a.dx_TE, t * a.dx_TE.stride[0]), sum, width, static_cast<float>(a.weight_offset));
  });
  for (int thread = 0; thread < team.threads; ++thread)
    for (Index e = 0; e < width; ++e) dw(e) += partial[thread * apart + e];
}

}  // namespace longhaul::kernel::cpu
