// The part of base/random.h that needs <cmath>.
#include "base/random.h"

#include <cmath>
#include <numbers>

namespace longhaul {

double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  const double u = 1.0 - random_uniform(seed, stream, 2 * index);  // in (0, 1], so that the logarithm is finite
  const double v = random_uniform(seed, stream, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace longhaul
