// The activations of a step as views: placed buffers of spec/tensor_table, looked up by name and layer.
#pragma once

#include <vector>

#include "spec/tensor_table.h"
#include "tensor/view.h"

namespace longhaul::model {

class Activations {
 public:
  // `placed` have offsets into `arena`. A layer without its own buffer uses the shared one.
  Activations(const std::vector<spec::Buffer>& placed, Bytes arena, int layers);

  // The first `rows` rows of a two-dimensional buffer.
  AnyView<2> matrix(spec::ActivationId id, Index rows, int layer = -1) const;
  // The first `rows` elements of a buffer of one element a row.
  AnyView<1> vector(spec::ActivationId id, Index rows, int layer = -1) const;
  // The whole memory of a buffer; empty when the table does not have it.
  Bytes bytes(spec::ActivationId id, int layer = -1) const;
  bool has(spec::ActivationId id, int layer = -1) const;

 private:
  const spec::Buffer* find(spec::ActivationId id, int layer) const;

  std::vector<spec::Buffer> buffers_;
  std::vector<int> index_;  // [id][layer + 1] -> buffer, or -1
  Bytes arena_;
  int layers_;
};

}  // namespace longhaul::model
