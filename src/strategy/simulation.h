// The programs of all ranks run on symbols. Internal to the checker.
#pragma once

#include "strategy/checker.h"
#include "strategy/contents.h"

namespace longhaul::strategy {

// A message that was started and has not met its other side.
struct Post {
  int rank = 0, peer = 0;
  std::size_t step = 0;
  bool is_send = false;
  bool in_place = false;  // its payload is whole (a send) or has room (a receive)
};

// The programs of all ranks, forward or backward: runs them with unbuffered sends on symbols, then says what is wrong.
// Messages are matched by name, so every order of running the ranks comes to the same end.
class Simulation {
 public:
  Simulation(const std::vector<const Program*>& programs, const Request& request, bool backward, Findings& findings);
  void run();

 private:
  enum class EventState : std::uint8_t { kUnused, kStarted, kThrough, kWaited };
  struct Rank {
    std::size_t next = 0;  // step
    std::vector<EventState> events;
    std::vector<std::size_t> started_at;  // step that started each event
    std::vector<bool> in_place;           // as of its post
  };

  const Step& step_at(int rank, std::size_t index) const {
    return programs_[static_cast<std::size_t>(rank)]->steps[index];
  }
  Contents& contents(int rank) { return contents_[static_cast<std::size_t>(rank)]; }
  void report(std::string text);
  void report_at(int rank, std::size_t step, const std::string& text);
  std::string where(int rank, std::size_t step) const;

  // Running, in simulation.cpp.
  bool advance(int rank);  // runs it until it waits; whether it moved
  using Problem = std::optional<std::string>;
  Problem execute(int rank, std::size_t index, const Step& step);
  Problem start(int rank, std::size_t index, const Step& step);
  void meet(const Post& send, const Post& receive);
  void end_wait(int rank, std::int32_t event);
  Problem zero(Contents& here, const Payload& what);
  Problem combine(Contents& here, const Step& step);
  Problem attend(Contents& here, const Step& step);
  Problem take_in(Contents& here, const Payload& what, bool query_side, const Step& step);
  Problem finish(Contents& here, const Step& step);

  // Judging, in checker.cpp.
  void check_slots();
  void check_ends();
  void check_tiles();
  void check_home(int rank);
  std::vector<bool> needed(Tensor tensor, int owner, int chunk) const;

  int piece(int rank, int chunk) const { return rank * chunks_ + chunk; }
  int group() const { return request_.shapes.q_heads / request_.shapes.kv_heads; }
  bool tile_visible(int q_piece, int k_piece) const {
    return (*request_.visible)(q_piece / chunks_, q_piece % chunks_, k_piece / chunks_, k_piece % chunks_);
  }

  const std::vector<const Program*>& programs_;
  const Request& request_;
  const bool backward_;
  Findings& findings_;
  const int ranks_, chunks_, pieces_;
  std::vector<Rank> state_;
  std::vector<Contents> contents_;
  std::vector<Post> posts_;
  std::vector<std::uint8_t> attended_;  // times, by query piece, key piece, query head
  std::vector<std::uint8_t> finished_;  // times, by query piece, head
};

}  // namespace longhaul::strategy
