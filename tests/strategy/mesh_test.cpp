// Meshes: axis arithmetic, what is filled in, and the sentences of refusals.
#include "strategy/mesh.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace longhaul::strategy {
namespace {

TEST(Mesh, RanksAndIndicesAgree) {
  const Mesh mesh{.data = 2, .fsdp = 3, .context = 4, .tensor = 2};
  int rank = 0;
  for (int d = 0; d < 2; ++d)
    for (int f = 0; f < 3; ++f)
      for (int c = 0; c < 4; ++c)
        for (int t = 0; t < 2; ++t, ++rank) {
          EXPECT_EQ(mesh.data_index(rank), d);
          EXPECT_EQ(mesh.fsdp_index(rank), f);
          EXPECT_EQ(mesh.context_index(rank), c);
          EXPECT_EQ(mesh.tensor_index(rank), t);
          for (int peer = 0; peer < 4; ++peer) {
            const int other = mesh.context_peer(rank, peer);
            EXPECT_EQ(mesh.context_index(other), peer);
            EXPECT_EQ(mesh.data_index(other), d);
            EXPECT_EQ(mesh.fsdp_index(other), f);
            EXPECT_EQ(mesh.tensor_index(other), t);
          }
        }
  EXPECT_EQ(rank, mesh.ranks());
}

TEST(Mesh, WhatIsNotGivenIsFilledIn) {
  EXPECT_EQ(make_mesh({}), Mesh{});
  EXPECT_EQ(make_mesh({.ranks = 6}), Mesh{.data = 6});
  EXPECT_EQ(make_mesh({.ranks = 6, .all_on_context = true}), Mesh{.context = 6});
  EXPECT_EQ(make_mesh({.ranks = 6, .tensor = 2, .all_on_context = true}), (Mesh{.context = 3, .tensor = 2}));
  EXPECT_EQ(make_mesh({.ranks = 6, .context = 3}), (Mesh{.data = 2, .context = 3}));
  EXPECT_EQ(make_mesh({.context = 3, .ulysses = 3}), (Mesh{.context = 3, .ulysses = 3}));
  EXPECT_EQ(make_mesh({.ranks = 24, .data = 2, .fsdp = 2, .context = 3, .tensor = 2}),
            (Mesh{.data = 2, .fsdp = 2, .context = 3, .tensor = 2}));
}

std::string refusal(const MeshRequest& request) {
  try {
    make_mesh(request);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::kInput);
    return describe(e);
  }
  return "accepted";
}

TEST(Mesh, RefusalsSayWhichDegreeToChange) {
  EXPECT_EQ(refusal({.ranks = 4, .data = 2, .context = 3}),
            "error: degrees data 2 x context 3 = 6 are not 4 ranks, mesh\n"
            "hint: set --context-parallel 2, or --ranks 6\n");
  EXPECT_EQ(refusal({.ranks = 4, .context = 3}),
            "error: degree context 3 does not divide 4 ranks, mesh\n"
            "hint: set --context-parallel 4, or --ranks 3\n");
  EXPECT_EQ(refusal({.ranks = 7, .fsdp = 2, .tensor = 2, .all_on_context = true}),
            "error: degrees fsdp 2 x tensor 2 = 4 do not divide 7 ranks, mesh\n"
            "hint: set --ranks 4\n");
  EXPECT_EQ(refusal({.ranks = 6, .context = 6, .ulysses = 4}),
            "error: ulysses degree 4 does not divide context degree 6, --ulysses\n"
            "hint: set --ulysses to a divisor of 6\n");
  EXPECT_EQ(refusal({.ranks = -1}), "error: -1 ranks, --ranks\nhint: give a number from 1 to 32767\n");
  EXPECT_EQ(refusal({.tensor = -2}),
            "error: the tensor degree is -2, --tensor-parallel\nhint: give a number from 1 to 32767\n");
  EXPECT_NE(refusal({.data = 30000, .fsdp = 30000, .context = 30000, .tensor = 30000}).find("more than 32767 ranks"),
            std::string::npos);
}

TEST(Mesh, BalancedUlyssesDividesTheContextDegree) {
  const int want[] = {1, 1, 1, 2, 1, 2, 1, 2, 3, 2, 1, 3};
  for (int context = 1; context <= 12; ++context) EXPECT_EQ(balanced_ulysses(context), want[context - 1]) << context;
  EXPECT_EQ(balanced_ulysses(64), 8);
}

}  // namespace
}  // namespace longhaul::strategy
