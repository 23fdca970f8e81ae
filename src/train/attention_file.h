// Attention cases and their results as safetensors files: what `longhaul attend` reads and writes.
#pragma once

#include <string>

#include "io/safetensors.h"
#include "train/attend.h"

namespace longhaul::train {

// Tensors q [T, N, D], k [T, G, D], v [T, G, V], do [T, N, V] (only with `gradients`), optional segment_ids [T]
// (0: padding) and sinks [N]; metadata mask (causal or full), window, chunk, softcap (0: none) and scale.
// Input errors name the tensor or the key.
AttentionCase read_attention_case(const std::string& path, bool gradients);

// The file of a result: o [T, N, V], lse [T, N] and, with gradients, dq, dk, dv, dsinks, all F32. Made before the
// work, so that a path that cannot be written is refused at once; the file appears with write().
class AttentionResultFile {
 public:
  AttentionResultFile(const std::string& path, const AttentionCase& c);
  // Run error when a value that should be finite is not.
  void write(const AttentionResult& result);

 private:
  std::string path_;
  bool gradients_, sinks_;
  io::SafetensorsWriter writer_;
};

}  // namespace longhaul::train
