// Sizes as people write them: "16K" is 16,384; and bytes as people read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"

namespace longhaul {

// Decimal digits and at most one of K, M, G, T (either case; powers of two). Nothing when the text is anything else or
// the number does not fit.
std::optional<Index> parse_size(std::string_view text) noexcept;

// "16K" where parse_size gives the same number back from a suffix, else the digits.
std::string format_size(Index size);

// "512 B", "1.50 MiB", "37.2 GiB": three digits or more, for people; not for parsing.
std::string format_bytes(Index bytes);

}  // namespace longhaul
