// How elementwise work is cut for threads: by rows where there are many, by stretches of rows where there are few.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "tensor/queue.h"
#include "tensor/view.h"

namespace longhaul::kernel::cpu {

constexpr Index kStretch = 4096;  // elements: a few microseconds of work
constexpr Index kSerial = 8192;   // below, waking the team costs more than it saves

// Either this thread alone or the whole team: a team of a third size would make OpenMP end and start threads.
inline Team team_for(const Queue& queue, Index elements) {
  return elements < kSerial ? Team{1} : queue.team();
}

template <int R>
bool is_row_major(const AnyView<R>& v) {  // elements of a row are adjacent
  return v.stride[R - 1] == 1 || v.extent[R - 1] <= 1;
}

template <int R>
std::byte* address(const AnyView<R>& v, Index offset) {
  return static_cast<std::byte*>(v.data) + offset * size_of(v.dtype);
}

inline int storage_index(DType t) {
  return t == DType::kBF16 ? 1 : 0;
}
inline bool is_fp32_or_bf16(DType t) {
  return t == DType::kF32 || t == DType::kBF16;
}

// A matrix without gaps as one row, where all of them are; else as it is.
template <class... Views>
void join_rows(Views&... views) {
  if (!(views.contiguous() && ...)) return;
  ((views.extent[1] *= views.extent[0], views.extent[0] = 1, views.stride[0] = views.extent[1], views.stride[1] = 1),
   ...);
}

// Calls f(row, begin, count) over all elements of [rows, width], in parallel.
template <class F>
void for_pieces(Queue& queue, Index rows, Index width, F&& f) {
  const Team team = team_for(queue, rows * width);
  const Index parts = rows >= 8 * team.threads ? 1 : (width + kStretch - 1) / kStretch;
  const Index stretch = parts <= 1 ? width : kStretch;
  parallel_for(team, rows * parts, [&](Index piece, int) {
    const Index row = piece / parts, begin = piece % parts * stretch;
    f(row, begin, std::min(stretch, width - begin));
  });
}

}  // namespace longhaul::kernel::cpu
