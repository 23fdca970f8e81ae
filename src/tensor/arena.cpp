// The allocation and its checks.
#include "tensor/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace longhaul {
namespace {

constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;

std::uint64_t sentinel_word(Index offset) {
  return mix64(static_cast<std::uint64_t>(offset));
}

}  // namespace

Arena::Arena(Index size, bool huge_pages) : size_(size) {
  CHECK(size >= 0, "%ld bytes", size);
  if (size == 0) return;
  mapped_ = huge_pages ? size + static_cast<Index>(kHugePage)
                       : size;  // the surplus is address space only: it is never touched
  void* p =
      mmap(nullptr, static_cast<std::size_t>(mapped_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    throw run_error(
        fmt::format("the system refuses {} bytes of memory ({})", size, std::strerror(errno)), "arena",
        "lower --memory, --context or --batch, use more ranks, or raise the limit (ulimit -v, the container's)");
  }
  mapping_ = p;
  data_ = static_cast<std::byte*>(p);
  if (huge_pages) {
    data_ += -reinterpret_cast<std::uintptr_t>(p) % kHugePage;  // up to the next boundary
    // Only advice: a system without huge pages says no, and small pages serve as well.
    madvise(data_, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  }
}

Arena::~Arena() {
  release();
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapped_ = std::exchange(other.mapped_, 0);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  sentinels_ = std::move(other.sentinels_);
  other.sentinels_.clear();
  return *this;
}

void Arena::release() noexcept {
  if (mapping_) munmap(mapping_, static_cast<std::size_t>(mapped_));
}

std::byte* Arena::range(Index offset, Index size) const {
  CHECK(0 <= offset && 0 <= size && size <= size_ && offset <= size_ - size, "[%ld, +%ld) of an arena of %ld bytes",
        offset, size, size_);
  return data_ + offset;
}

Bytes Arena::at(Index offset, Index size) const {
  CHECK(offset % kAlignment == 0, "offset %ld", offset);
  return {range(offset, size), size, Space::kCpu};
}

void Arena::poison(Index offset, Index size) const {
  std::byte* p = range(offset, size);
  if (size > 0) std::memset(p, static_cast<int>(kPoison), static_cast<std::size_t>(size));
}

Index Arena::first_untouched_line(Index offset, Index size) const {
  const std::byte* p = range(offset, size);
  for (Index line = 0; line < size; line += kAlignment) {
    const std::byte* end = p + std::min(size, line + kAlignment);
    if (std::all_of(p + line, end, [](std::byte b) { return b == kPoison; })) return offset + line;
  }
  return -1;
}

Index Arena::first_written_byte(Index offset, Index size) const {
  const std::byte* p = range(offset, size);
  const std::byte* found = std::find_if(p, p + size, [](std::byte b) { return b != kPoison; });
  return found == p + size ? -1 : offset + (found - p);
}

void Arena::place_sentinel(Index offset) {
  std::byte* p = at(offset, kSentinelBytes).data;
  const std::uint64_t word = sentinel_word(offset);
  for (Index i = 0; i < kSentinelBytes; i += sizeof word) std::memcpy(p + i, &word, sizeof word);
  sentinels_.push_back(offset);
}

Index Arena::first_broken_sentinel() const {
  Index first = -1;
  for (const Index offset : sentinels_) {
    const std::byte* p = data_ + offset;
    const std::uint64_t word = sentinel_word(offset);
    bool whole = true;
    for (Index i = 0; i < kSentinelBytes; i += sizeof word) whole &= std::memcmp(p + i, &word, sizeof word) == 0;
    if (!whole && (first < 0 || offset < first)) first = offset;
  }
  return first;
}

}  // namespace longhaul
