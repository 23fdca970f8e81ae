// Walks the parameter table against safetensors files.
#include "train/weights.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace longhaul::train {

std::vector<Index> shape_of(const spec::Parameter& p) {
  return p.is_matrix ? std::vector<Index>{p.rows, p.columns} : std::vector<Index>{p.rows};
}

void check_weights(const io::WeightFiles& files, const spec::ParameterTable& table) {
  std::set<std::string> known;
  for (const spec::Parameter& p : table.rows) {
    files.require(p.name, io::Kind::kFloat, std::span<const Index>(shape_of(p)));
    known.insert(p.name);
  }
  for (const std::string& name : files.names()) {
    // Some checkpoints store a constant table of rotary frequencies, and tied ones the matrix that is tied.
    const bool derived = name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight";
    if (known.count(name) == 0 && !derived)
      throw input_error("the weights hold a tensor that the model does not have: " + name, files.path(),
                        "config.json and the weights must be of one model");
  }
}

void load_weights(const io::WeightFiles& files, Trainer& t) {
  check_weights(files, t.table);
  for (const spec::Parameter& p : t.table.rows) {
    const auto place = files.require(p.name, io::Kind::kFloat, std::span<const Index>(shape_of(p)));
    const AnyView<1> w = t.state.master.slice(0, p.offset, p.count());
    const auto read = [&](auto* data) {
      const std::span values(data, static_cast<std::size_t>(p.count()));
      place.file->read(*place.entry, 0, values);
      io::require_finite(values, p.name, place.file->path());
    };
    if (w.dtype == DType::kF64)
      read(static_cast<double*>(w.data));
    else
      read(static_cast<float*>(w.data));
  }
  t.refresh_weights();
}

}  // namespace longhaul::train
