// Queue: where ops run. On the CPU an op has run when its call returns; on CUDA a queue is a stream.
// Event: a point in a queue's work, or the end of a message.
#pragma once

#include <memory>

#include "base/parallel.h"
#include "tensor/dtype.h"

namespace longhaul {

struct Event {  // CPU: already past. comm: the ticket of a message. CUDA: a cudaEvent_t in impl.
  void* impl = nullptr;
  std::uint64_t ticket = 0;
};

// What a kernel library keeps with a queue: cached primitives on the CPU, a cuBLASLt handle on CUDA.
struct LibraryState {
  virtual ~LibraryState() = default;
};

class Queue {
 public:
  virtual ~Queue() = default;
  virtual Space space() const noexcept = 0;
  virtual Event record() = 0;    // past when all work so far is done
  virtual void wait(Event) = 0;  // work after this waits for the event
  virtual const Team& team() const noexcept = 0;

  std::unique_ptr<LibraryState> library;  // made by the first op that needs it
};

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(int threads) : team_{threads} {}
  Space space() const noexcept override { return Space::kCpu; }
  Event record() override { return {}; }
  void wait(Event) override {}
  const Team& team() const noexcept override { return team_; }

 private:
  Team team_;
};

}  // namespace longhaul
