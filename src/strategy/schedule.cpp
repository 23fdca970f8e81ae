// What a schedule says of itself: names, sizes, its hash, its text.
#include "strategy/schedule.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace longhaul::strategy {
namespace {

std::string place(std::int16_t slot) {
  return slot == kHome ? "at home" : fmt::format("in slot {}", slot);
}

std::string contents(const Payload& p) {
  const std::string chunk = p.chunk == kAllChunks ? "" : fmt::format(" chunk {}", p.chunk);
  return fmt::format("{} of rank {}{} {}", name_of(p.tensor), p.owner, chunk, describe(p.heads));
}

std::string operands(const Step& step) {
  std::string text;
  for (std::size_t t = 0; t < kTensors; ++t)
    if (step.at[t] != kHome) text += fmt::format(" {}:{}", name_of(static_cast<Tensor>(t)), step.at[t]);
  return text.empty() ? ", all at home" : ", in slots" + text;
}

std::uint64_t hash_of(const Program& program, std::uint64_t hash) noexcept {
  // Field by field: the bytes of a struct include its padding.
  for (const Step& s : program.steps) {
    std::array<std::int32_t, 17 + kTensors> fields{static_cast<int>(s.op), static_cast<int>(s.axis), s.peer, s.event,
                                                   s.collective};
    std::size_t n = 5;
    for (const Payload* p : {&s.what, &s.other})
      for (const int field : {static_cast<int>(p->tensor), static_cast<int>(p->owner), static_cast<int>(p->chunk),
                              static_cast<int>(p->slot), p->heads.begin, p->heads.end})
        fields[n++] = field;
    for (const std::int16_t slot : s.at) fields[n++] = slot;
    hash = hash64_of(std::span<const std::int32_t>(fields), hash);
  }
  for (const Slot& s : program.slots) {
    const std::array<Index, 4> fields{static_cast<Index>(s.tensor), s.rows, s.heads, s.bytes};
    hash = hash64_of(std::span<const Index>(fields), hash);
  }
  return hash;
}

}  // namespace

const char* name_of(Tensor tensor) noexcept {
  constexpr std::array<const char*, kTensors> kNames{"Q", "K", "V",     "O",  "dO", "partial O",
                                                     "m", "l", "delta", "dQ", "dK", "dV"};
  return kNames[static_cast<std::size_t>(tensor)];
}

int width_of(Tensor tensor, const Shapes& shapes) noexcept {
  switch (tensor) {
    case Tensor::kQ:
    case Tensor::kK:
    case Tensor::kDQ:
    case Tensor::kDK:
      return shapes.d_qk;
    case Tensor::kM:
    case Tensor::kL:
    case Tensor::kDelta:
      return 1;
    default:
      return shapes.d_v;
  }
}

int element_bytes_of(Tensor tensor, const Shapes& shapes) noexcept {
  const bool stored = tensor == Tensor::kQ || tensor == Tensor::kK || tensor == Tensor::kV || tensor == Tensor::kO ||
                      tensor == Tensor::kDO;
  return stored ? shapes.element_bytes : shapes.partial_bytes;
}

HeadRange all_heads(Tensor tensor, const Shapes& shapes) noexcept {
  return {0, has_query_heads(tensor) ? shapes.q_heads : shapes.kv_heads};
}

Index rows_of(const Payload& payload, const Layout& layout) {
  return payload.chunk == kAllChunks ? layout.rows(payload.owner) : layout.chunk(payload.owner, payload.chunk).count;
}

Index bytes_of(const Payload& payload, const Layout& layout, const Shapes& shapes) {
  return rows_of(payload, layout) * payload.heads.count() * width_of(payload.tensor, shapes) *
         element_bytes_of(payload.tensor, shapes);
}

std::uint64_t hash_of(const Schedule& schedule) noexcept {
  return hash_of(schedule.backward, hash_of(schedule.forward, 0));
}

std::string describe(const HeadRange& heads) {
  return heads.count() == 1 ? fmt::format("head {}", heads.begin)
                            : fmt::format("heads {}-{}", heads.begin, heads.end - 1);
}

std::string describe(const Payload& payload) {
  return contents(payload) + " " + place(payload.slot);
}

std::string describe(const Step& step) {
  const auto tail = [&] {
    const std::string collective = step.collective != 0 ? fmt::format(", collective {}", step.collective) : "";
    return fmt::format(" ({}, event {}{})", step.axis == Axis::kRing ? "ring" : "ulysses", step.event, collective);
  };
  switch (step.op) {
    case Op::kStartSend:
      return fmt::format("send {} to rank {}{}", describe(step.what), step.peer, tail());
    case Op::kStartReceive:
      return fmt::format("receive {} from rank {}{}", describe(step.what), step.peer, tail());
    case Op::kWait:
      return fmt::format("wait{}", tail());
    case Op::kCopy:
      return fmt::format("copy {} from {}", describe(step.what), describe(step.other));
    case Op::kZero:
      return fmt::format("zero {}", describe(step.what));
    case Op::kAdd:
      return fmt::format("add to {} the {}", describe(step.what), describe(step.other));
    case Op::kAttend:
      return fmt::format("attend {} to {}{}", contents(step.what), contents(step.other), operands(step));
    case Op::kFinish:
      return fmt::format("finish {}{}", describe(step.what), operands(step));
  }
  return "unknown step";
}

}  // namespace longhaul::strategy
