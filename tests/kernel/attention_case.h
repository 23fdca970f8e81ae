// Attention problems as data, and how a variant runs one: forward, finish, delta, backward, gradient of the sinks.
#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "contract/attention.h"

namespace longhaul::testing {

// T query rows, K key rows, N query heads, G key/value heads, D and V wide. All values are exact in bf16.
struct AttentionCase {
  std::string name;
  AttentionParams params;
  Index q_heads = 1, kv_heads = 1, d_qk = 16, d_v = 16;
  Index q_head0 = 0, kv_head0 = 0, group = 1;
  std::vector<Token> q_tokens, k_tokens;
  std::vector<double> q, k, v, d_o;  // row-major [T, N, D], [K, G, D], [K, G, V], [T, N, V]
  std::vector<double> sinks;         // [N], or empty

  AttentionShape shape(DType storage) const;
};

// The table: every mask, head layout, width and edge that an implementation must take.
std::vector<AttentionCase> attention_cases();
// Normal values for the extents that the case has.
void fill_normal(AttentionCase& c, std::uint64_t seed, double spread = 1);

struct AttentionRun {
  const AttentionVariant* variant = nullptr;
  DType storage = DType::kF32;
  int threads = 1;
  Index calls = 1;                              // the tiles are cut into up to so many ranges
  std::vector<std::pair<Index, Index>> pieces;  // key ranges [begin, end) in the order they are taken; empty: all keys
  bool poison = false;  // NaN in every row of document 0, of inputs, partials and delta; 0xff in scratch
  Index gap = 0;        // elements between rows
};
std::ostream& operator<<(std::ostream& out, const AttentionRun& run);

struct NamedTensor {
  const char* name;
  std::vector<double> values;
};
// o, lse, dq, dk, dv and, with sinks, dsinks, in the layouts of the inputs.
using AttentionOutputs = std::vector<NamedTensor>;
AttentionOutputs run_attention(const AttentionCase& c, const AttentionRun& run);

// The largest difference where `want` is finite; infinite when the patterns of infinities and NaN differ.
double largest_difference(const std::vector<double>& got, const std::vector<double>& want);
double largest_magnitude(const std::vector<double>& values);  // of the finite ones
// 4 ulp of fp32 of the tensor's largest value times log2(T + 1): what a bound grants beside the plain algorithm's
// error.
double ulp_allowance(const std::vector<double>& want, Index rows);
// What is left of a gradient of q or k whose exact value is 0: the difference of two sums of V products, each rounded
// by up to log2(V + 1) ulp of its terms.
double cancellation_allowance(const AttentionCase& c);
// What rounding o to bf16, by up to 2^-9 of each value, can do to a sink's gradient: one number, whose error in the
// reference may be small by chance.
double sink_allowance(const AttentionCase& c, const std::vector<double>& o, const std::vector<double>& lse);

}  // namespace longhaul::testing
