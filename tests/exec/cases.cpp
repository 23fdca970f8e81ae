// Attention cases for the tests of exec, the dense algorithm that they are held against, and the ways to run them.
#include "exec/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "base/random.h"
#include "fmt/format.h"
#include "kernel/ops.h"

namespace longhaul::exec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::int32_t> make_documents(Documents kind, Index rows, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  std::int32_t id = 7;
  for (Index i = 0; i < rows && kind != Documents::kNone; ++i) {
    const std::uint64_t x = random_bits(seed, 9, static_cast<std::uint64_t>(i));
    if (kind == Documents::kScattered) {
      ids.push_back(static_cast<std::int32_t>(x % 3));
    } else {
      if (x % 6 == 0) id = 1 + static_cast<std::int32_t>(x / 6 % 50);
      ids.push_back(i >= rows - rows / 5 ? 0 : id);
    }
  }
  return ids;
}

double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return kInfinity;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // also equal infinities
    const double d = std::abs(a[i] - b[i]);
    worst = std::isfinite(d) ? std::max(worst, d) : kInfinity;
  }
  return worst;
}

}  // namespace

train::AttentionCase make_case(const CaseSpec& spec) {
  const std::uint64_t seed = hash64(std::as_bytes(std::span(spec.name, std::string_view(spec.name).size())));
  train::AttentionCase c;
  c.params = {spec.mask, 1 / std::sqrt(static_cast<double>(spec.d_qk)), spec.softcap};
  c.rows = spec.rows, c.q_heads = spec.q_heads, c.kv_heads = spec.kv_heads, c.d_qk = spec.d_qk, c.d_v = spec.d_v;
  const auto fill = [&](std::vector<float>& x, std::uint64_t stream, Index count, float factor) {
    for (Index i = 0; i < count; ++i)
      x.push_back(factor * static_cast<float>(random_normal(seed, stream, static_cast<std::uint64_t>(i))));
  };
  fill(c.q, 0, c.rows * c.q_heads * c.d_qk, spec.score);
  fill(c.k, 1, c.rows * c.kv_heads * c.d_qk, 1);
  fill(c.v, 2, c.rows * c.kv_heads * c.d_v, 1);
  fill(c.d_o, 3, c.rows * c.q_heads * c.d_v, 1);
  if (spec.sinks) fill(c.sinks, 4, c.q_heads, spec.score);
  c.documents = make_documents(spec.documents, spec.rows, seed);
  return c;
}

train::AttentionResult dense(const train::AttentionCase& c) {
  const Index T = c.rows, N = c.q_heads, G = c.kv_heads, D = c.d_qk, V = c.d_v, group = N / G;
  std::vector<Token> tokens(static_cast<std::size_t>(T));
  make_tokens(c.documents, {}, tokens);
  train::AttentionResult r;
  r.o.resize(c.d_o.size()), r.lse.assign(static_cast<std::size_t>(T * N), -kInfinity);
  r.dq.resize(c.q.size()), r.dk.resize(c.k.size()), r.dv.resize(c.v.size()), r.dsinks.resize(c.sinks.size());
  std::vector<double> p(static_cast<std::size_t>(T)), slope(static_cast<std::size_t>(T));
  for (Index n = 0; n < N; ++n)
    for (Index i = 0; i < T; ++i) {
      if (tokens[i].document == 0) continue;
      const float* q = &c.q[(i * N + n) * D];
      double m = c.sinks.empty() ? -kInfinity : c.sinks[n], z = 0;
      for (Index j = 0; j < T; ++j) {
        p[j] = -kInfinity;
        if (!visible(c.params.mask, tokens[i], tokens[j])) continue;
        double s = 0;
        for (Index d = 0; d < D; ++d)
          s += static_cast<double>(q[d]) * static_cast<double>(c.k[(j * G + n / group) * D + d]);
        s *= c.params.scale, slope[j] = 1;
        if (c.params.softcap > 0) {
          const double t = std::tanh(s / c.params.softcap);
          s = c.params.softcap * t, slope[j] = 1 - t * t;
        }
        m = std::max(m, p[j] = s);
      }
      const double sink = c.sinks.empty() ? 0 : std::exp(c.sinks[n] - m);
      z = sink;
      for (Index j = 0; j < T; ++j) z += std::exp(p[j] - m);
      r.lse[i * N + n] = m + std::log(z);
      const float* d_o = &c.d_o[(i * N + n) * V];
      double delta = 0;
      for (Index j = 0; j < T; ++j) {
        if (p[j] == -kInfinity) continue;
        p[j] = std::exp(p[j] - m) / z;
        for (Index d = 0; d < V; ++d) r.o[(i * N + n) * V + d] += p[j] * c.v[(j * G + n / group) * V + d];
      }
      for (Index d = 0; d < V; ++d) delta += r.o[(i * N + n) * V + d] * d_o[d];
      for (Index j = 0; j < T; ++j) {
        if (p[j] == -kInfinity) continue;
        double dp = 0;
        for (Index d = 0; d < V; ++d) {
          dp += static_cast<double>(d_o[d]) * static_cast<double>(c.v[(j * G + n / group) * V + d]);
          r.dv[(j * G + n / group) * V + d] += p[j] * d_o[d];
        }
        const double ds = p[j] * (dp - delta) * slope[j] * c.params.scale;
        for (Index d = 0; d < D; ++d) {
          r.dq[(i * N + n) * D + d] += ds * c.k[(j * G + n / group) * D + d];
          r.dk[(j * G + n / group) * D + d] += ds * q[d];
        }
      }
      if (!c.sinks.empty()) r.dsinks[n] -= sink / z * delta;
    }
  return r;
}

std::string difference(const train::AttentionResult& got, const train::AttentionResult& want, double relative) {
  std::string text;
  const auto compare = [&](const char* name, const std::vector<double>& a, const std::vector<double>& b) {
    double top = 1;
    for (double x : b)
      if (std::isfinite(x)) top = std::max(top, std::abs(x));
    if (const double d = max_difference(a, b); d > relative * top)
      text += fmt::format("{} differs by {:g}, bound {:g}\n", name, d, relative * top);
  };
  compare("o", got.o, want.o), compare("lse", got.lse, want.lse);
  compare("dq", got.dq, want.dq), compare("dk", got.dk, want.dk), compare("dv", got.dv, want.dv);
  compare("dsinks", got.dsinks, want.dsinks);
  return text;
}

bool same_values(const train::AttentionResult& a, const train::AttentionResult& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv && a.dsinks == b.dsinks;
}

train::AttentionSetup reference(DType storage) {
  train::AttentionSetup s;
  s.storage = storage, s.ops = &kernel::reference_ops();
  s.variant = choose_attention(*s.ops, "ref", {storage}, {});
  return s;
}
std::string describe(const train::AttentionSetup& s) {
  constexpr const char* kLayouts[] = {"contiguous", "zigzag", "striped"};
  return fmt::format("--strategy {} --layout {} --ranks {} --ulysses {} --dtype {} --kernel {} --threads {}",
                     s.strategy->name, kLayouts[static_cast<int>(s.layout)], s.ranks, s.ulysses, name_of(s.storage),
                     s.variant->name, s.threads);
}

std::vector<train::AttentionSetup> setups(int most_ranks, const train::AttentionSetup& rest) {
  std::vector<train::AttentionSetup> all;
  for (const strategy::StrategyEntry& entry : strategy::strategies())
    for (int ranks = 1; ranks <= most_ranks; ++ranks)
      for (int u = 1; u <= ranks; ++u) {
        const std::string_view name = entry.name;
        if (name == "single" && ranks > 1) continue;
        if (name == "usp" ? ranks % u != 0 : u != 1) continue;
        for (auto layout :
             {strategy::LayoutKind::kContiguous, strategy::LayoutKind::kZigzag, strategy::LayoutKind::kStriped}) {
          train::AttentionSetup s = rest;
          s.strategy = &entry, s.layout = layout, s.ranks = ranks, s.ulysses = u;
          all.push_back(s);
        }
      }
  return all;
}

}  // namespace longhaul::exec
