// Runs a schedule: the one place where schedule, op and message meet.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "contract/ops.h"
#include "strategy/schedule.h"

namespace longhaul::exec {

// All that is the same for every attention of a sequence. Spans and references outlive the calls.
struct AttentionContext {
  Queue& queue;
  const Ops& ops;
  const AttentionVariant& variant;
  comm::Group& context;                // the ranks that share the sequence; rank r of it is context rank r
  const strategy::Schedule& schedule;  // this rank's
  const strategy::Layout& layout;
  std::span<const std::vector<Token>> tokens;  // by context rank, in storage order
  strategy::Shapes shapes;
  Bytes slots;    // at least slot_bytes() of the schedule
  Bytes scratch;  // at least the variant's scratch_bytes of the largest chunk pair
};

// Bytes of the slots of a schedule: forward and backward share them, each slot 64-byte aligned.
Index slot_bytes(const strategy::Schedule& schedule) noexcept;

// This rank's own rows, all heads. Accumulator type: m, l, sinks, delta, dq, dk, dv, dsinks.
struct AttentionTensors {
  AnyView<3> q_TND, k_TGD, v_TGV;
  AnyView<1> sinks_N;                 // may be null
  AnyView<3> o_TNV;                   // forward: out
  AnyView<2> m_TN, l_TN;              // forward: out, the final statistic
  AnyView<3> do_TNV;                  // backward: in
  AnyView<2> delta_TN;                // backward: scratch
  AnyView<3> dq_TND, dk_TGD, dv_TGV;  // backward: out (overwritten)
  AnyView<1> dsinks_N;                // backward: added to; may be null
};
void attention_forward(const AttentionContext&, const AttentionParams&, const AttentionTensors&);
void attention_backward(const AttentionContext&, const AttentionParams&, const AttentionTensors&);

}  // namespace longhaul::exec
