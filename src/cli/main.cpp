// The program: finds the command, fills its RunSpec, runs it, and turns failures into exit statuses.
#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/error.h"
#include "cli/arguments.h"
#include "spec/options.h"

namespace longhaul::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "trains a model; goes on where the run directory left off",
     "  longhaul train --model mini --data texts/ --context 8K --ranks 2 --minutes 4 --run runs/first\n"
     "  longhaul train --model tiny --data a.txt b.txt --context 4K --steps 100 --lr 1e-2",
     run_train},
    {"plan", "says what a training run will need and how long a step will take; runs nothing",
     "  longhaul plan --model llama3.1-8b --context 128K --ranks 8\n"
     "  longhaul plan --model mini --context 32K --ranks 2 --memory 2G --json",
     run_plan},
    {"attend", "runs one attention, forward and backward, over ranks, and writes its results",
     "  longhaul attend --in case.safetensors --out out.safetensors\n"
     "  longhaul attend --in case.safetensors --out out.safetensors --ranks 4 --strategy ring --layout zigzag",
     run_attend},
    {"probe", "writes logits, loss and every gradient of given tokens",
     "  longhaul probe --model DIR --tokens case.safetensors --out out.safetensors\n"
     "  longhaul probe --model DIR --tokens case.safetensors --out out.safetensors --ranks 4 --strategy ring",
     run_probe},
    {"eval", "held-out loss of a checkpoint, and loss by position in the context",
     "  longhaul eval --checkpoint runs/first --data texts/ --context 8K --ranks 2\n"
     "  longhaul eval --checkpoint runs/first/checkpoints/step_00000040 --data texts/ --json",
     run_eval},
    {"generate", "text from a checkpoint",
     "  longhaul generate --checkpoint runs/first --prompt \"#include <\" --length 200 --temperature 0.8",
     run_generate},
    {"inspect", "what a safetensors file, a model, a checkpoint or a run holds; verifies checkpoints",
     "  longhaul inspect --in runs/first\n"
     "  longhaul inspect --in model.safetensors --json",
     run_inspect},
};

void print_help() {
  fmt::print(
      "longhaul trains large language models on very long sequences.\n\nusage: longhaul COMMAND [OPTION...]\n\n");
  for (const Command& c : kCommands) fmt::print("  {:<10} {}\n", c.name, c.summary);
  fmt::print("\n`longhaul COMMAND --help` lists a command's options, with examples. `longhaul --version` prints {}.\n",
             kVersion);
}

const Command& find_command(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& c : kCommands) {
    if (c.name == name) return c;
    names.emplace_back(c.name);
  }
  const std::string guess = spec::nearest(name, names);
  throw input_error(
      fmt::format("there is no command \"{}\"", name), "on the command line",
      guess.empty() ? "`longhaul --help` lists the commands" : fmt::format("did you mean \"{}\"?", guess));
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1 && arguments[0] == "help") return dispatch({arguments[1], "--help"});
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("longhaul {}\n", kVersion);
    return 0;
  }
  const Command& command = find_command(arguments[0]);
  const auto spec = parse_arguments(command, std::span(arguments).subspan(1));
  return spec ? command.run(*spec) : 0;
}

int report(const Error& error) {
  std::fflush(stdout);
  std::fputs(describe(error).c_str(), stderr);
  return static_cast<int>(error.kind);
}

}  // namespace

std::span<const Command> commands() noexcept {
  return kCommands;
}

}  // namespace longhaul::cli

// libgomp decides when it is loaded how long an idle thread spins, and by default that is for ever: on cores that
// others use too a small step then takes seconds. A short spin, then sleep; what the user has set stays.
static void bound_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  ::execv("/proc/self/exe", argv);  // where that fails the program runs all the same
}

int main(int argc, char** argv) {
  using namespace longhaul;
  bound_spinning(argv);
  try {
    return cli::dispatch({argv + 1, argv + argc});
  } catch (const Error& e) {
    return cli::report(e);
  } catch (const std::bad_alloc&) {
    return cli::report(
        run_error("the memory that this needs is not there", "", "`longhaul plan` says how much a run needs"));
  } catch (const std::exception& e) {
    return cli::report(
        run_error(e.what(), "", "this is a mistake of the program; please report it with the command line"));
  }
}
