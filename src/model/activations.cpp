// Looks up placed buffers.
#include "model/activations.h"

namespace longhaul::model {

using spec::ActivationId;

Activations::Activations(const std::vector<spec::Buffer>& placed, Bytes arena, int layers)
    : buffers_(placed), arena_(arena), layers_(layers) {
  const int stride = layers + 2;  // shared, layers 0 .. layers (kX has one more than there are layers)
  index_.assign(static_cast<std::size_t>(stride) * (static_cast<int>(ActivationId::kScratch) + 1), -1);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const spec::Buffer& b = buffers_[i];
    CHECK(b.offset >= 0 && b.offset + b.bytes() <= arena.size, "buffer %s at %ld with %ld bytes, arena %ld",
          name_of(b.id), b.offset, b.bytes(), arena.size);
    index_[static_cast<std::size_t>(static_cast<int>(b.id)) * stride + b.layer + 1] = static_cast<int>(i);
  }
}

const spec::Buffer* Activations::find(ActivationId id, int layer) const {
  const std::size_t row = static_cast<std::size_t>(static_cast<int>(id)) * (layers_ + 2);
  if (layer >= 0 && index_[row + layer + 1] >= 0) return &buffers_[index_[row + layer + 1]];
  return index_[row] >= 0 ? &buffers_[index_[row]] : nullptr;
}

bool Activations::has(ActivationId id, int layer) const {
  return find(id, layer) != nullptr;
}

AnyView<2> Activations::matrix(ActivationId id, Index rows, int layer) const {
  const spec::Buffer* b = find(id, layer);
  CHECK(b != nullptr, "%s of layer %d is not in the table", name_of(id), layer);
  return make_view<2>(arena_.data + b->offset, b->dtype, {b->extent[0], b->extent[1]}, arena_.space).slice(0, 0, rows);
}

AnyView<1> Activations::vector(ActivationId id, Index rows, int layer) const {
  const AnyView<2> m = matrix(id, rows, layer);
  CHECK(m.extent[1] == 1, "%s has %ld elements a row", name_of(id), m.extent[1]);
  return make_view<1>(m.data, m.dtype, {rows}, m.space);
}

Bytes Activations::bytes(ActivationId id, int layer) const {
  const spec::Buffer* b = find(id, layer);
  return b == nullptr ? Bytes{} : Bytes{arena_.data + b->offset, b->bytes(), arena_.space};
}

}  // namespace longhaul::model
