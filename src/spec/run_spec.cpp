// From text to RunSpec and back.
#include "spec/run_spec.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "spec/options.h"

namespace longhaul::spec {
namespace {

[[noreturn]] void fail_value(const Option& o, const std::string& text, const std::string& wanted,
                             const std::string& where) {
  std::string guess;
  if (o.kind == OptionKind::kChoice) {
    std::vector<std::string_view> words;
    for (std::string_view rest = o.allowed; !rest.empty();) {
      words.push_back(rest.substr(0, rest.find('|')));
      rest.remove_prefix(std::min(words.back().size() + 1, rest.size()));
    }
    guess = nearest(text, words);
  }
  throw input_error(
      fmt::format("{} is \"{}\", not {}", o.name, text, wanted), where,
      guess.empty() ? fmt::format("{} says: {}", o.name, o.help) : fmt::format("did you mean \"{}\"?", guess));
}

std::string range_of(const Option& o, const char* kind) {
  return fmt::format("{} in [{}, {}]", kind, o.least, o.most);
}

Index parse_integer(const Option& o, const std::string& text, const std::string& where) {
  const bool size = o.kind == OptionKind::kSize;
  const bool plain = !text.empty() && text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos;
  const auto value = size || plain ? parse_size(text) : std::nullopt;
  if (!value || static_cast<double>(*value) < o.least || static_cast<double>(*value) > o.most)
    fail_value(o, text, range_of(o, size ? "a size such as 4096, 16K or 1M" : "an integer"), where);
  return *value;
}

double parse_real(const Option& o, std::string_view text, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= o.least && value <= o.most))
    fail_value(o, std::string(text), range_of(o, "a number"), where);
  return value;
}

bool is_allowed(std::string_view allowed, std::string_view text) {
  for (std::size_t begin = 0; begin <= allowed.size();) {
    const std::size_t end = std::min(allowed.find('|', begin), allowed.size());
    if (allowed.substr(begin, end - begin) == text) return true;
    begin = end + 1;
  }
  return false;
}

bool parse_switch(const Option& o, const std::string& text, const std::string& where) {
  const bool on = text == "true" || text == "on", off = text == "false" || text == "off";
  if (!on && !off) fail_value(o, text, o.kind == OptionKind::kFlag ? "true or false" : "on or off", where);
  return on;
}

void assign(RunSpec& spec, const Option& o, std::span<const std::string> values, const std::string& where) {
  if (o.kind == OptionKind::kList) {
    spec.*std::get<std::vector<std::string> RunSpec::*>(o.field) = {values.begin(), values.end()};
    return;
  }
  if (values.size() != 1)
    throw input_error(fmt::format("{} takes one value, not {}", o.name, values.size()), where,
                      fmt::format("{}: {}", o.name, o.help));
  const std::string& text = values[0];
  switch (o.kind) {
    case OptionKind::kText:
    case OptionKind::kList:
      spec.*std::get<std::string RunSpec::*>(o.field) = text;
      break;
    case OptionKind::kChoice:
      if (!is_allowed(o.allowed, text)) fail_value(o, text, fmt::format("one of {}", o.allowed), where);
      spec.*std::get<std::string RunSpec::*>(o.field) = text;
      break;
    case OptionKind::kSwitch:
    case OptionKind::kFlag:
      spec.*std::get<bool RunSpec::*>(o.field) = parse_switch(o, text, where);
      break;
    case OptionKind::kInteger:
    case OptionKind::kSize:
      spec.*std::get<Index RunSpec::*>(o.field) = parse_integer(o, text, where);
      break;
    case OptionKind::kReal:
      spec.*std::get<double RunSpec::*>(o.field) = parse_real(o, text, where);
      break;
    case OptionKind::kPair: {
      const std::size_t comma = text.find(',');
      if (comma == std::string::npos) fail_value(o, text, "two numbers with a comma between them", where);
      const std::string_view both = text;
      spec.*std::get<std::array<double, 2> RunSpec::*>(o.field) = {parse_real(o, both.substr(0, comma), where),
                                                                   parse_real(o, both.substr(comma + 1), where)};
      break;
    }
  }
}

// A TOML value as the texts that a flag would have been given.
std::vector<std::string> texts_of(const toml::node& node, const std::string& name, const std::string& where) {
  if (const auto* s = node.as_string()) return {s->get()};
  if (const auto* i = node.as_integer()) return {fmt::format("{}", i->get())};
  if (const auto* x = node.as_floating_point()) return {fmt::format("{}", x->get())};
  if (const auto* b = node.as_boolean()) return {b->get() ? "true" : "false"};
  if (const auto* list = node.as_array()) {
    std::vector<std::string> all;
    for (const toml::node& one : *list)
      for (std::string& text : texts_of(one, name, where)) all.push_back(std::move(text));
    return all;
  }
  throw input_error(fmt::format("{} is a table or a date, not a value", name), where,
                    "write all options at the top level, as `name = value`");
}

std::string toml_text(const std::string& text) {
  return (std::ostringstream() << toml::value<std::string>(text)).str();
}

std::string toml_value(const RunSpec& spec, const Option& o) {
  return std::visit(
      [&](auto field) -> std::string {
        const auto& value = spec.*field;
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return toml_text(value);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::string all;
          for (const std::string& one : value) all += (all.empty() ? "" : ", ") + toml_text(one);
          return "[" + all + "]";
        } else if constexpr (std::is_same_v<T, bool>) {
          return o.kind == OptionKind::kFlag ? (value ? "true" : "false") : (value ? "\"on\"" : "\"off\"");
        } else if constexpr (std::is_same_v<T, Index>) {
          return fmt::format("{}", value);
        } else if constexpr (std::is_same_v<T, double>) {
          return fmt::format("{}", value);
        } else {
          return fmt::format("[{}, {}]", value[0], value[1]);
        }
      },
      o.field);
}

bool is_unset(const RunSpec& spec, const Option& o) {
  static const RunSpec kUnset;
  return o.preset[0] == '\0' && std::visit([&](auto field) { return spec.*field == kUnset.*field; }, o.field);
}

}  // namespace

bool RunSpec::given(std::string_view option) const {
  const Option* o = find_option(command, option);
  CHECK(o != nullptr, "%s has no option %.*s", command.c_str(), static_cast<int>(option.size()), option.data());
  return given_bits[static_cast<std::size_t>(o - options().data())];
}

RunSpec defaults_of(std::string_view command) {
  RunSpec spec;
  spec.command = command;
  const std::uint32_t bit = bit_of(command);
  CHECK(bit != 0, "no command \"%s\" in the table of options", spec.command.c_str());
  for (const Option& o : options())
    if ((o.commands & bit) != 0 && o.preset[0] != '\0') {
      const std::string text = o.preset;
      assign(spec, o, {&text, 1}, "the table of options");
    }
  return spec;
}

void set_option(RunSpec& spec, std::string_view name, std::span<const std::string> values, const std::string& where) {
  const Option* o = find_option(spec.command, name);
  if (o == nullptr) fail_unknown_option(spec.command, name, where);
  assign(spec, *o, values, where);
  spec.given_bits.set(static_cast<std::size_t>(o - options().data()));
}

void set_assignment(RunSpec& spec, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string where = fmt::format("--set {}", assignment);
  if (equals == std::string_view::npos || equals == 0)
    throw input_error("not of the form key=value", where, "write for example --set lr=1e-3");
  const std::string_view name = assignment.substr(0, equals);
  const Option* o = find_option(spec.command, name);
  std::vector<std::string> values;
  std::string_view rest = assignment.substr(equals + 1);
  while (o != nullptr && o->kind == OptionKind::kList && rest.find(',') != std::string_view::npos) {
    values.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(rest.find(',') + 1);
  }
  values.emplace_back(rest);
  set_option(spec, name, values, where);
}

void set_from_toml(RunSpec& spec, std::string_view text, const std::string& where) {
  toml::table table;
  try {
    table = toml::parse(text, where);
  } catch (const toml::parse_error& e) {
    throw input_error(fmt::format("not a TOML document ({})", e.description()),
                      fmt::format("{}, line {}", where, e.source().begin.line), "write options as `name = value`");
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string line = fmt::format("{}, line {}", where, node.source().begin.line);
    if (find_option(spec.command, name) == nullptr) fail_unknown_option(spec.command, name, line);
    std::vector<std::string> values = texts_of(node, name, line);
    const bool pair = find_option(spec.command, name)->kind == OptionKind::kPair;
    if (pair && values.size() == 2) values = {values[0] + "," + values[1]};
    set_option(spec, name, values, line);
  }
}

std::string to_toml(const RunSpec& spec) {
  std::string text = fmt::format("# The effective configuration of `longhaul {}`.\n", spec.command);
  const char* group = "";
  for (const Option& o : options()) {
    if ((o.commands & bit_of(spec.command)) == 0 || is_unset(spec, o)) continue;
    if (std::string_view(group) != o.group) text += fmt::format("\n# {}\n", group = o.group);
    text += fmt::format("{} = {}\n", o.name, toml_value(spec, o));
  }
  return text;
}

std::uint64_t hash_of(const RunSpec& spec) {
  const std::string text = to_toml(spec);
  return hash64_of(std::span<const char>(text));
}

}  // namespace longhaul::spec
