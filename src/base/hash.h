// Hashes of bytes (xxHash): 64 bits to compare schedules and batches, 128 bits for files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace longhaul {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

template <class T>
std::uint64_t hash64_of(std::span<const T> values, std::uint64_t seed = 0) noexcept {
  return hash64(std::as_bytes(values), seed);
}

// XXH3's 128-bit hash as 32 hexadecimal digits, fed piece by piece.
class FileHash {
 public:
  FileHash();
  ~FileHash();
  FileHash(const FileHash&) = delete;
  FileHash& operator=(const FileHash&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string digest() const;

 private:
  void* state_;
};

}  // namespace longhaul
