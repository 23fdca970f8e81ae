// Matrix products by oneDNN: primitives kept with the queue, scratchpads given by the caller.
#include <omp.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "base/hash.h"
#include "kernel/cpu/product.h"

namespace longhaul::kernel::cpu {
namespace {

constexpr Index kAlignment = 64;

using Key = std::array<Index, 8>;

Key key_of(const Product& p) {
  const Index flags = p.a_transposed + 2 * p.b_transposed + 4 * p.accumulate;
  return {p.m,       p.k,       p.n,   p.a_apart,
          p.b_apart, p.c_apart, flags, static_cast<Index>(p.in) * 256 + static_cast<Index>(p.out)};
}

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept { return hash64_of(std::span<const Index>(key)); }
};

dnnl::memory::data_type data_type(DType t) {
  return t == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(Index rows, Index columns, DType type, bool transposed, Index apart) {
  using Dims = dnnl::memory::dims;
  return {Dims{rows, columns}, data_type(type), transposed ? Dims{1, apart} : Dims{apart, 1}};
}

struct Descriptors {
  dnnl::memory::desc a, b, c;
  explicit Descriptors(const Product& p)
      : a(matrix(p.m, p.k, p.in, p.a_transposed, p.a_apart)),
        b(matrix(p.k, p.n, p.in, p.b_transposed, p.b_apart)),
        c(matrix(p.m, p.n, p.out, false, p.c_apart)) {}
};

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Product& p, const Descriptors& d) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, d.a, d.b, d.c, attributes};
#else
  return {dnnl::matmul::desc(d.a, d.b, d.c), attributes, engine};
#endif
}

[[noreturn]] void fail(const dnnl::error& e, const Product& p) {
  CHECK(false, "oneDNN: %s (status %d) for m %ld k %ld n %ld %s to %s", e.what(), static_cast<int>(e.status), p.m, p.k,
        p.n, name_of(p.in), name_of(p.out));
  __builtin_unreachable();
}

// A primitive and the memory objects that it is called with; only their addresses change from call to call.
struct Compiled {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratch;
  Index scratch_bytes;
};

class Products final : public LibraryState {
 public:
  const Compiled& find(const Product& p) {
    const auto [at, inserted] = compiled_.try_emplace(key_of(p));
    if (inserted) at->second = compile(p);
    return at->second;
  }
  const dnnl::stream& stream() const { return stream_; }

 private:
  Compiled compile(const Product& p) const {
    const Descriptors d(p);
    const dnnl::matmul::primitive_desc pd = describe(engine_, p, d);
    const dnnl::memory::desc scratch = pd.scratchpad_desc();
    const auto memory = [&](const dnnl::memory::desc& m) { return dnnl::memory(m, engine_, nullptr); };
    return {dnnl::matmul(pd), memory(d.a),     memory(d.b),
            memory(d.c),      memory(scratch), static_cast<Index>(scratch.get_size())};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<Key, Compiled, KeyHash> compiled_;
};

// oneDNN works on the calling thread's OpenMP team, and plans its work for that many threads.
Products& products_of(Queue& queue) {
  omp_set_num_threads(queue.team().threads);
  if (!queue.library) queue.library = std::make_unique<Products>();
  return static_cast<Products&>(*queue.library);
}

Index padded(Index scratch_bytes) {
  return scratch_bytes == 0 ? 0 : scratch_bytes + kAlignment;
}

void set_address(const dnnl::memory& memory, const void* data) {
  const dnnl_status_t status = dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data));
  CHECK(status == dnnl_success, "oneDNN: status %d for an address", static_cast<int>(status));
}

}  // namespace

bool has_product() noexcept {
  return true;
}

// AMX multiplies bf16 many times as fast as fp32 and Zen 4 twice; Intel's VDPBF16PS has half the rate of two fp32 FMA
// ports (measured on Sapphire and Emerald Rapids: 1.3 against 5.4 G instructions/s), and elsewhere it is emulated.
bool has_bf16_product() noexcept {
  // The values are sets of bits: an instruction set has those of all that it includes.
  const auto has = [](dnnl::cpu_isa isa) {
    return (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(isa)) == static_cast<int>(isa);
  };
  return has(dnnl::cpu_isa::avx512_core_amx) || (has(dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amd"));
}

// The kernels of version 2 that use a given scratchpad take packed matrices alone; others go to an older kernel,
// slower, that allocates megabytes of its own.
bool takes_gaps() noexcept {
  return DNNL_VERSION_MAJOR >= 3;
}

Index product_scratch(const Product& p, int threads) noexcept {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Index bytes = 0;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    bytes = static_cast<Index>(describe(engine, p, Descriptors(p)).scratchpad_desc().get_size());
  } catch (const dnnl::error& e) {
    fail(e, p);
  }
  omp_set_num_threads(before);
  return padded(bytes);
}

Index product_scratch(Queue& queue, const Product& p) noexcept {
  try {
    return padded(products_of(queue).find(p).scratch_bytes);
  } catch (const dnnl::error& e) {
    fail(e, p);
  }
}

void multiply(Queue& queue, const Product& p, const void* a, const void* b, void* c, Bytes scratch) noexcept {
  try {
    Products& products = products_of(queue);
    const Compiled& compiled = products.find(p);
    CHECK(scratch.size >= padded(compiled.scratch_bytes), "matmul m %ld k %ld n %ld: %ld bytes of scratch, %ld needed",
          p.m, p.k, p.n, scratch.size, padded(compiled.scratch_bytes));
    const auto at = reinterpret_cast<std::uintptr_t>(scratch.data);
    set_address(compiled.a, a);
    set_address(compiled.b, b);
    set_address(compiled.c, c);
    set_address(compiled.scratch, reinterpret_cast<void*>((at + kAlignment - 1) / kAlignment * kAlignment));
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, compiled.a.get()},
                                         {DNNL_ARG_WEIGHTS, compiled.b.get()},
                                         {DNNL_ARG_DST, compiled.c.get()},
                                         {DNNL_ARG_SCRATCHPAD, compiled.scratch.get()}};
    const dnnl_status_t status = dnnl_primitive_execute(compiled.primitive.get(), products.stream().get(),
                                                        static_cast<int>(std::size(arguments)), arguments);
    CHECK(status == dnnl_success, "oneDNN: status %d for m %ld k %ld n %ld", static_cast<int>(status), p.m, p.k, p.n);
  } catch (const dnnl::error& e) {
    fail(e, p);
  }
}

}  // namespace longhaul::kernel::cpu
