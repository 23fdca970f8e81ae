// Cuts one attention into shards, runs it on every rank and puts the results together.
#include "train/attend.h"

#include <algorithm>

#include "base/clock.h"
#include "comm/comm.h"
#include "exec/attention.h"
#include "exec/reduce.h"
#include "tensor/arena.h"

namespace longhaul::train {
namespace {

// Calls f(T{}) with the element type that `type` names.
template <class F>
void with_type(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(bf16(0.0f));
    case DType::kF64:
      return f(double{});
    default:
      CHECK(false, "%s is no type of attention", name_of(type));
  }
}

// Rows of a rank, from and to the order of the sequence. `columns` values a row, contiguous on both sides.
void take_rows(const strategy::Layout& layout, int rank, const std::vector<float>& from, Index columns,
               const AnyView<3>& to) {
  with_type(to.dtype, [&]<class T>(T) {
    T* out = static_cast<T*>(to.data);
    for (Index i = 0; i < to.extent[0]; ++i) {
      const float* in = from.data() + layout.row(rank, i) * columns;
      for (Index j = 0; j < columns; ++j) out[i * columns + j] = static_cast<T>(in[j]);
    }
  });
}
template <int R>
void put_rows(const strategy::Layout& layout, int rank, const AnyView<R>& from, std::vector<double>& to) {
  Index columns = 1;
  for (int d = 1; d < R; ++d) columns *= from.extent[d];
  with_type(from.dtype, [&]<class T>(T) {
    const T* in = static_cast<const T*>(from.data);
    for (Index i = 0; i < from.extent[0]; ++i) {
      double* out = to.data() + layout.row(rank, i) * columns;
      for (Index j = 0; j < columns; ++j) out[j] = static_cast<double>(in[i * columns + j]);
    }
  });
}

// Memory of one rank: tensors of its rows, slots, scratch.
class RankMemory {
 public:
  RankMemory(const AttentionCase& c, const AttentionSetup& setup, Index rows, Index slots, Index scratch) {
    const DType s = setup.storage, a = accumulator_of(s);
    const Index N = c.q_heads, G = c.kv_heads, D = c.d_qk, V = c.d_v;
    // Twice the same walk: the first finds the size, the second places.
    for (bool place : {false, true}) {
      if (place) arena_ = Arena(offset_);
      offset_ = 0;
      const auto view3 = [&](AnyView<3>& v, DType type, Index heads, Index width) {
        v = make_view<3>(take(place, rows * heads * width * size_of(type)).data, type, {rows, heads, width});
      };
      const auto view2 = [&](AnyView<2>& v) {
        v = make_view<2>(take(place, rows * N * size_of(a)).data, a, {rows, N});
      };
      const auto view1 = [&](AnyView<1>& v) { v = make_view<1>(take(place, N * size_of(a)).data, a, {N}); };
      view3(t.q_TND, s, N, D), view3(t.k_TGD, s, G, D), view3(t.v_TGV, s, G, V), view3(t.do_TNV, s, N, V);
      if (!c.sinks.empty()) view1(t.sinks_N), view1(t.dsinks_N);
      first_written_ = offset_;
      view3(t.o_TNV, s, N, V), view2(t.m_TN), view2(t.l_TN);
      first_of_backward_ = offset_;
      view2(t.delta_TN), view3(t.dq_TND, a, N, D), view3(t.dk_TGD, a, G, D), view3(t.dv_TGV, a, G, V);
      this->slots = take(place, slots);
      this->scratch = take(place, std::max(scratch, exec::sum_scratch_bytes(N, a, setup.ranks)));
    }
  }
  void poison_before_forward() const { arena_.poison(first_written_, offset_ - first_written_); }
  void poison_before_backward() const { arena_.poison(first_of_backward_, offset_ - first_of_backward_); }

  exec::AttentionTensors t;
  Bytes slots, scratch;

 private:
  Bytes take(bool place, Index size) {
    const Index at = offset_;
    offset_ = Arena::align_up(offset_ + std::max<Index>(size, 1));  // a view of no rows is not a null view
    return place ? arena_.at(at, size) : Bytes{};
  }
  Arena arena_;
  Index offset_ = 0, first_written_ = 0, first_of_backward_ = 0;
};

strategy::Shapes shapes_of(const AttentionCase& c, DType storage) {
  strategy::Shapes s;
  s.q_heads = c.q_heads, s.kv_heads = c.kv_heads, s.d_qk = c.d_qk, s.d_v = c.d_v;
  s.element_bytes = static_cast<int>(size_of(storage));
  s.partial_bytes = static_cast<int>(size_of(accumulator_of(storage)));
  return s;
}

void take_sinks(const std::vector<float>& sinks, const exec::AttentionTensors& t) {
  with_type(t.sinks_N.dtype, [&]<class T>(T) {
    for (std::size_t n = 0; n < sinks.size(); ++n) {
      static_cast<T*>(t.sinks_N.data)[n] = static_cast<T>(sinks[n]);
      static_cast<T*>(t.dsinks_N.data)[n] = static_cast<T>(0.0f);
    }
  });
}

// Ranks write different rows.
void put_results(const strategy::Layout& layout, int rank, const exec::AttentionTensors& t, bool gradients,
                 AttentionResult& result) {
  put_rows(layout, rank, t.o_TNV, result.o);
  with_type(t.m_TN.dtype, [&]<class T>(T) {
    const auto m = t.m_TN.as<T>(), l = t.l_TN.as<T>();
    for (Index i = 0; i < m.extent[0]; ++i)
      for (Index n = 0; n < m.extent[1]; ++n)
        result.lse[static_cast<std::size_t>(layout.row(rank, i) * m.extent[1] + n)] =
            static_cast<double>(m(i, n)) + static_cast<double>(l(i, n));
    for (std::size_t n = 0; rank == 0 && n < result.dsinks.size(); ++n)
      result.dsinks[n] = static_cast<double>(static_cast<const T*>(t.dsinks_N.data)[n]);
  });
  if (!gradients) return;
  put_rows(layout, rank, t.dq_TND, result.dq);
  put_rows(layout, rank, t.dk_TGD, result.dk);
  put_rows(layout, rank, t.dv_TGV, result.dv);
}

// What all ranks know of a sequence, and only read.
struct Sequence {
  Sequence(const AttentionCase& c, const AttentionSetup& setup) : layout{setup.layout, c.rows, setup.ranks} {
    std::vector<Token> in_row_order(static_cast<std::size_t>(c.rows));
    make_tokens(c.documents, {}, in_row_order);
    strategy::shard_tokens(layout, in_row_order, tokens);
    visible.rebuild(layout, c.params.mask, tokens);
  }
  strategy::Layout layout;
  std::vector<std::vector<Token>> tokens;  // by rank
  strategy::Visibility visible;
};

void run_rank(const AttentionCase& c, const AttentionSetup& setup, const Sequence& sequence, comm::World& world,
              AttentionResult& result) {
  const int rank = world.rank();
  comm::Group& group = world.all();
  CpuQueue queue(setup.threads);
  const strategy::Layout& layout = sequence.layout;
  const strategy::Shapes shapes = shapes_of(c, setup.storage);
  strategy::Schedule schedule;
  setup.strategy->build({rank, setup.ranks, setup.ulysses, shapes, &layout, &sequence.visible}, schedule);

  const RankMemory memory(c, setup, layout.rows(rank), exec::slot_bytes(schedule),
                          setup.variant->scratch_bytes(largest_shape(c, setup), setup.threads));
  const exec::AttentionTensors& t = memory.t;
  take_rows(layout, rank, c.q, c.q_heads * c.d_qk, t.q_TND);
  take_rows(layout, rank, c.k, c.kv_heads * c.d_qk, t.k_TGD);
  take_rows(layout, rank, c.v, c.kv_heads * c.d_v, t.v_TGV);
  if (!c.d_o.empty()) take_rows(layout, rank, c.d_o, c.q_heads * c.d_v, t.do_TNV);
  const exec::AttentionContext context{queue,  *setup.ops,      *setup.variant, group,        schedule,
                                       layout, sequence.tokens, shapes,         memory.slots, memory.scratch};

  const auto sent = [&] { return group.bytes_sent(comm::Traffic::kPayload); };
  const bool gradients = !c.d_o.empty();
  for (int i = 0; i < setup.repeats; ++i) {
    if (setup.poison) memory.poison_before_forward();
    if (t.sinks_N) take_sinks(c.sinks, t);
    const double start = now_seconds();
    const Index at_start = sent();
    exec::attention_forward(context, c.params, t);
    const Index at_middle = sent();
    if (setup.poison) memory.poison_before_backward();
    if (gradients) exec::attention_backward(context, c.params, t);
    result.seconds[rank] = now_seconds() - start;
    result.forward_bytes[rank] = at_middle - at_start, result.backward_bytes[rank] = sent() - at_middle;
  }
  if (gradients && t.dsinks_N) exec::sum_over(queue, *setup.ops, group, t.dsinks_N, memory.scratch);
  put_results(layout, rank, t, gradients, result);
}

}  // namespace

AttentionShape largest_shape(const AttentionCase& c, const AttentionSetup& setup) {
  const strategy::Layout layout{setup.layout, c.rows, setup.ranks};
  Index rows = 0;
  for (int r = 0; r < setup.ranks; ++r)
    for (int i = 0; i < layout.chunks(); ++i) rows = std::max(rows, layout.chunk(r, i).count);
  return {setup.storage, rows, rows, c.q_heads, c.kv_heads, c.d_qk, c.d_v};
}

AttentionResult run_attention(const AttentionCase& c, const AttentionSetup& setup) {
  const auto elements = [&](Index heads, Index width) { return static_cast<std::size_t>(c.rows * heads * width); };
  AttentionResult result;
  result.o.resize(elements(c.q_heads, c.d_v)), result.lse.resize(elements(c.q_heads, 1));
  if (!c.d_o.empty()) {
    result.dq.resize(c.q.size()), result.dk.resize(c.k.size()), result.dv.resize(c.v.size());
    result.dsinks.resize(c.sinks.size());
  }
  const std::size_t ranks = static_cast<std::size_t>(setup.ranks);
  result.forward_bytes.resize(ranks), result.backward_bytes.resize(ranks), result.seconds.resize(ranks);
  const Sequence sequence(c, setup);
  comm::run_local(setup.ranks, setup.watchdog_seconds,
                  [&](comm::World& world) { run_rank(c, setup, sequence, world, result); });
  return result;
}

const strategy::StrategyEntry* choose_strategy(std::string_view wanted, const AttentionCase& c, int ranks,
                                               int ulysses) {
  if (wanted != "auto") return strategy::find_strategy(wanted);
  if (ranks == 1) return strategy::find_strategy("single");
  if (ulysses > 0) return strategy::find_strategy("usp");
  return strategy::find_strategy(c.kv_heads % ranks == 0 ? "ulysses" : "ring");
}

strategy::LayoutKind choose_layout(std::string_view strategy, const MaskSpec& mask) {
  const bool balances = strategy == "ring" || strategy == "usp" || strategy == "all_gather";
  const bool causal = mask.order == Order::kCausal && mask.window == 0 && mask.chunk == 0;
  return balances && causal ? strategy::LayoutKind::kZigzag : strategy::LayoutKind::kContiguous;
}

int choose_ulysses(const AttentionCase& c, int ranks) {
  for (int heads : {c.kv_heads, c.q_heads})
    for (int u = ranks - 1; u > 1; --u)
      if (ranks % u == 0 && heads % u == 0) return u;
  return 1;
}

}  // namespace longhaul::train
