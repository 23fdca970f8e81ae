// Parsing JSON that someone else wrote: bounded depth, no key twice, errors that name the file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace longhaul::io {

// input_error when `text` is not JSON, nests deeper than `depth`, or has a key twice in one object. `what` begins the
// message ("the header"), `where` is the file.
nlohmann::json parse_json(std::string_view text, int depth, const std::string& what, const std::string& where);

}  // namespace longhaul::io
