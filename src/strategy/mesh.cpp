// From the degrees that were asked for to a mesh, or to the sentence that says why not.
#include "strategy/mesh.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/error.h"

namespace longhaul::strategy {
namespace {

constexpr int kMostRanks = 32767;  // a rank's number fits the 16 bits of a schedule's step

struct Degree {
  const char* name;
  const char* option;
  int* value;
};

// "data 2 x context 3 = 6" of the degrees that were given.
std::string product_text(const std::vector<Degree>& given, Index product) {
  std::string text;
  for (const Degree& d : given) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", d.name, *d.value);
  return given.size() == 1 ? text : fmt::format("{} = {}", text, product);
}

// How to make the product of the given degrees `ranks`: by one of them, the last that can, or by the number of ranks.
std::string cure(const std::vector<Degree>& given, Index product, int ranks, bool exactly) {
  std::string change;
  for (const Degree& d : given) {
    const Index others = product / *d.value;
    if (ranks % others == 0) change = fmt::format("set {} {}", d.option, ranks / others);
  }
  const Index fitting = exactly ? product : product * (ranks / product + (ranks < product));
  const std::string more = fmt::format("{} {}", change.empty() ? "set --ranks" : ", or --ranks", fitting);
  return change + more;
}

}  // namespace

Mesh make_mesh(const MeshRequest& request) {
  MeshRequest r = request;
  const std::array<Degree, 4> degrees{Degree{"data", "--data-parallel", &r.data}, Degree{"fsdp", "--fsdp", &r.fsdp},
                                      Degree{"context", "--context-parallel", &r.context},
                                      Degree{"tensor", "--tensor-parallel", &r.tensor}};
  for (const Degree& d : degrees)
    if (*d.value < 0 || *d.value > kMostRanks)
      throw input_error(fmt::format("the {} degree is {}", d.name, *d.value), d.option,
                        fmt::format("give a number from 1 to {}", kMostRanks));
  if (r.ranks < 0 || r.ranks > kMostRanks)
    throw input_error(fmt::format("{} ranks", r.ranks), "--ranks",
                      fmt::format("give a number from 1 to {}", kMostRanks));
  std::vector<Degree> given;
  Index product = 1;
  for (const Degree& d : degrees) {
    if (*d.value == 0) continue;
    given.push_back(d);
    product *= *d.value;
  }
  if (product > kMostRanks)
    throw input_error(fmt::format("degrees {} are more than {} ranks", product_text(given, product), kMostRanks),
                      given.back().option, "make one of the degrees smaller");
  if (r.ranks == 0) r.ranks = static_cast<int>(product);
  int& filled = r.all_on_context && r.context == 0 ? r.context : r.data;
  const bool exactly = filled != 0;  // nothing is left to fill in
  if (exactly ? product != r.ranks : r.ranks % product != 0) {
    const bool one = given.size() == 1;
    const char* verb = exactly ? (one ? "is not" : "are not") : (one ? "does not divide" : "do not divide");
    throw input_error(
        fmt::format("{} {} {} {} ranks", one ? "degree" : "degrees", product_text(given, product), verb, r.ranks),
        "mesh", cure(given, product, r.ranks, exactly));
  }
  if (!exactly) filled = static_cast<int>(r.ranks / product);
  for (const Degree& d : degrees)
    if (*d.value == 0) *d.value = 1;
  if (r.ulysses < 0 || (r.ulysses > 0 && r.context % r.ulysses != 0))
    throw input_error(fmt::format("ulysses degree {} does not divide context degree {}", r.ulysses, r.context),
                      "--ulysses", fmt::format("set --ulysses to a divisor of {}", r.context));
  return {.data = r.data,
          .fsdp = r.fsdp,
          .context = r.context,
          .tensor = r.tensor,
          .ulysses = r.ulysses == 0 ? 1 : r.ulysses};
}

int balanced_ulysses(int context) noexcept {
  int best = 1;
  for (int u = 1; u * u <= context; ++u)
    if (context % u == 0) best = u;
  return best;
}

}  // namespace longhaul::strategy
