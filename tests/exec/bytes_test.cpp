// Counted bytes are exactly those of the schedules, which the checker proves sound.
#include <gtest/gtest.h>

#include "exec/cases.h"
#include "strategy/checker.h"

namespace longhaul::exec {
namespace {

strategy::Findings findings(const train::AttentionCase& c, const train::AttentionSetup& s) {
  std::vector<Token> tokens(static_cast<std::size_t>(c.rows));
  make_tokens(c.documents, {}, tokens);
  const strategy::Layout layout{s.layout, c.rows, s.ranks};
  std::vector<std::vector<Token>> shards;
  strategy::shard_tokens(layout, tokens, shards);
  strategy::Visibility visible;
  visible.rebuild(layout, c.params.mask, shards);
  const int element = static_cast<int>(size_of(s.storage)),
            partial = static_cast<int>(size_of(accumulator_of(s.storage)));
  strategy::Request request{0,       s.ranks, s.ulysses, {c.q_heads, c.kv_heads, c.d_qk, c.d_v, element, partial},
                            &layout, &visible};
  std::vector<strategy::Schedule> schedules(static_cast<std::size_t>(s.ranks));
  for (request.rank = 0; request.rank < s.ranks; ++request.rank)
    s.strategy->build(request, schedules[static_cast<std::size_t>(request.rank)]);
  request.rank = 0;
  return strategy::check(schedules, request);
}

TEST(Bytes, BytesSentAreThoseOfTheSchedule) {
  for (const CaseSpec& spec : kCases) {
    if (spec.rows < 20) continue;
    const train::AttentionCase c = make_case(spec);
    for (DType storage : {DType::kF32, DType::kBF16})
      for (const train::AttentionSetup& s : setups(8, reference(storage))) {
        if (s.ranks != 2 && s.ranks != 3 && s.ranks != 6) continue;
        const strategy::Findings f = findings(c, s);
        const train::AttentionResult r = train::run_attention(c, s);
        EXPECT_TRUE(f.problems.empty()) << spec.name << ": " << describe(s) << ": " << f.problems.front();
        EXPECT_EQ(r.forward_bytes, f.bytes_sent_forward) << spec.name << ": " << describe(s);
        EXPECT_EQ(r.backward_bytes, f.bytes_sent_backward) << spec.name << ": " << describe(s);
      }
  }
}

}  // namespace
}  // namespace longhaul::exec
