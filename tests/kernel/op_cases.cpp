// The cases: shapes from nothing to a few vectors and a rest, and some large enough that the whole team works on them.
#include "op_cases.h"

#include "tensors.h"

namespace longhaul::testing {
namespace {

std::string text(const char* format, auto... values) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

Output output(const char* name, const Tensor& t) {
  return {name, t.type(), t.values(), t.gaps_untouched()};
}

// Scratch that a call gets: as much as the op asked for, no more.
struct Scratch {
  explicit Scratch(Index size) : memory(size) {}
  Bytes bytes() { return {memory.data(), static_cast<Index>(memory.size())}; }
  std::vector<std::byte> memory;
};

struct MatmulCase {
  Index m, k, n;
  bool a_transposed = false, b_transposed = false, accumulate = false, wide_out = false, integers = false;
};

std::vector<Output> run_matmul(const MatmulCase& c, const Setting& s) {
  const DType out = c.wide_out ? accumulator_of(s.storage) : s.storage;
  Tensor a = c.a_transposed ? Tensor(s.storage, c.k, c.m, s.gap) : Tensor(s.storage, c.m, c.k, s.gap);
  Tensor b = c.b_transposed ? Tensor(s.storage, c.n, c.k, s.gap) : Tensor(s.storage, c.k, c.n, s.gap);
  Tensor y(out, c.m, c.n, s.gap);
  if (c.integers)
    a.integers(1, 3), b.integers(2, 3), y.integers(3, 3);
  else
    a.normal(1), b.normal(2), y.normal(3);
  Matmul x{.a_MK = a.matrix(), .b_KN = b.matrix(), .c_MN = y.matrix(), .accumulate = c.accumulate};
  if (c.a_transposed) x.a_MK = transpose(x.a_MK);
  if (c.b_transposed) x.b_KN = transpose(x.b_KN);
  Scratch scratch(
      s.ops->matmul_scratch({c.m, c.k, c.n, s.storage, out, c.a_transposed, c.b_transposed, c.accumulate}, s.threads));
  CpuQueue queue(s.threads);
  s.ops->matmul(queue, x, scratch.bytes());
  return {output("c", y)};
}

void add_matmul(std::vector<OpCase>& cases) {
  std::vector<MatmulCase> table;
  const Index shapes[][3] = {{1, 1, 1},    {3, 5, 7}, {17, 64, 33}, {16, 16, 16}, {65, 7, 130},
                             {1, 130, 65}, {0, 4, 5}, {4, 0, 5},    {4, 5, 0}};
  for (const auto& d : shapes)
    for (int bits = 0; bits < 16; bits += d[0] == 17 ? 1 : 5)  // all 16 ways, or 0, 5, 10 and 15
      table.push_back({d[0], d[1], d[2], (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
  for (int bits = 0; bits < 8; ++bits) {
    table.push_back({33, 9, 66, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, true, true});
    if (bits % 3 == 0) table.push_back({48, 700, 40, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, true});
  }
  for (int bits = 0; bits < 4; ++bits) {  // more than one block of each dimension
    table.push_back({1100, 6, 5, (bits & 1) != 0, (bits & 2) != 0, false, true, true});
    table.push_back({6, 2100, 5, (bits & 1) != 0, (bits & 2) != 0, true, false, false});
    table.push_back({6, 2100, 5, (bits & 1) != 0, (bits & 2) != 0, true, true, true});
    table.push_back({5, 6, 1100, (bits & 1) != 0, (bits & 2) != 0, true, true, true});
    if (bits % 3 != 0) continue;
    table.push_back({5, 1100, 1100, (bits & 1) != 0, (bits & 2) != 0, true, true, true});
    table.push_back({1100, 1100, 3, (bits & 1) != 0, (bits & 2) != 0, false, true, true});
  }
  for (const MatmulCase& c : table)
    cases.push_back({text("matmul m %ld k %ld n %ld%s%s%s%s%s", c.m, c.k, c.n, c.a_transposed ? " a'" : "",
                          c.b_transposed ? " b'" : "", c.accumulate ? " accumulate" : "", c.wide_out ? " wide" : "",
                          c.integers ? " integers" : ""),
                     [c](const Setting& s) { return run_matmul(c, s); }, c.k + 1, c.integers});
}

struct NormCase {
  Index rows, width;
  double offset = 0, spread = 1;
};

std::vector<Output> run_norm_forward(const NormCase& c, const Setting& s) {
  Tensor x(s.storage, c.rows, c.width, s.gap), w(s.storage, 1, c.width), y(s.storage, c.rows, c.width, s.gap),
      rstd(accumulator_of(s.storage), c.rows, 1);
  x.normal(4, c.spread), w.normal(5);
  CpuQueue queue(s.threads);
  s.ops->rms_norm_forward(queue, {x.matrix(), w.row(), 1e-5, c.offset, y.matrix(), rstd.column()});
  return {output("y", y), output("rstd", rstd)};
}

std::vector<Output> run_norm_backward(const NormCase& c, const Setting& s) {
  Tensor x(s.storage, c.rows, c.width, s.gap), w(s.storage, 1, c.width), dy(s.storage, c.rows, c.width, s.gap),
      rstd(accumulator_of(s.storage), c.rows, 1), dx(s.storage, c.rows, c.width, s.gap),
      dw(accumulator_of(s.storage), 1, c.width);
  x.normal(4, c.spread), w.normal(5), dy.normal(6), dx.normal(7), dw.normal(8);
  for (Index t = 0; t < c.rows; ++t) {
    double squares = 0;
    for (Index e = 0; e < c.width; ++e) squares += x.get(t * c.width + e) * x.get(t * c.width + e);
    rstd.set(t, 1 / std::sqrt(squares / static_cast<double>(c.width) + 1e-5));
  }
  Scratch scratch(s.ops->rms_norm_backward_scratch(c.rows, c.width, s.storage, s.threads));
  CpuQueue queue(s.threads);
  s.ops->rms_norm_backward(queue, {dy.matrix(), x.matrix(), w.row(), rstd.column(), c.offset, dx.matrix(), dw.row()},
                           scratch.bytes());
  return {output("dx", dx), output("dw", dw)};
}

void add_norm(std::vector<OpCase>& cases) {
  for (const NormCase& c : {NormCase{0, 8},
                            {1, 1},
                            {3, 7},
                            {5, 16},
                            {17, 33, 1},
                            {2, 130, 0, 1e-3},
                            {9, 256, 1, 300},
                            {3, 1025},
                            {37, 260}}) {
    const std::string shape = text(" rows %ld width %ld offset %g", c.rows, c.width, c.offset);
    cases.push_back({"rms_norm_forward" + shape, [c](const Setting& s) { return run_norm_forward(c, s); }, c.width});
    cases.push_back(
        {"rms_norm_backward" + shape, [c](const Setting& s) { return run_norm_backward(c, s); }, c.width + c.rows});
  }
}

struct RopeCase {
  Index rows, heads, width, half;
  bool inverse, in_place, wide_in;
};

std::vector<Output> run_rope(const RopeCase& c, const Setting& s) {
  const DType wide = accumulator_of(s.storage);
  Tensor x(c.wide_in ? wide : s.storage, c.rows, c.heads * c.width, s.gap),
      y(s.storage, c.rows, c.heads * c.width, s.gap), cos(wide, c.rows, c.half), sin(wide, c.rows, c.half);
  x.normal(9);
  for (Index i = 0; i < c.rows * c.half; ++i) {
    cos.set(i, std::cos(0.37 * static_cast<double>(i)));
    sin.set(i, std::sin(0.37 * static_cast<double>(i)));
  }
  Tensor& out = c.in_place ? x : y;
  CpuQueue queue(s.threads);
  s.ops->rope(queue, {x.heads(c.heads), cos.matrix(), sin.matrix(), out.heads(c.heads), c.inverse});
  return {output("y", out)};
}

std::vector<Output> run_rope_table(Index rows, Index half, const Setting& s) {
  std::vector<Token> tokens(rows);
  std::vector<double> frequency(half);
  for (Index t = 0; t < rows; ++t) tokens[t] = {t, t % 5 == 4 ? 1000000 + t : t, 1};
  for (Index d = 0; d < half; ++d) frequency[d] = std::pow(1e4, -static_cast<double>(d) / static_cast<double>(half));
  Tensor cos(accumulator_of(s.storage), rows, half, s.gap), sin(accumulator_of(s.storage), rows, half, s.gap);
  CpuQueue queue(s.threads);
  s.ops->rope_table(queue, {tokens, frequency, 1.25, cos.matrix(), sin.matrix()});
  return {output("cos", cos), output("sin", sin)};
}

void add_rope(std::vector<OpCase>& cases) {
  const Index shapes[][4] = {{0, 2, 8, 4},   {1, 1, 2, 1},   {3, 3, 10, 3},  {5, 2, 64, 32},
                             {4, 1, 70, 17}, {7, 4, 36, 16}, {45, 3, 66, 32}};
  for (const auto& d : shapes) {
    for (int bits = 0; bits < 6; ++bits) {
      const RopeCase c{d[0], d[1], d[2], d[3], (bits & 1) != 0, bits / 2 == 1, bits / 2 == 2};
      cases.push_back({text("rope rows %ld heads %ld width %ld half %ld%s%s%s", c.rows, c.heads, c.width, c.half,
                            c.inverse ? " inverse" : "", c.in_place ? " in place" : "", c.wide_in ? " wide" : ""),
                       [c](const Setting& s) { return run_rope(c, s); }, 2});
    }
    const Index rows = d[0], half = d[3];
    cases.push_back({text("rope_table rows %ld half %ld", rows, half),
                     [=](const Setting& s) { return run_rope_table(rows, half, s); }, 1});
  }
}

struct GatedCase {
  Index rows, width;
  Activation activation;
  double spread;
};

std::vector<Output> run_gated_forward(const GatedCase& c, const Setting& s) {
  Tensor gate(s.storage, c.rows, c.width, s.gap), up(s.storage, c.rows, c.width, s.gap),
      h(s.storage, c.rows, c.width, s.gap);
  gate.normal(10, c.spread), up.normal(11);
  CpuQueue queue(s.threads);
  s.ops->gated_forward(queue, {c.activation, gate.matrix(), up.matrix(), h.matrix()});
  return {output("h", h)};
}

std::vector<Output> run_gated_backward(const GatedCase& c, bool in_place, const Setting& s) {
  Tensor gate(s.storage, c.rows, c.width, s.gap), up(s.storage, c.rows, c.width, s.gap),
      dh(s.storage, c.rows, c.width, s.gap), dgate(s.storage, c.rows, c.width, s.gap),
      dup(s.storage, c.rows, c.width, s.gap);
  gate.normal(10, c.spread), up.normal(11), dh.normal(12);
  CpuQueue queue(s.threads);
  Tensor &to_gate = in_place ? gate : dgate, &to_up = in_place ? up : dup;
  s.ops->gated_backward(queue,
                        {c.activation, gate.matrix(), up.matrix(), dh.matrix(), to_gate.matrix(), to_up.matrix()});
  return {output("dgate", to_gate), output("dup", to_up)};
}

void add_gated(std::vector<OpCase>& cases) {
  const Index shapes[][2] = {{0, 4}, {1, 1}, {3, 37}, {2, 64}, {17, 130}, {65, 130}};
  for (const auto& d : shapes)
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh})
      for (const double spread : {1.0, 60.0}) {
        const GatedCase c{d[0], d[1], activation, spread};
        const std::string shape = text(" %s rows %ld width %ld spread %g",
                                       activation == Activation::kSilu ? "silu" : "gelu", c.rows, c.width, spread);
        cases.push_back({"gated_forward" + shape, [c](const Setting& s) { return run_gated_forward(c, s); }, 1});
        for (const bool in_place : {false, true})
          cases.push_back({"gated_backward" + shape + (in_place ? " in place" : ""),
                           [=](const Setting& s) { return run_gated_backward(c, in_place, s); }, 1});
      }
}

std::vector<std::int32_t> some_tokens(Index rows, Index vocabulary, std::uint64_t seed, bool with_none) {
  std::vector<std::int32_t> v(rows);
  for (Index t = 0; t < rows; ++t)
    v[t] = with_none && t % 4 == 2 ? -1 : static_cast<std::int32_t>(random_bits(seed, 2, t) % vocabulary);
  return v;
}

std::vector<Output> run_embedding_forward(Index rows, Index width, const Setting& s) {
  std::vector<std::int32_t> tokens = some_tokens(rows, 11, 13, false);
  Tensor table(s.storage, 11, width, s.gap), x(s.storage, rows, width, s.gap);
  table.normal(13);
  CpuQueue queue(s.threads);
  s.ops->embedding_forward(queue, {int_view(tokens), table.matrix(), x.matrix()});
  return {output("x", x)};
}

std::vector<Output> run_embedding_backward(Index rows, Index width, bool integers, const Setting& s) {
  std::vector<std::int32_t> tokens = some_tokens(rows, 5, 13, false);
  Tensor table(accumulator_of(s.storage), 5, width, s.gap), dx(s.storage, rows, width, s.gap);
  if (integers)
    table.integers(14, 9), dx.integers(15, 9);
  else
    table.normal(14), dx.normal(15);
  CpuQueue queue(s.threads);
  s.ops->embedding_backward(queue, {int_view(tokens), dx.matrix(), table.matrix()});
  return {output("dtable", table)};
}

void add_embedding(std::vector<OpCase>& cases) {
  const Index shapes[][2] = {{0, 4}, {1, 1}, {9, 37}, {40, 64}, {33, 260}};
  for (const auto& d : shapes) {
    const Index rows = d[0], width = d[1];
    const std::string shape = text(" rows %ld width %ld", rows, width);
    cases.push_back({"embedding_forward" + shape,
                     [=](const Setting& s) { return run_embedding_forward(rows, width, s); }, 1, true});
    for (const bool integers : {false, true})
      cases.push_back({"embedding_backward" + shape + (integers ? " integers" : ""),
                       [=](const Setting& s) { return run_embedding_backward(rows, width, integers, s); }, rows + 1,
                       integers});
  }
}

enum class Gradient { kNone, kApart, kInPlace };

std::vector<Output> run_cross_entropy(Index rows, Index vocabulary, double spread, Gradient gradient,
                                      const Setting& s) {
  std::vector<std::int32_t> labels = some_tokens(rows, vocabulary, 16, true);
  const DType wide = accumulator_of(s.storage);
  Tensor logits(wide, rows, vocabulary, s.gap), loss(wide, rows, 1), d(s.storage, rows, vocabulary, s.gap);
  logits.normal(17, spread);
  CrossEntropy x{logits.matrix(), int_view(labels), 0.25, loss.column(), {}};
  Tensor& to = gradient == Gradient::kInPlace ? logits : d;
  if (gradient != Gradient::kNone) x.dlogits_TV = to.matrix();
  CpuQueue queue(s.threads);
  s.ops->cross_entropy(queue, x);
  std::vector<Output> outputs{output("loss", loss)};
  if (gradient != Gradient::kNone) outputs.push_back(output("dlogits", to));
  return outputs;
}

void add_cross_entropy(std::vector<OpCase>& cases) {
  const Index shapes[][2] = {{0, 4}, {3, 1}, {4, 2}, {5, 37}, {3, 64}, {9, 1030}, {2, 5000}};
  for (const auto& d : shapes)
    for (const double spread : {1.0, 1e4})
      for (const Gradient g : {Gradient::kNone, Gradient::kApart, Gradient::kInPlace}) {
        const Index rows = d[0], vocabulary = d[1];
        cases.push_back({text("cross_entropy rows %ld vocabulary %ld spread %g%s", rows, vocabulary, spread,
                              g == Gradient::kNone      ? " no gradient"
                              : g == Gradient::kInPlace ? " in place"
                                                        : ""),
                         [=](const Setting& s) { return run_cross_entropy(rows, vocabulary, spread, g, s); },
                         vocabulary});
      }
}

std::vector<Output> run_adamw(Index count, bool with_weights, const Setting& s) {
  const DType wide = accumulator_of(s.storage);
  Tensor master(wide, 1, count), gradient(wide, 1, count), m(wide, 1, count), v(wide, 1, count),
      weights(s.storage, 1, count);
  master.normal(18), gradient.normal(19, 0.1), m.normal(20, 0.1), v.normal(21, 0.1);
  for (Index i = 0; i < count; ++i) v.set(i, v.get(i) * v.get(i));
  AdamW a{.master = master.row(), .gradient = gradient.row(), .m = m.row(), .v = v.row()};
  if (with_weights) a.weights = weights.row();
  a.learning_rate = 1e-2, a.decay = 0.1, a.gradient_scale = 0.5;
  a.correction1 = 1 - std::pow(a.beta1, 3), a.correction2 = 1 - std::pow(a.beta2, 3);
  CpuQueue queue(s.threads);
  s.ops->adamw(queue, a);
  std::vector<Output> outputs{output("master", master), output("m", m), output("v", v)};
  if (with_weights) outputs.push_back(output("weights", weights));
  return outputs;
}

std::vector<Output> run_sum_squares(Index count, bool integers, const Setting& s) {
  Tensor x(s.storage, 1, count);
  if (integers)
    x.integers(22, 9);
  else
    x.normal(22);
  CpuQueue queue(s.threads);
  return {{"sum", DType::kF64, {s.ops->sum_squares(queue, x.row())}, true}};
}

void add_optimizer(std::vector<OpCase>& cases) {
  for (const Index count : {0, 1, 5, 64, 1000, 20011}) {
    for (const bool with_weights : {false, true})
      cases.push_back({text("adamw count %ld%s", count, with_weights ? " weights" : ""),
                       [=](const Setting& s) { return run_adamw(count, with_weights, s); }, 4});
    for (const bool integers : {false, true})
      cases.push_back({text("sum_squares count %ld%s", count, integers ? " integers" : ""),
                       [=](const Setting& s) { return run_sum_squares(count, integers, s); }, count, integers});
  }
}

// `from` and `to` of add and copy: 0 storage, 1 accumulator.
std::vector<Output> run_add(Index rows, Index width, int from, int to, const Setting& s) {
  const DType types[] = {s.storage, accumulator_of(s.storage)};
  Tensor a(types[from], rows, width, s.gap), b(types[to], rows, width, s.gap);
  a.normal(23), b.normal(24);
  CpuQueue queue(s.threads);
  s.ops->add(queue, a.matrix(), b.matrix());
  return {output("to", b)};
}

std::vector<Output> run_copy(Index rows, Index heads, Index width, int from, int to, const Setting& s) {
  const DType types[] = {s.storage, accumulator_of(s.storage)};
  Tensor a(types[from], rows, heads * width, s.gap), b(types[to], rows, heads * width, s.gap + 1);
  a.normal(25);
  for (Index i = 0; from == 1 && i < a.count(); ++i) a.set(i, static_cast<float>(random_normal(25, 0, i)));
  CpuQueue queue(s.threads);
  s.ops->copy(queue, a.heads(heads), b.heads(heads));
  return {output("to", b)};
}

// A middle range of the heads, dimensions exchanged: no dimension of either side is contiguous with another.
std::vector<Output> run_copy_exchanged(const Setting& s) {
  Tensor a(s.storage, 6, 5 * 7, s.gap), b(s.storage, 3, 6 * 7, s.gap);
  a.normal(26), b.fill(0);
  AnyView<3> from = a.heads(5).slice(1, 1, 3);
  std::swap(from.extent[0], from.extent[1]), std::swap(from.stride[0], from.stride[1]);
  CpuQueue queue(s.threads);
  s.ops->copy(queue, from, b.heads(6));
  return {output("to", b)};
}

std::vector<Output> run_fill(Index rows, Index width, double value, const Setting& s) {
  Tensor a(s.storage, rows, width, s.gap);
  CpuQueue queue(s.threads);
  s.ops->fill(queue, a.heads(1), value);
  return {output("to", a)};
}

void add_elementwise(std::vector<OpCase>& cases) {
  const Index shapes[][2] = {{0, 4}, {1, 1}, {9, 37}, {70, 130}, {1, 20011}};
  for (const auto& d : shapes) {
    const Index rows = d[0], width = d[1];
    for (int types = 0; types < 4; ++types) {
      cases.push_back({text("add rows %ld width %ld types %d", rows, width, types),
                       [=](const Setting& s) { return run_add(rows, width, types / 2, types % 2, s); }, 1});
      cases.push_back({text("copy rows %ld heads 2 width %ld types %d", rows, width, types),
                       [=](const Setting& s) { return run_copy(rows, 2, width, types / 2, types % 2, s); }, 1});
    }
    cases.push_back({text("fill rows %ld width %ld", rows, width),
                     [=](const Setting& s) { return run_fill(rows, width, 0.3, s); }, 1});
  }
  cases.push_back({"copy exchanged", run_copy_exchanged, 1, true});
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_matmul(cases);
  add_norm(cases);
  add_rope(cases);
  add_gated(cases);
  add_embedding(cases);
  add_cross_entropy(cases);
  add_optimizer(cases);
  add_elementwise(cases);
  return cases;
}

}  // namespace longhaul::testing
