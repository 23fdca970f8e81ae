// The matrix products of a step on one rank: for scratch, for cost, and for whoever wants to time them.
#pragma once

#include <vector>

#include "contract/ops.h"
#include "spec/tensor_table.h"

namespace longhaul::plan {

struct ProductUse {
  const char* name;
  MatmulShape shape;
  double calls = 0;  // a sequence
};

// Of the largest shard. `model` has this rank's heads, feed-forward width and vocabulary. A product whose rows are cut
// into chunks stands here with the rows of a whole chunk and as many calls as rows make, the last one in part.
std::vector<ProductUse> products_of(const spec::ModelSpec& model, const spec::LocalSizes& sizes,
                                    const std::vector<spec::LayerPolicy>& policy);

}  // namespace longhaul::plan
