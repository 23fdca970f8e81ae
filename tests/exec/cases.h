// Attention cases for the tests of exec, the dense algorithm that they are held against, and the ways to run them.
#pragma once

#include <string>
#include <vector>

#include "train/attend.h"

namespace longhaul::exec {

enum class Documents : std::uint8_t { kNone, kSorted, kScattered };  // the last two with padding rows

struct CaseSpec {
  const char* name;
  Index rows;
  int q_heads, kv_heads, d_qk, d_v;
  MaskSpec mask = {};
  Documents documents = Documents::kNone;
  bool sinks = false;
  double softcap = 0;
  float score = 1;  // factor of the queries
};
inline constexpr MaskSpec kCausal{}, kFull{Order::kFull, 0, 0};

// Small: lengths of 1, 2, primes, and below the degree.
inline constexpr CaseSpec kCases[] = {
    {"one row", 1, 2, 1, 3, 4},
    {"two rows", 2, 5, 1, 4, 4, kFull},
    {"three rows, sinks", 3, 3, 3, 2, 5, kCausal, Documents::kNone, true},
    {"five rows", 5, 8, 2, 3, 3, {Order::kCausal, 2, 0}},
    {"seven rows, scattered", 7, 2, 2, 3, 4, kCausal, Documents::kScattered},
    {"causal", 37, 4, 2, 5, 3},
    {"causal, many heads", 23, 12, 4, 2, 2},
    {"causal, softcap", 29, 3, 3, 4, 6, kCausal, Documents::kNone, false, 2.5, 3},
    {"full, MQA, sinks", 24, 5, 1, 4, 2, kFull, Documents::kNone, true},
    {"window", 50, 4, 1, 3, 4, {Order::kCausal, 7, 0}},
    {"full with a window", 31, 2, 1, 3, 4, {Order::kFull, 9, 0}},
    {"wide window, sinks", 33, 6, 3, 3, 3, {Order::kCausal, 30, 0}, Documents::kNone, true},
    {"chunks", 41, 4, 4, 3, 3, {Order::kCausal, 0, 9}},
    {"full chunks, window", 40, 2, 2, 3, 3, {Order::kFull, 6, 16}},
    {"documents", 61, 4, 2, 4, 3, kCausal, Documents::kSorted},
    {"documents, full, sinks", 43, 3, 1, 3, 4, kFull, Documents::kSorted, true},
    {"documents, window", 47, 2, 2, 3, 3, {Order::kCausal, 5, 0}, Documents::kSorted},
    {"scattered documents", 37, 6, 2, 3, 4, kCausal, Documents::kScattered, true},
    {"scattered documents, full", 19, 1, 1, 3, 4, kFull, Documents::kScattered},
    {"scattered documents, window, softcap", 53, 7, 1, 3, 4, {Order::kCausal, 11, 0}, Documents::kScattered, true, 4},
};

train::AttentionCase make_case(const CaseSpec& spec);

// softmax(scale q k^T, masked) v and its gradient by definition, row by row in fp64; no ranks, no tiles, no statistic.
train::AttentionResult dense(const train::AttentionCase& c);

// What differs by more than relative x the tensor's largest value, one line a tensor; empty when nothing does.
std::string difference(const train::AttentionResult& got, const train::AttentionResult& want, double relative);

// Every value of every tensor is the same.
bool same_values(const train::AttentionResult& a, const train::AttentionResult& b);

// The reference ops and attention; strategy, layout and degree are still to be set.
train::AttentionSetup reference(DType storage);

// strategy, layout, ranks and factor, as longhaul attend takes them.
std::string describe(const train::AttentionSetup& setup);

// Every strategy x layout x degree up to most_ranks x factor of usp, with the given rest.
std::vector<train::AttentionSetup> setups(int most_ranks, const train::AttentionSetup& rest);

}  // namespace longhaul::exec
