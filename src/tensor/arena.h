// Arena: one allocation, made once, in which plan/memory has placed every buffer of a step.
//
// Offsets and sizes come from the plan; the arena decides nothing. In a debug run it also answers whether the plan was
// right: memory is poisoned before its lifetime, so what is read too early is NaN; a planned buffer that a lifetime
// leaves poisoned was planned too large; a sentinel between buffers that has changed, or poison outside all buffers
// that has, was written past an end.
#pragma once

#include <vector>

#include "tensor/view.h"

namespace longhaul {

class Arena {
 public:
  static constexpr Index kAlignment = 64;  // bytes: a cache line, and the widest vector
  static constexpr Index align_up(Index size) noexcept { return (size + kAlignment - 1) / kAlignment * kAlignment; }
  static constexpr Index kSentinelBytes = 64;
  static constexpr std::byte kPoison{0xff};  // NaN as fp64, fp32 and bf16, -1 as an integer

  Arena() = default;
  // Reserves size bytes of zeros in one piece, aligned to kAlignment at least; the system supplies a page when it is
  // first touched, near the thread that touches it. huge_pages asks for 2 MiB pages where the system has them.
  // Throws run_error when the system refuses.
  explicit Arena(Index size, bool huge_pages = false);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  Index size() const noexcept { return size_; }

  // The bytes [offset, offset + size). The offset is a multiple of kAlignment, and the range lies in the arena.
  Bytes at(Index offset, Index size) const;

  // ---- for debug runs ---------------------------------------------------------------------------------------------

  // Fills [offset, offset + size) with kPoison: before a lifetime, and after it.
  void poison(Index offset, Index size) const;

  // The first line of kAlignment bytes of [offset, offset + size), as an offset into the arena, that is poison
  // throughout; -1 when a write has reached every line. The last line may be short. A program that writes nothing but
  // -1 or 0xff over a whole line cannot be told from one that writes nothing.
  Index first_untouched_line(Index offset, Index size) const;

  // The first byte of [offset, offset + size), as an offset into the arena, that is not poison; -1 when there is none.
  Index first_written_byte(Index offset, Index size) const;

  // Writes a sentinel of kSentinelBytes at an offset that the plan left free; its content differs from offset to
  // offset.
  void place_sentinel(Index offset);
  void remove_sentinels() noexcept { sentinels_.clear(); }

  // The offset of the first sentinel that is no longer whole; -1 when all are.
  Index first_broken_sentinel() const;

 private:
  void release() noexcept;
  std::byte* range(Index offset, Index size) const;

  void* mapping_ = nullptr;
  Index mapped_ = 0;  // bytes from mapping_, which may begin before data_
  std::byte* data_ = nullptr;
  Index size_ = 0;
  std::vector<Index> sentinels_;
};

}  // namespace longhaul
