// Times attention forward and backward as a ratio to the rate of a 2048^3 fp32 matrix product in the same process.
#include <time.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernel/ops.h"

namespace longhaul {
namespace {

struct Settings {
  std::string variant = "auto", storage = "fp32";
  std::vector<Index> lengths = {2048, 8192};
  Index width = 64, value_width = 0, heads = 1, kv_heads = 1, window = 0, document = 0;
  int threads = 1, repeats = 3;
  bool wall = false;
};

struct Buffer {
  explicit Buffer(Index bytes) : memory(bytes + 64) {}
  std::byte* data() {
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (64 - at % 64) % 64;
  }
  template <int R>
  AnyView<R> view(DType dtype, const Index (&extent)[R]) {
    return make_view<R>(data(), dtype, extent);
  }
  std::vector<std::byte> memory;
};

AnyView<3> normal(Buffer& buffer, DType dtype, const Index (&extent)[3], std::uint64_t seed) {
  AnyView<3> v = buffer.view<3>(dtype, extent);
  for (Index i = 0; i < v.count(); ++i) {
    const auto x = static_cast<float>(random_normal(seed, 0, i));
    if (dtype == DType::kBF16)
      static_cast<bf16*>(v.data)[i] = bf16(x);
    else
      static_cast<float*>(v.data)[i] = x;
  }
  return v;
}

// Seconds of f: of the processor, which other processes do not disturb, or on the wall.
template <class F>
double seconds(bool wall, F&& f) {
  const auto now = [&] {
    timespec t;
    clock_gettime(wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

struct Product {  // the yardstick
  static constexpr Index kSize = 2048;
  Buffer a{kSize * kSize * 4}, b{kSize * kSize * 4}, c{kSize * kSize * 4}, scratch{0};
  Matmul call;

  explicit Product(const Ops& ops, int threads) {
    for (AnyView<2>* v : {&call.a_MK, &call.b_KN, &call.c_MN}) {
      Buffer& buffer = v == &call.a_MK ? a : v == &call.b_KN ? b : c;
      *v = buffer.view<2>(DType::kF32, {kSize, kSize});
      for (Index i = 0; i < v->count(); ++i) static_cast<float*>(v->data)[i] = static_cast<float>(i % 7);
    }
    scratch = Buffer(ops.matmul_scratch({kSize, kSize, kSize, DType::kF32, DType::kF32}, threads));
  }
  void run(const Ops& ops, Queue& queue) { ops.matmul(queue, call, {scratch.data(), std::ssize(scratch.memory) - 64}); }
  static double operations() { return 2.0 * kSize * kSize * kSize; }
};

void time_length(const Settings& settings, const Ops& ops, Queue& queue, Product& product, Index length) {
  const Settings& s = settings;
  const DType storage = s.storage == "bf16" ? DType::kBF16 : DType::kF32;
  const AttentionShape shape{storage, length, length, s.heads, s.kv_heads, s.width, s.value_width};
  AttentionParams params;
  params.scale = 1 / std::sqrt(static_cast<double>(s.width));
  params.mask.window = s.window;
  const AttentionVariant* variant = choose_attention(ops, s.variant, shape, params);
  if (variant == nullptr) return static_cast<void>(std::printf("no such variant here: %s\n", s.variant.c_str()));

  std::vector<Token> tokens(length);
  std::vector<std::int32_t> documents;
  for (Index i = 0; s.document != 0 && i < length; ++i)
    documents.push_back(1 + static_cast<std::int32_t>(i / s.document));
  make_tokens(documents, {}, tokens);
  const double pairs = static_cast<double>(count_visible(params.mask, tokens, tokens)) * static_cast<double>(s.heads);

  const Index q = length * s.heads, k = length * s.kv_heads;
  Buffer qb(q * s.width * 4), kb(k * s.width * 4), vb(k * s.value_width * 4), ob(q * s.value_width * 4);
  Buffer dob(q * s.value_width * 4), stats(q * 12), dqb(q * s.width * 4), dkb(k * s.width * 4);
  Buffer dvb(k * s.value_width * 4), scratch(variant->scratch_bytes(shape, s.threads));
  AttentionForward f;
  AttentionBackward b;
  f.params = b.params = params;
  f.group = b.group = s.heads / s.kv_heads;
  f.q_TND = b.q_TND = normal(qb, storage, {length, s.heads, s.width}, 1);
  f.k_KGD = b.k_KGD = normal(kb, storage, {length, s.kv_heads, s.width}, 2);
  f.v_KGV = b.v_KGV = normal(vb, storage, {length, s.kv_heads, s.value_width}, 3);
  b.do_TNV = normal(dob, storage, {length, s.heads, s.value_width}, 4);
  f.q_tokens = f.k_tokens = b.q_tokens = b.k_tokens = tokens;
  f.o_TNV = ob.view<3>(DType::kF32, {length, s.heads, s.value_width});
  const Index statistics[3] = {3, length, s.heads};
  AnyView<3> all = stats.view<3>(DType::kF32, statistics);
  const auto statistic = [&](Index i) {
    return make_view<2>(static_cast<float*>(all.data) + i * q, DType::kF32, {length, s.heads});
  };
  f.m_TN = b.m_TN = statistic(0), f.l_TN = b.l_TN = statistic(1), b.delta_TN = statistic(2);
  b.dq_TND = dqb.view<3>(DType::kF32, {length, s.heads, s.width});
  b.dk_KGD = dkb.view<3>(DType::kF32, {length, s.kv_heads, s.width});
  b.dv_KGV = dvb.view<3>(DType::kF32, {length, s.kv_heads, s.value_width});
  const Bytes memory{scratch.data(), std::ssize(scratch.memory) - 64};

  double forward = 1e30, backward = 1e30, matmul = 1e30;
  for (int i = 0; i < s.repeats; ++i) {
    for (Index j = 0; j < q; ++j) f.m_TN.as<float>().data[j] = -std::numeric_limits<float>::infinity();
    matmul = std::min(matmul, seconds(s.wall, [&] { product.run(ops, queue); }));
    forward = std::min(forward,
                       seconds(s.wall, [&] { variant->forward(queue, f, 0, variant->forward_tiles(shape), memory); }));
    backward = std::min(
        backward, seconds(s.wall, [&] { variant->backward(queue, b, 0, variant->backward_tiles(shape), memory); }));
  }
  const double rate = Product::operations() / matmul;
  const double forward_rate = 2 * pairs * static_cast<double>(s.width + s.value_width) / forward;
  const double backward_rate = 2 * pairs * static_cast<double>(3 * s.width + 2 * s.value_width) / backward;
  std::printf(
      "%s %s S=%ld D=%ld,%ld threads %d: product %.1f GFLOP/s, forward %.3f of it, backward %.3f, scratch %.1f MB\n",
      variant->name, s.storage.c_str(), static_cast<long>(length), static_cast<long>(s.width),
      static_cast<long>(s.value_width), s.threads, rate / 1e9, forward_rate / rate, backward_rate / rate,
      static_cast<double>(memory.size) / 1e6);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  using namespace longhaul;
  Settings s;
  CLI::App app("Attention, forward and backward, as a ratio to the fp32 matrix product");
  app.add_option("lengths", s.lengths, "Sequence lengths");
  app.add_option("--variant", s.variant);
  app.add_option("--storage", s.storage)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--width", s.width, "Of queries and keys");
  app.add_option("--value-width", s.value_width, "0: as --width");
  app.add_option("--heads", s.heads);
  app.add_option("--kv-heads", s.kv_heads);
  app.add_option("--window", s.window);
  app.add_option("--document", s.document, "Length of packed documents; 0: one document");
  app.add_option("--threads", s.threads);
  app.add_option("--repeats", s.repeats);
  app.add_flag("--wall", s.wall, "Wall clock; else processor time, which is only right for one thread");
  CLI11_PARSE(app, argc, argv);
  if (s.value_width == 0) s.value_width = s.width;
  const Ops& ops = kernel::cpu_ops();
  CpuQueue queue(s.threads);
  Product product(ops, s.threads);
  for (Index length : s.lengths) time_length(s, ops, queue, product, length);
}
