// The table of attention cases.
#include <cmath>

#include "kernel/attention_case.h"

#include "base/bf16.h"
#include "base/random.h"

namespace longhaul::testing {
namespace {

std::vector<double> normal_values(std::uint64_t seed, std::uint64_t stream, Index count, double spread) {
  std::vector<double> x(count);
  for (Index i = 0; i < count; ++i)
    x[i] = static_cast<double>(bf16(static_cast<float>(spread * random_normal(seed, stream, i))));
  return x;
}

std::vector<Token> tokens_of(Index count, const std::vector<std::int32_t>& documents = {}) {
  std::vector<Token> tokens(count);
  make_tokens(documents, {}, tokens);
  return tokens;
}

std::vector<Token> every(const std::vector<Token>& all, std::size_t first, std::size_t step) {
  std::vector<Token> some;
  for (std::size_t i = first; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

// Documents of the given lengths in turn; id 0 is padding.
std::vector<std::int32_t> documents_of(const std::vector<std::pair<std::int32_t, Index>>& runs) {
  std::vector<std::int32_t> ids;
  for (auto [id, length] : runs) ids.insert(ids.end(), length, id);
  return ids;
}

struct Builder {
  std::vector<AttentionCase> cases;

  // A causal case over one sequence; the caller changes what differs and then fills it.
  AttentionCase start(const std::string& name, Index length, Index q_heads, Index kv_heads, Index d, Index v) {
    AttentionCase c;
    c.name = name;
    c.q_heads = q_heads, c.kv_heads = kv_heads, c.group = q_heads / kv_heads;
    c.d_qk = d, c.d_v = v;
    c.params.scale = 1 / std::sqrt(static_cast<double>(d));
    c.q_tokens = c.k_tokens = tokens_of(length);
    return c;
  }
  void add(AttentionCase c, double spread = 1) {
    fill_normal(c, 100 + cases.size(), spread);
    cases.push_back(std::move(c));
  }
  void plain(const std::string& name, Index length, Index q_heads, Index kv_heads, Index d, Index v) {
    add(start(name, length, q_heads, kv_heads, d, v));
  }
};

void add_widths(Builder& b) {
  b.plain("one row", 1, 2, 1, 64, 64);
  b.plain("seven rows", 7, 4, 2, 64, 64);
  b.plain("width 64", 150, 2, 1, 64, 64);
  b.plain("width 128", 70, 2, 1, 128, 128);
  b.plain("width 80", 61, 2, 1, 80, 80);
  b.plain("width 1", 97, 1, 1, 1, 1);
  b.plain("widths 17 and 33", 75, 2, 1, 17, 33);
  b.plain("widths 192 and 128", 50, 1, 1, 192, 128);
  b.plain("widths 576 and 512", 50, 2, 1, 576, 512);
  b.plain("widths 24 and 200", 50, 2, 1, 24, 200);
  b.plain("widths 257 and 3", 40, 1, 1, 257, 3);
}

void add_heads(Builder& b) {
  b.plain("8 heads on 2", 60, 8, 2, 16, 16);
  b.plain("5 heads on 1", 45, 5, 1, 16, 16);
  AttentionCase c = b.start("heads 2 to 6 of group 3", 60, 5, 3, 16, 16);
  c.group = 3, c.q_head0 = 2, c.kv_head0 = 0;
  b.add(c);
  c = b.start("heads 7 and 8 of group 4, one key head unused", 50, 2, 3, 16, 16);
  c.group = 4, c.q_head0 = 7, c.kv_head0 = 1;
  b.add(c);
}

void add_masks(Builder& b) {
  const auto with = [&](const char* name, Index length, MaskSpec mask, const std::vector<std::int32_t>& ids = {}) {
    AttentionCase c = b.start(name, length, 2, 1, 16, 16);
    c.params.mask = mask;
    c.q_tokens = c.k_tokens = tokens_of(length, ids);
    return c;
  };
  const auto packed = documents_of({{3, 70}, {7, 1}, {2, 40}, {0, 9}, {5, 30}, {0, 20}});
  std::vector<std::int32_t> interleaved(150);
  for (std::size_t i = 0; i < interleaved.size(); ++i)
    interleaved[i] = static_cast<std::int32_t>(random_bits(5, 0, i) % 4);
  b.add(with("full", 130, {Order::kFull}));
  b.add(with("window 16", 200, {Order::kCausal, 16}));
  b.add(with("window 1", 60, {Order::kCausal, 1}));
  b.add(with("window 100, full order", 260, {Order::kFull, 100}));
  b.add(with("chunk 32", 140, {Order::kCausal, 0, 32}));
  b.add(with("chunk 30, full order", 100, {Order::kFull, 0, 30}));
  b.add(with("chunk 50, window 20, full order", 140, {Order::kFull, 20, 50}));
  b.add(with("documents", 170, {}, packed));
  b.add(with("documents, full order", 170, {Order::kFull}, packed));
  b.add(with("interleaved documents", 150, {}, interleaved));
  b.add(with("documents, window 10, chunk 16", 170, {Order::kCausal, 10, 16}, packed));
  b.add(with("only padding", 50, {}, documents_of({{0, 50}})));
  AttentionCase c = with("sinks, window 16", 96, {Order::kCausal, 16});
  c.sinks = {0.5, -3};
  b.add(c);
  c = with("large sinks, documents", 170, {}, packed);
  c.sinks = {40, -9984};
  b.add(c);
  c = with("softcap 50", 100, {});
  c.params.softcap = 50, c.params.scale = 1;
  b.add(c, 2);
  c = with("softcap 3, window, documents, sinks", 170, {Order::kCausal, 40}, packed);
  c.params.softcap = 3, c.sinks = {1, 2};
  b.add(c);
}

void add_chunks(Builder& b) {  // what ranks of context parallelism ask for
  AttentionCase c = b.start("queries after keys", 100, 2, 1, 16, 16);
  const auto all = tokens_of(200);
  c.q_tokens.assign(all.begin() + 100, all.end());
  b.add(c);
  c.name = "queries before keys";
  std::swap(c.q_tokens, c.k_tokens);
  b.add(c);
  c.name = "stripes 2 and 1 of 3";
  c.q_tokens = every(all, 2, 3), c.k_tokens = every(all, 1, 3);
  b.add(c);
  c.name = "rows in reverse";
  c.q_tokens.assign(all.rbegin(), all.rend()), c.k_tokens = c.q_tokens;
  b.add(c);
  c.name = "rows beyond 2^33";
  for (Token& t : c.q_tokens) t.row += Index{1} << 33;
  for (Token& t : c.k_tokens) t.row = t.row * (Index{1} << 27) + 5;
  b.add(c);
  c.name = "no keys";
  c.k_tokens.clear();
  b.add(c);
  c.name = "no queries";
  c.k_tokens = all, c.q_tokens.clear();
  b.add(c);
}

void add_long(Builder& b) {  // more than one tile in each direction
  AttentionCase c = b.start("10000 keys", 40, 1, 1, 8, 8);
  c.k_tokens = tokens_of(10000);
  c.q_tokens.clear();
  for (Index i = 0; i < 40; ++i) c.q_tokens.push_back(c.k_tokens[i * 256]);
  b.add(c);
  c = b.start("14000 queries", 40, 1, 1, 8, 8);
  c.q_tokens = tokens_of(14000);
  c.k_tokens.clear();
  for (Index i = 0; i < 40; ++i) c.k_tokens.push_back(c.q_tokens[i * 300]);
  b.add(c);
  c.name = "heads 1 to 3 of group 2, 7000 queries";
  c.q_tokens.resize(7000), c.k_tokens.resize(20);
  c.q_heads = 3, c.kv_heads = 2, c.group = 2, c.q_head0 = 1;
  b.add(c);
}

}  // namespace

void fill_normal(AttentionCase& c, std::uint64_t seed, double spread) {
  const Index rows = std::ssize(c.q_tokens), keys = std::ssize(c.k_tokens);
  c.q = normal_values(seed, 1, rows * c.q_heads * c.d_qk, spread);
  c.k = normal_values(seed, 2, keys * c.kv_heads * c.d_qk, spread);
  c.v = normal_values(seed, 3, keys * c.kv_heads * c.d_v, 1);
  c.d_o = normal_values(seed, 4, rows * c.q_heads * c.d_v, 1);
}

std::vector<AttentionCase> attention_cases() {
  Builder b;
  add_widths(b);
  add_heads(b);
  add_masks(b);
  add_chunks(b);
  add_long(b);
  return std::move(b.cases);
}

}  // namespace longhaul::testing
