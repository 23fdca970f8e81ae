// Reading and printing sizes.
#include "base/size.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace longhaul {
namespace {
constexpr std::string_view kSuffixes = "KMGT";
}

std::optional<Index> parse_size(std::string_view text) noexcept {
  int shift = 0;
  if (!text.empty()) {
    const char last = text.back();
    const auto at = kSuffixes.find(last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last);
    if (at != std::string_view::npos) {
      shift = 10 * static_cast<int>(at + 1);
      text.remove_suffix(1);
    }
  }
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  Index scaled = 0;
  if (__builtin_mul_overflow(value, Index{1} << shift, &scaled)) return std::nullopt;
  return scaled;
}

std::string format_size(Index size) {
  for (int i = 3; i >= 0 && size > 0; --i) {
    const Index unit = Index{1} << (10 * (i + 1));
    if (size % unit == 0) return fmt::format("{}{}", size / unit, kSuffixes[static_cast<std::size_t>(i)]);
  }
  return fmt::format("{}", size);
}

std::string format_bytes(Index bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double x = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(x) >= 1023.5 && unit < 6) x /= 1024, ++unit;
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", x, std::abs(x) < 9.995 ? 2 : std::abs(x) < 99.95 ? 1 : 0, kUnits[unit]);
}

}  // namespace longhaul
