// Mesh: what each rank is. All axis arithmetic lives here.
#pragma once

#include <string>

#include "base/check.h"

namespace longhaul::strategy {

// Degrees multiply to the number of ranks. Order, outermost first: data, fsdp, context (ring x ulysses, ulysses
// inner), tensor (innermost). Expert parallelism reuses axes; pipeline is reserved.
struct Mesh {
  int data = 1, fsdp = 1, context = 1, tensor = 1;
  int ulysses = 1;  // inner factor of context for usp

  int ranks() const noexcept { return data * fsdp * context * tensor; }
  int data_index(int rank) const noexcept { return rank / (tensor * context * fsdp); }
  int fsdp_index(int rank) const noexcept { return rank / (tensor * context) % fsdp; }
  int context_index(int rank) const noexcept { return rank / tensor % context; }
  int tensor_index(int rank) const noexcept { return rank % tensor; }
  // The world rank of a member of this rank's context group.
  int context_peer(int rank, int context_index) const noexcept {
    return (rank / (tensor * context)) * tensor * context + context_index * tensor + rank % tensor;
  }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Degrees as asked for; 0 means "not given". What is not given is filled in: `all_on_context` lets the context degree
// take the ranks that are left, otherwise data parallelism does; the other degrees are 1, and without `ranks` the
// degrees make them. Throws an input error with the sentence that says which degree to change.
struct MeshRequest {
  int ranks = 0, data = 0, fsdp = 0, context = 0, tensor = 0, ulysses = 0;
  bool all_on_context = false;
};
Mesh make_mesh(const MeshRequest& request);

// The ulysses degree of usp where none is given: the largest divisor of the context degree that is at most its square
// root (1 at a prime degree).
int balanced_ulysses(int context) noexcept;

}  // namespace longhaul::strategy
