// Moving bytes between ranks: start, and wait. No arithmetic happens here; every sum is done by exec.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensor/queue.h"
#include "tensor/view.h"

namespace longhaul::comm {

enum class Traffic : std::uint8_t { kPayload, kControl };  // counted apart

struct Message {
  int peer = 0;           // rank in the group
  std::uint64_t tag = 0;  // messages between two ranks with equal tags match in the order of their starts
  Bytes bytes;            // must stay as it is until the wait; both sides state the same size
  Traffic traffic = Traffic::kPayload;
};

// Some ranks that talk to each other. Made once, at start, in one global order. One thread a rank uses it.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  // Sends are unbuffered: an event of a send is past when the receiver has the bytes.
  virtual Event start_send(Queue&, const Message&) = 0;
  virtual Event start_receive(Queue&, const Message&) = 0;
  // Returns when the message is through. Throws a run error when another rank has failed, or after the watchdog's
  // time, naming peer, tag and bytes.
  virtual void wait(Queue&, Event) = 0;
  virtual void progress() = 0;
  virtual Index bytes_sent(Traffic) const noexcept = 0;
};

// What one rank has: its number, the group of all ranks, and more groups of its choosing.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual Group& all() noexcept = 0;
  // Ranks with the same color form a group, ordered by world rank. Every rank calls this, in the same order.
  virtual std::unique_ptr<Group> split(int color) = 0;
};

// Runs body(world) on `ranks` threads of this process and returns when all have ended. The first failure of any rank
// ends the waits of the others and is thrown here as a run error that names the rank and its cause (an input error
// stays one). A message that a rank starts and never waits for is a failure too. A wait that throws takes back all that
// its rank has under way; who throws by itself must not free the memory of messages before its groups are gone.
void run_local(int ranks, double watchdog_seconds, const std::function<void(World&)>& body);

}  // namespace longhaul::comm
