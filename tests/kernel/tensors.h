// Tensors of the kernel tests: any float type, rows that may be apart, and gaps that show whoever touches them.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tensor/view.h"

namespace longhaul::testing {

// Rows of `width` elements; `gap` further elements after each row hold NaN. Values are given and taken in row order.
class Tensor {
 public:
  Tensor(DType type, Index rows, Index width, Index gap = 0)
      : type_(type), rows_(rows), width_(width), apart_(width + gap), memory_(rows * apart_ * size_of(type) + 64) {
    for (Index i = 0; i < rows_ * apart_; ++i) put(i, std::numeric_limits<double>::quiet_NaN());
  }

  DType type() const { return type_; }
  Index count() const { return rows_ * width_; }
  double get(Index i) const { return take(i / width_ * apart_ + i % width_); }
  void set(Index i, double x) { put(i / width_ * apart_ + i % width_, x); }

  AnyView<1> row() { return make_view<1>(data(), type_, {width_}); }
  AnyView<1> column() {  // the first element of each row
    AnyView<1> v = make_view<1>(data(), type_, {rows_});
    v.stride[0] = apart_;
    return v;
  }
  AnyView<2> matrix() {
    AnyView<2> v = make_view<2>(data(), type_, {rows_, width_});
    v.stride[0] = apart_;
    return v;
  }
  AnyView<3> heads(Index n) { return split_heads(matrix(), n); }

  std::vector<double> values() const {
    std::vector<double> v(count());
    for (Index i = 0; i < count(); ++i) v[i] = get(i);
    return v;
  }
  bool gaps_untouched() const {
    for (Index r = 0; r < rows_; ++r)
      for (Index c = width_; c < apart_; ++c)
        if (!std::isnan(take(r * apart_ + c))) return false;
    return true;
  }

  // Normal numbers times `spread`, rounded to bf16, so that every type starts from the same values.
  Tensor& normal(std::uint64_t seed, double spread = 1) {
    for (Index i = 0; i < count(); ++i)
      set(i, static_cast<double>(bf16(static_cast<float>(spread * random_normal(seed, 0, i)))));
    return *this;
  }
  // Integers in [-limit, limit].
  Tensor& integers(std::uint64_t seed, int limit) {
    for (Index i = 0; i < count(); ++i) set(i, static_cast<double>(random_bits(seed, 1, i) % (2 * limit + 1)) - limit);
    return *this;
  }
  Tensor& fill(double x) {
    for (Index i = 0; i < count(); ++i) set(i, x);
    return *this;
  }

 private:
  void* data() { return memory_.data(); }
  double take(Index at) const {
    const void* p = memory_.data();
    if (type_ == DType::kF64) return static_cast<const double*>(p)[at];
    if (type_ == DType::kF32) return static_cast<const float*>(p)[at];
    return static_cast<double>(static_cast<const bf16*>(p)[at]);
  }
  void put(Index at, double x) {
    void* p = memory_.data();
    if (type_ == DType::kF64)
      static_cast<double*>(p)[at] = x;
    else if (type_ == DType::kF32)
      static_cast<float*>(p)[at] = static_cast<float>(x);
    else
      static_cast<bf16*>(p)[at] = bf16(static_cast<float>(x));
  }

  DType type_;
  Index rows_, width_, apart_;
  std::vector<std::byte> memory_;
};

inline AnyView<1> int_view(std::vector<std::int32_t>& v) {
  return make_view<1>(v.data(), DType::kI32, {static_cast<Index>(v.size())});
}

}  // namespace longhaul::testing
