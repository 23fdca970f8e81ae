// longhaul train: the main job.
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "cli/commands.h"
#include "train/loop.h"

namespace longhaul::cli {
namespace {

// The one thing that a signal handler may touch.
std::atomic<bool> g_stop{false};

// The first signal asks for a clean end after the step at hand; a second one ends the program at once.
void ask_to_stop(int signal) {
  constexpr std::string_view kHeard = "\nstopping after this step; once more ends at once\n";
  g_stop = true;
  if (isatty(STDERR_FILENO) != 0) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, kHeard.data(), kHeard.size());
  std::signal(signal, SIG_DFL);
}

}  // namespace

int run_train(const spec::RunSpec& spec) {
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);
  train::train(spec, g_stop);
  return 0;
}

}  // namespace longhaul::cli
