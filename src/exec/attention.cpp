// Runs the program of one attention, step by step, on this rank.
#include "exec/attention.h"

#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include "base/error.h"

namespace longhaul::exec {
namespace {

using strategy::Op;
using strategy::Payload;
using strategy::Program;
using strategy::Slot;
using strategy::Step;
using strategy::Tensor;

enum class Direction : std::uint8_t { kForward, kBackward };

constexpr Index kSlotAlignment = 64;  // bytes: a cache line, and the widest vector
constexpr Index align_up(Index bytes) noexcept {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}
Index slot_bytes_of(const Program& program) noexcept {
  Index n = 0;
  for (const Slot& s : program.slots) n += align_up(s.bytes);
  return n;
}

// Tensors of a payload that have one number a row and head are matrices at home.
AnyView<3> with_width_one(const AnyView<2>& a) noexcept {
  AnyView<3> v;
  v.data = a.data, v.dtype = a.dtype, v.space = a.space;
  v.extent[0] = a.extent[0], v.extent[1] = a.extent[1], v.extent[2] = 1;
  v.stride[0] = a.stride[0], v.stride[1] = a.stride[1], v.stride[2] = 1;
  return v;
}
AnyView<2> without_width(const AnyView<3>& a) {
  CHECK(a.extent[2] == 1, "%ld numbers a row and head", a.extent[2]);
  AnyView<2> v;
  v.data = a.data, v.dtype = a.dtype, v.space = a.space;
  v.extent[0] = a.extent[0], v.extent[1] = a.extent[1], v.stride[0] = a.stride[0], v.stride[1] = a.stride[1];
  return v;
}

// Equal for the two ends of a message; no two messages of one program between two ranks are equal.
std::uint64_t tag_of(Direction direction, const Payload& p) noexcept {
  std::uint64_t tag = static_cast<std::uint64_t>(direction);
  tag = tag << 8 | static_cast<std::uint64_t>(p.tensor);
  tag = tag << 16 | static_cast<std::uint16_t>(p.owner);
  tag = tag << 16 | static_cast<std::uint16_t>(p.chunk);
  return tag << 16 | static_cast<std::uint16_t>(p.heads.begin);
}

// The events and slot offsets of a program, on the stack: nothing is allocated while a schedule runs. Only what the
// program uses is touched.
template <class T, std::size_t kMost>
class StackArray {
 public:
  StackArray(std::size_t count, const char* what) : count_(count) {
    CHECK(count <= kMost, "%zu %s in one program", count, what);
    std::uninitialized_value_construct_n(data(), count);
  }
  T& operator[](Index i) {
    CHECK(0 <= i && static_cast<std::size_t>(i) < count_, "%ld of %zu", i, count_);
    return data()[i];
  }

 private:
  T* data() noexcept { return reinterpret_cast<T*>(memory_); }
  std::size_t count_;
  alignas(T) std::byte memory_[kMost * sizeof(T)];
};

class Run {
 public:
  Run(const AttentionContext& context, const AttentionParams& params, const AttentionTensors& tensors,
      Direction direction)
      : context_(context),
        params_(params),
        tensors_(tensors),
        direction_(direction),
        program_(direction == Direction::kForward ? context.schedule.forward : context.schedule.backward),
        rank_(context.context.rank()),
        storage_(tensors.q_TND.dtype),
        events_(static_cast<std::size_t>(program_.events), "events"),
        offsets_(program_.slots.size(), "slots") {
    CHECK(size_of(storage_) == context.shapes.element_bytes, "%s and %d bytes an element", name_of(storage_),
          context.shapes.element_bytes);
    CHECK(slot_bytes_of(program_) <= context.slots.size, "slots have %ld bytes", context.slots.size);
    Index offset = 0;
    for (std::size_t i = 0; i < program_.slots.size(); ++i)
      offsets_[static_cast<Index>(i)] = offset, offset += align_up(program_.slots[i].bytes);
  }

  void run() {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) run_step(program_.steps[i], i);
    CHECK(under_way_ == 0, "%d messages are under way at the end of the program", under_way_);
  }

 private:
  void run_step(const Step& step, std::size_t number);
  void wait(const Step& step, std::size_t number);
  void attend(const Step& step);
  void finish(const Step& step);
  template <class Op>
  void in_batches(Index tiles, Op&& op);

  DType dtype_of(Tensor tensor) const noexcept {
    const bool stored = tensor == Tensor::kQ || tensor == Tensor::kK || tensor == Tensor::kV || tensor == Tensor::kO ||
                        tensor == Tensor::kDO;
    return stored ? storage_ : accumulator_of(storage_);
  }
  AnyView<3> home(Tensor tensor) const;
  AnyView<3> view(const Payload& payload);
  // An operand of kAttend or kFinish: the rows and heads of `like`, where the step says the tensor lies.
  AnyView<3> operand(const Step& step, Tensor tensor, const Payload& like) {
    Payload p = like;
    p.tensor = tensor, p.slot = step.at[static_cast<std::size_t>(tensor)];
    return view(p);
  }
  std::span<const Token> tokens(const Payload& p) const {
    const std::span<const Token> all = context_.tokens[p.owner];
    if (p.chunk == strategy::kAllChunks) return all;
    const strategy::Chunk c = context_.layout.chunk(p.owner, p.chunk);
    return all.subspan(static_cast<std::size_t>(c.offset), static_cast<std::size_t>(c.count));
  }
  comm::Message message(const Step& step) {
    return {step.peer, tag_of(direction_, step.what), view(step.what).bytes(), comm::Traffic::kPayload};
  }

  const AttentionContext& context_;
  const AttentionParams& params_;
  const AttentionTensors& tensors_;
  const Direction direction_;
  const Program& program_;
  const int rank_;
  const DType storage_;
  int under_way_ = 0;
  StackArray<Event, 1 << 15> events_;
  StackArray<Index, 1 << 14> offsets_;
};

AnyView<3> Run::home(Tensor tensor) const {
  const AttentionTensors& t = tensors_;
  switch (tensor) {
    case Tensor::kQ:
      return t.q_TND;
    case Tensor::kK:
      return t.k_TGD;
    case Tensor::kV:
      return t.v_TGV;
    case Tensor::kO:
      return t.o_TNV;
    case Tensor::kDO:
      return t.do_TNV;
    case Tensor::kM:
      return with_width_one(t.m_TN);
    case Tensor::kL:
      return with_width_one(t.l_TN);
    case Tensor::kDelta:
      return with_width_one(t.delta_TN);
    case Tensor::kDQ:
      return t.dq_TND;
    case Tensor::kDK:
      return t.dk_TGD;
    case Tensor::kDV:
      return t.dv_TGV;
    case Tensor::kOPartial:
      break;
  }
  CHECK(false, "tensor %d has no home", static_cast<int>(tensor));
}

AnyView<3> Run::view(const Payload& p) {
  const Index rows = context_.layout.rows(p.owner), heads = p.heads.count(),
              width = width_of(p.tensor, context_.shapes);
  AnyView<3> v;
  if (p.slot == strategy::kHome) {
    CHECK(p.owner == rank_, "rows of rank %d are not at home on rank %d", p.owner, rank_);
    v = home(p.tensor);
    CHECK(v.dtype == dtype_of(p.tensor) && v.extent[0] == rows && v.extent[2] == width,
          "%s at home is %s with %ld rows of width %ld, not %s with %ld of %ld", name_of(p.tensor), name_of(v.dtype),
          v.extent[0], v.extent[2], name_of(dtype_of(p.tensor)), rows, width);
    v = v.slice(1, p.heads.begin, heads);
  } else {
    CHECK(0 <= p.slot && static_cast<std::size_t>(p.slot) < program_.slots.size(), "slot %d", p.slot);
    const Slot& slot = program_.slots[static_cast<std::size_t>(p.slot)];
    const DType type = dtype_of(p.tensor);
    CHECK(rows * heads * width * size_of(type) <= slot.bytes, "slot %d of %ld bytes for %ld rows of %ld heads", p.slot,
          slot.bytes, rows, heads);
    v = make_view<3>(context_.slots.data + offsets_[p.slot], type, {rows, heads, width}, context_.slots.space);
  }
  if (p.chunk == strategy::kAllChunks) return v;
  const strategy::Chunk c = context_.layout.chunk(p.owner, p.chunk);
  return v.slice(0, c.offset, c.count);
}

void Run::run_step(const Step& step, std::size_t number) {
  Queue& queue = context_.queue;
  const Ops& ops = context_.ops;
  switch (step.op) {
    case Op::kStartSend:
      events_[step.event] = context_.context.start_send(queue, message(step)), ++under_way_;
      return;
    case Op::kStartReceive:
      events_[step.event] = context_.context.start_receive(queue, message(step)), ++under_way_;
      return;
    case Op::kWait:
      return wait(step, number);
    case Op::kCopy:
      return ops.copy(queue, view(step.other), view(step.what));
    case Op::kZero:
      return ops.fill(queue, view(step.what),
                      step.what.tensor == Tensor::kM ? -std::numeric_limits<double>::infinity() : 0.0);
    case Op::kAdd:
      return ops.add(queue, join_heads(view(step.other)), join_heads(view(step.what)));
    case Op::kAttend:
      return attend(step);
    case Op::kFinish:
      return finish(step);
  }
}

void Run::wait(const Step& step, std::size_t number) {
  try {
    context_.context.wait(context_.queue, events_[step.event]);
  } catch (const Error& e) {
    for (const Step& s : program_.steps)  // the start says more than the wait
      if (s.event == step.event && s.op != Op::kWait)
        throw Error(e.kind,
                    fmt::format("{} (step {} of the {} attention: waits for {})", e.what(), number,
                                direction_ == Direction::kForward ? "forward" : "backward", strategy::describe(s)),
                    e.where, e.hint);
    throw;
  }
  --under_way_;
}

// Lets messages progress between batches of tiles; the bits do not depend on the cut.
template <class Op>
void Run::in_batches(Index tiles, Op&& op) {
  constexpr Index kBatches = 16, kTilesPerThread = 4;
  const Index least = kTilesPerThread * context_.queue.team().threads;
  const Index batch = under_way_ == 0 ? tiles : std::max(least, (tiles + kBatches - 1) / kBatches);
  for (Index begin = 0; begin < tiles; begin += batch) {
    op(begin, std::min(begin + batch, tiles));
    if (under_way_ > 0) context_.context.progress();
  }
}

void Run::attend(const Step& step) {
  const Payload &q = step.what, &k = step.other;
  const auto at_q = [&](Tensor t) { return operand(step, t, q); };
  const auto at_k = [&](Tensor t) { return operand(step, t, k); };
  const std::span<const Token> q_tokens = tokens(q), k_tokens = tokens(k);
  if (q_tokens.empty() || k_tokens.empty()) return;
  const strategy::Shapes& s = context_.shapes;
  const AttentionShape shape{
      storage_, std::ssize(q_tokens), std::ssize(k_tokens), q.heads.count(), k.heads.count(), s.d_qk, s.d_v};
  const Index q_head0 = q.heads.begin, kv_head0 = k.heads.begin, group = s.q_heads / s.kv_heads;
  const AttentionVariant& variant = context_.variant;
  CHECK(variant.scratch_bytes(shape, context_.queue.team().threads) <= context_.scratch.size, "%ld bytes of scratch",
        context_.scratch.size);
  if (direction_ == Direction::kForward) {
    const AttentionForward a{params_,
                             q_head0,
                             kv_head0,
                             group,
                             at_q(Tensor::kQ),
                             at_k(Tensor::kK),
                             at_k(Tensor::kV),
                             q_tokens,
                             k_tokens,
                             at_q(Tensor::kOPartial),
                             without_width(at_q(Tensor::kM)),
                             without_width(at_q(Tensor::kL))};
    in_batches(variant.forward_tiles(shape),
               [&](Index begin, Index end) { variant.forward(context_.queue, a, begin, end, context_.scratch); });
  } else {
    const AttentionBackward a{params_,
                              q_head0,
                              kv_head0,
                              group,
                              at_q(Tensor::kQ),
                              at_k(Tensor::kK),
                              at_k(Tensor::kV),
                              q_tokens,
                              k_tokens,
                              at_q(Tensor::kDO),
                              without_width(at_q(Tensor::kM)),
                              without_width(at_q(Tensor::kL)),
                              without_width(at_q(Tensor::kDelta)),
                              at_q(Tensor::kDQ),
                              at_k(Tensor::kDK),
                              at_k(Tensor::kDV)};
    in_batches(variant.backward_tiles(shape),
               [&](Index begin, Index end) { variant.backward(context_.queue, a, begin, end, context_.scratch); });
  }
}

void Run::finish(const Step& step) {
  const Payload& o = step.what;
  AttentionFinish a{operand(step, Tensor::kOPartial, o), without_width(operand(step, Tensor::kM, o)),
                    without_width(operand(step, Tensor::kL, o)), tensors_.sinks_N, view(o)};
  if (a.sinks_N) a.sinks_N = a.sinks_N.slice(0, o.heads.begin, o.heads.count());
  context_.ops.attention_finish(context_.queue, a);
}

}  // namespace

Index slot_bytes(const strategy::Schedule& schedule) noexcept {
  return std::max(slot_bytes_of(schedule.forward), slot_bytes_of(schedule.backward));
}

void attention_forward(const AttentionContext& context, const AttentionParams& params,
                       const AttentionTensors& tensors) {
  Run(context, params, tensors, Direction::kForward).run();
}

void attention_backward(const AttentionContext& context, const AttentionParams& params,
                        const AttentionTensors& tensors) {
  const Ops& ops = context.ops;
  ops.attention_delta(context.queue, {tensors.o_TNV, tensors.do_TNV, tensors.delta_TN});
  Run(context, params, tensors, Direction::kBackward).run();
  if (tensors.dsinks_N)
    ops.attention_sink_gradient(context.queue, {tensors.sinks_N, context.tokens[context.context.rank()], tensors.m_TN,
                                                tensors.l_TN, tensors.delta_TN, tensors.dsinks_N});
}

}  // namespace longhaul::exec
