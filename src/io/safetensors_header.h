// The header of a safetensors file as data, apart from the file it stands in.
#pragma once

#include "io/safetensors.h"

namespace longhaul::io {

struct Header {
  std::vector<TensorEntry> entries;  // in the order of their data, which they fill without overlap or hole
  std::map<std::string, std::string, std::less<>> metadata;
};

constexpr Index kMaxHeaderBytes = 100'000'000;  // as in the format's reference implementation

// `json` is the header's text, `data_offset` where the data begins in the file, `data_bytes` how much there is.
// input_error names `where` and what is wrong; no input makes it overflow, or take more than a small multiple of the
// header's size.
Header parse_header(std::string_view json, Index data_offset, Index data_bytes, const std::string& where);

}  // namespace longhaul::io
