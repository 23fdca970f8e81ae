// Binds the table of options to CLI11.
#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "spec/options.h"

namespace longhaul::cli {
namespace {

using spec::OptionKind;

constexpr std::uintmax_t kMostConfigBytes = 1 << 20;

std::string read_config(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) throw input_error("the configuration cannot be read", path, "give a TOML file after --config");
  if (bytes > kMostConfigBytes) throw input_error("the configuration is longer than 1 MiB", path, "give a TOML file");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The page of --help: how the command is called and what it does, then the options, then examples.
class Page : public CLI::Formatter {
 public:
  explicit Page(const Command& command) : command_(command) { column_width(34); }

  std::string make_usage(const CLI::App*, std::string) const override {
    return fmt::format("usage: longhaul {} [OPTION...]\n\n{}\n", command_.name, command_.summary);
  }
  std::string make_description(const CLI::App*) const override { return ""; }
  // One empty line between groups, not two.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }

 private:
  const Command& command_;
};

class Binding {
 public:
  explicit Binding(const Command& command)
      : command_(command), app_(command.summary, std::string("longhaul ") + command.name) {
    app_.allow_extras();
    app_.footer(std::string("Examples:\n") + command.examples);
    app_.formatter(std::make_shared<Page>(command));
    const std::uint32_t bit = spec::bit_of(command.name);
    CHECK(bit != 0, "%s is missing from the commands of spec/options.cpp", command.name);
    for (const spec::Option& o : spec::options())
      if ((o.commands & bit) != 0) add(o);
    config_ = app_.add_option(
                      "--config", [](const CLI::results_t&) { return true; },
                      "options from a TOML file, as `name = value`; flags win over it")
                  ->type_name("FILE")
                  ->group("General");
    assignment_ =
        app_.add_option(
                "--set", [](const CLI::results_t&) { return true; }, "one option by its name, such as lr=1e-3")
            ->type_name("KEY=VALUE")
            ->group("General");
    app_.set_help_flag("-h,--help", "this page")->group("General");
    for (CLI::Option* o : {config_, assignment_}) o->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  std::optional<spec::RunSpec> parse(std::span<const std::string> arguments) {
    if (!split(arguments)) return std::nullopt;
    spec::RunSpec result = spec::defaults_of(command_.name);
    if (!config_->empty()) {
      const std::string path = config_->results().back();
      spec::set_from_toml(result, read_config(path), path);
    }
    apply(result);
    return result;
  }

 private:
  void add(const spec::Option& o) {
    const std::string name = std::string("--") + o.name;
    CLI::Option* added = nullptr;
    if (o.kind == OptionKind::kFlag) {
      added = app_.add_flag(name, o.help);
    } else {
      added = app_.add_option(
          name, [](const CLI::results_t&) { return true; }, o.help);
      std::string kind = o.allowed;
      if (o.preset[0] != '\0') kind += fmt::format(" [{}]", o.preset);
      added->type_name(kind);
      if (o.kind == OptionKind::kList) added->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
    }
    if (o.kind != OptionKind::kList) added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    added->group(o.group);
    of_option_[added] = &o;
  }

  // False when help was printed.
  bool split(std::span<const std::string> arguments) {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
    try {
      app_.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
      fmt::print("{}", app_.help());
      return false;
    } catch (const CLI::ParseError& e) {
      std::string what = e.what();
      for (char& c : what)
        if (c == '\n') c = ' ';
      throw input_error(what, fmt::format("longhaul {}", command_.name),
                        fmt::format("`longhaul {} --help` lists the options", command_.name));
    }
    for (const std::string& extra : app_.remaining())
      if (extra.size() > 1 && extra[0] == '-') {
        const std::string name = extra.substr(std::min(extra.find_first_not_of('-'), extra.size()));
        spec::fail_unknown_option(command_.name, name.substr(0, name.find('=')), "on the command line");
      }
    if (!app_.remaining().empty())
      throw input_error(fmt::format("unexpected argument \"{}\"", app_.remaining()[0]), "on the command line",
                        fmt::format("`longhaul {} --help` lists the options", command_.name));
    return true;
  }

  // Flags and --set in the order in which they stand, so that the last one wins.
  void apply(spec::RunSpec& result) {
    std::map<const CLI::Option*, std::size_t> next;
    std::set<const CLI::Option*> listed;
    for (const CLI::Option* o : app_.parse_order()) {
      if (o == assignment_) {
        spec::set_assignment(result, o->results().at(next[o]++));
        continue;
      }
      const auto found = of_option_.find(o);
      if (found == of_option_.end()) continue;
      const spec::Option& option = *found->second;
      std::vector<std::string> values = o->results();
      if (option.kind == OptionKind::kList) {
        if (!listed.insert(o).second) continue;  // all of a list's values at once, at its first place
      } else {
        values = {values.at(next[o]++)};
      }
      spec::set_option(result, option.name, values, std::string("--") + option.name);
    }
  }

  const Command& command_;
  CLI::App app_;
  CLI::Option* config_ = nullptr;
  CLI::Option* assignment_ = nullptr;
  std::map<const CLI::Option*, const spec::Option*> of_option_;
};

}  // namespace

std::optional<spec::RunSpec> parse_arguments(const Command& command, std::span<const std::string> arguments) {
  return Binding(command).parse(arguments);
}

}  // namespace longhaul::cli
