// Views: non-owning, strided, up to four dimensions. View<T, R> knows its element type at compile time,
// AnyView<R> carries it as a value; contracts and messages use AnyView, kernels open it with as<T>().
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include "tensor/dtype.h"

namespace longhaul {

struct Bytes {  // a piece of memory
  std::byte* data = nullptr;
  Index size = 0;
  Space space = Space::kCpu;
};

template <class T, int R>
struct View {
  T* data = nullptr;
  Index extent[R] = {};
  Index stride[R] = {};  // in elements
  Space space = Space::kCpu;

  template <class... I>
  T& operator()(I... i) const noexcept {
    static_assert(sizeof...(I) == R);
    Index at = 0;
    int d = 0;
    ((at += static_cast<Index>(i) * stride[d++]), ...);
    return data[at];
  }
};

template <int R>
struct AnyView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Index extent[R] = {};
  Index stride[R] = {};  // in elements
  Space space = Space::kCpu;

  explicit operator bool() const noexcept { return data != nullptr; }

  // Opens the view; the element type must be the one it has. const T is allowed.
  template <class T>
  View<T, R> as() const {
    CHECK(dtype == DTypeOf<std::remove_const_t<T>>::value, "the view holds %s", name_of(dtype));
    View<T, R> v{static_cast<T*>(data), {}, {}, space};
    for (int d = 0; d < R; ++d) v.extent[d] = extent[d], v.stride[d] = stride[d];
    return v;
  }

  // Indices [begin, begin + count) of one dimension.
  AnyView slice(int dim, Index begin, Index count) const {
    CHECK(0 <= begin && 0 <= count && begin + count <= extent[dim], "slice [%ld, %ld) of dimension %d with %ld", begin,
          begin + count, dim, extent[dim]);
    AnyView v = *this;
    v.data = static_cast<std::byte*>(data) + begin * stride[dim] * size_of(dtype);
    v.extent[dim] = count;
    return v;
  }

  Index count() const noexcept {
    Index n = 1;
    for (Index e : extent) n *= e;
    return n;
  }

  bool contiguous() const noexcept {
    Index n = 1;
    for (int d = R - 1; d >= 0; --d) {
      if (extent[d] != 1 && stride[d] != n) return false;
      n *= extent[d];
    }
    return true;
  }

  Bytes bytes() const {
    CHECK(contiguous() || count() == 0, "only a contiguous view is a piece of memory");
    return {static_cast<std::byte*>(data), count() * size_of(dtype), space};
  }
};

// A row-major view of memory: make_view<2>(p, DType::kF32, {rows, columns}).
template <int R>
AnyView<R> make_view(void* data, DType dtype, const Index (&extent)[R], Space space = Space::kCpu) {
  AnyView<R> v;
  v.data = data, v.dtype = dtype, v.space = space;
  Index n = 1;
  for (int d = R - 1; d >= 0; --d) v.extent[d] = extent[d], v.stride[d] = n, n *= extent[d];
  return v;
}

// A contiguous vector as [1, 1, n], for ops that take three dimensions.
inline AnyView<3> as_3d(const AnyView<1>& a) {
  CHECK(a.contiguous(), "a vector with stride %ld", a.stride[0]);
  return make_view<3>(a.data, a.dtype, {1, 1, a.extent[0]}, a.space);
}

// A matrix with its dimensions exchanged; no data moves.
inline AnyView<2> transpose(AnyView<2> a) {
  std::swap(a.extent[0], a.extent[1]);
  std::swap(a.stride[0], a.stride[1]);
  return a;
}

// [T, H, D] seen as [T, H*D]; rows may be apart, a row must be contiguous.
inline AnyView<2> join_heads(const AnyView<3>& a) {
  CHECK(a.stride[2] == 1 && (a.extent[1] <= 1 || a.stride[1] == a.extent[2]), "heads are not adjacent");
  AnyView<2> v;
  v.data = a.data, v.dtype = a.dtype, v.space = a.space;
  v.extent[0] = a.extent[0], v.extent[1] = a.extent[1] * a.extent[2];
  v.stride[0] = a.stride[0], v.stride[1] = 1;
  return v;
}

// [T, H*D] seen as [T, H, D].
inline AnyView<3> split_heads(const AnyView<2>& a, Index heads) {
  CHECK(a.stride[1] == 1 && heads > 0 && a.extent[1] % heads == 0, "%ld columns, %ld heads", a.extent[1], heads);
  AnyView<3> v;
  v.data = a.data, v.dtype = a.dtype, v.space = a.space;
  v.extent[0] = a.extent[0], v.extent[1] = heads, v.extent[2] = a.extent[1] / heads;
  v.stride[0] = a.stride[0], v.stride[1] = v.extent[2], v.stride[2] = 1;
  return v;
}

}  // namespace longhaul
