// Cuts a matrix product into products of the library. What the library takes well it gets whole: fp32, or bf16 on
// machines that multiply it faster, with no gaps between rows. Anything else is copied block by block to scratch first.
#include "kernel/cpu/matmul.h"

#include <algorithm>

#include "kernel/cpu/cpu_ops.h"
#include "kernel/cpu/product.h"
#include "kernel/ref/ref.h"
#include "kernel/shapes.h"

namespace longhaul::kernel::cpu {
namespace {

// At 1024 an element of a or b is copied once for 2048 operations: a few percent of their time.
constexpr Index kBlock = 1024;
constexpr Index kLine = 64;  // bytes

Index round_up(Index x, Index to) {
  return (x + to - 1) / to * to;
}

// Nearly equal blocks of at most kBlock.
Index block_of(Index extent) {
  const Index parts = (extent + kBlock - 1) / kBlock;
  return std::min(round_up((extent + parts - 1) / parts, 16), kBlock);
}

bool by_columns(const AnyView<2>& a) {
  return a.stride[1] != 1 && a.extent[1] > 1;
}

// Elements between rows (or columns); with one row the stride says nothing.
Index apart_of(const AnyView<2>& a) {
  const int outer = by_columns(a) ? 1 : 0;
  return a.extent[outer] == 1 ? a.extent[1 - outer] : a.stride[outer];
}

bool packed(const AnyView<2>& a) {
  return apart_of(a) == a.extent[by_columns(a) ? 0 : 1];
}

Product product_of(const Matmul& x) {
  return {x.a_MK.extent[0],   x.a_MK.extent[1], x.b_KN.extent[1], x.a_MK.dtype,     x.c_MN.dtype,    by_columns(x.a_MK),
          by_columns(x.b_KN), x.accumulate,     apart_of(x.a_MK), apart_of(x.b_KN), apart_of(x.c_MN)};
}

AnyView<2> block(const AnyView<2>& a, Index row, Index rows, Index column, Index columns) {
  return a.slice(0, row, std::min(rows, a.extent[0] - row)).slice(1, column, std::min(columns, a.extent[1] - column));
}

// A packed copy's view in `memory`, stored by rows or columns as `a` is.
AnyView<2> packed_like(const AnyView<2>& a, DType type, std::byte* memory) {
  const bool columns = by_columns(a);
  const AnyView<2> v = make_view<2>(memory, type, {a.extent[columns ? 1 : 0], a.extent[columns ? 0 : 1]});
  return columns ? transpose(v) : v;
}

AnyView<3> as_rows(const AnyView<2>& a) {
  AnyView<3> v;
  v.data = a.data, v.dtype = a.dtype, v.space = a.space;
  v.extent[0] = 1, v.extent[1] = a.extent[0], v.extent[2] = a.extent[1];
  v.stride[0] = 0, v.stride[1] = a.stride[0], v.stride[2] = a.stride[1];
  return v;
}

// In the order of storage of `from`.
void copy_matrix(Queue& queue, const AnyView<2>& from, const AnyView<2>& to) {
  const ElementRows& kernels = rows_of(best_isa()).elements;
  if (by_columns(from))
    copy(queue, as_rows(transpose(from)), as_rows(transpose(to)), kernels);
  else
    copy(queue, as_rows(from), as_rows(to), kernels);
}

// Bytes for one block each of a, b and c. They grow with the extents, as a nearly equal block does not: scratch that
// was asked for with more rows serves fewer.
struct Staging {
  Index a, b, c;
  Staging(Index M, Index K, Index N) {
    const Index m = std::min(M, kBlock), k = std::min(K, kBlock), n = std::min(N, kBlock);
    a = round_up(m * k * 4, kLine), b = round_up(k * n * 4, kLine), c = round_up(m * n * 4, kLine);
  }
  Index bytes() const { return a + b + c + kLine; }
};

// Halves the larger of m and n until the library's scratch fits: a call may have fewer rows than the shape that scratch
// was asked for, and the library's need does not fall with the rows alone.
void multiply_within(Queue& queue, const Matmul& x, Bytes scratch) {
  const Product p = product_of(x);
  if (product_scratch(queue, p) <= scratch.size || (p.m < 2 && p.n < 2))
    return multiply(queue, p, x.a_MK.data, x.b_KN.data, x.c_MN.data, scratch);
  const bool rows = p.m >= p.n;
  const Index extent = rows ? p.m : p.n, half = extent / 2;
  for (const auto& [begin, count] : {std::pair(Index{0}, half), std::pair(half, extent - half)}) {
    Matmul part = x;
    if (rows)
      part.a_MK = x.a_MK.slice(0, begin, count);
    else
      part.b_KN = x.b_KN.slice(1, begin, count);
    part.c_MN = x.c_MN.slice(rows ? 0 : 1, begin, count);
    multiply_within(queue, part, scratch);
  }
}

// Block by block, with operands of `type`. Blocks of c that the library could not write well are summed in fp32
// scratch.
void multiply_staged(Queue& queue, const Matmul& x, DType type, Bytes scratch) {
  const Index M = x.a_MK.extent[0], K = x.a_MK.extent[1], N = x.b_KN.extent[1];
  const Index m = block_of(M), k = block_of(K), n = block_of(N);
  const Staging staging(M, K, N);
  CHECK(scratch.size >= staging.bytes(), "matmul m %ld k %ld n %ld: %ld bytes of scratch, %ld needed for blocks", M, K,
        N, scratch.size, staging.bytes());
  const auto address = static_cast<Index>(reinterpret_cast<std::uintptr_t>(scratch.data));
  std::byte* const a_memory = scratch.data + (round_up(address, kLine) - address);
  std::byte *const b_memory = a_memory + staging.a, *const c_memory = b_memory + staging.b;
  const Bytes rest{scratch.data + staging.bytes(), scratch.size - staging.bytes(), scratch.space};
  const bool in_place = x.c_MN.dtype == DType::kF32 && n >= N && packed(x.c_MN);

  for (Index m0 = 0; m0 < M; m0 += m)
    for (Index n0 = 0; n0 < N; n0 += n) {
      const AnyView<2> c = block(x.c_MN, m0, m, n0, n);
      Matmul part{.c_MN = in_place ? c : packed_like(c, DType::kF32, c_memory)};
      for (Index k0 = 0; k0 < K; k0 += k) {
        const AnyView<2> a = block(x.a_MK, m0, m, k0, k), b = block(x.b_KN, k0, k, n0, n);
        part.a_MK = packed_like(a, type, a_memory), part.b_KN = packed_like(b, type, b_memory);
        if (n0 == 0 || k < K) copy_matrix(queue, a, part.a_MK);
        if (m0 == 0 || n < N || k < K) copy_matrix(queue, b, part.b_KN);
        part.accumulate = k0 > 0 || (in_place && x.accumulate);
        multiply_within(queue, part, rest);
      }
      if (in_place) continue;
      if (x.accumulate)
        add(queue, part.c_MN, c, rows_of(best_isa()).elements);
      else
        copy_matrix(queue, part.c_MN, c);
    }
}

// What the library needs for a product without gaps, and for one of a quarter of the rows: calls may have fewer.
Index library_scratch(const MatmulShape& s, int threads) {
  Index most = 0;
  for (const Index part : {1, 4}) {
    Product p{s.m, s.k, s.n, s.in, s.out, s.a_transposed, s.b_transposed, s.accumulate};
    (s.a_transposed ? p.k : p.m) = std::max<Index>(1, (s.a_transposed ? s.k : s.m) / part);
    p.a_apart = s.a_transposed ? p.m : p.k;
    p.b_apart = s.b_transposed ? p.k : p.n;
    p.c_apart = p.n;
    most = std::max(most, product_scratch(p, threads));
  }
  return most;
}

Index scratch_of(const MatmulShape& s, bool native_bf16, int threads) {
  if (s.in == DType::kF64 || !has_product()) return ref::matmul_scratch(s, threads);
  if (s.m == 0 || s.k == 0 || s.n == 0) return 0;
  const DType type = native_bf16 ? s.in : DType::kF32;
  const Index whole = s.in == type ? library_scratch(s, threads) : 0;
  MatmulShape largest{std::min(s.m, kBlock), std::min(s.k, kBlock), std::min(s.n, kBlock), type,
                      DType::kF32,           s.a_transposed,        s.b_transposed};
  Index blocks = library_scratch(largest, threads);
  largest.accumulate = true;
  blocks = std::max(blocks, library_scratch(largest, threads));
  return std::max(whole, Staging(s.m, s.k, s.n).bytes() + blocks);
}

void run(Queue& queue, const Matmul& x, bool native_bf16, Bytes scratch) {
  const DType in = x.a_MK.dtype;
  if (in == DType::kF64 || !has_product()) return ref::matmul(queue, x, scratch);
  check_shapes(x);
  if (x.c_MN.count() == 0) return;
  if (x.a_MK.extent[1] == 0) {
    if (!x.accumulate) fill(queue, as_rows(x.c_MN), 0);
    return;
  }
  const DType type = native_bf16 ? in : DType::kF32;
  const bool whole = takes_gaps() || (packed(x.a_MK) && packed(x.b_KN) && packed(x.c_MN));
  if (whole && in == type)
    multiply_within(queue, x, scratch);
  else
    multiply_staged(queue, x, type, scratch);
}

}  // namespace

Index matmul_native_scratch(const MatmulShape& s, int threads) noexcept {
  return scratch_of(s, true, threads);
}
void matmul_native(Queue& queue, const Matmul& x, Bytes scratch) noexcept {
  run(queue, x, true, scratch);
}
Index matmul_by_fp32_scratch(const MatmulShape& s, int threads) noexcept {
  return scratch_of(s, false, threads);
}
void matmul_by_fp32(Queue& queue, const Matmul& x, Bytes scratch) noexcept {
  run(queue, x, false, scratch);
}
Index matmul_scratch(const MatmulShape& s, int threads) noexcept {
  return scratch_of(s, has_bf16_product(), threads);
}
void matmul(Queue& queue, const Matmul& x, Bytes scratch) noexcept {
  run(queue, x, has_bf16_product(), scratch);
}

}  // namespace longhaul::kernel::cpu
