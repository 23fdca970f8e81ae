// The table of options: every row parses its default, values are checked, and the effective configuration round-trips.
#include "spec/run_spec.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/options.h"

namespace longhaul::spec {
namespace {

constexpr const char* kAll[] = {"train", "plan", "attend", "probe", "eval", "generate", "inspect"};

void set(RunSpec& spec, const std::string& name, const std::string& value) {
  set_option(spec, name, std::span(&value, 1), "--" + name);
}

TEST(Options, NamesAreUniqueWithinACommand) {
  for (const char* command : kAll)
    for (const Option& o : options())
      EXPECT_TRUE((o.commands & bit_of(command)) == 0 || find_option(command, o.name) == &o)
          << command << " --" << o.name;
}

TEST(Options, DefaultsOfTheTable) {
  const RunSpec train = defaults_of("train");
  EXPECT_EQ(train.context, 8192);
  EXPECT_EQ(train.strategy, "auto");
  EXPECT_EQ(train.betas, (std::array<double, 2>{0.9, 0.95}));
  EXPECT_EQ(train.warmup, -1);
  EXPECT_TRUE(train.document_mask);
  EXPECT_FALSE(train.given("context"));
  EXPECT_EQ(defaults_of("attend").context, 0);  // not an option of attend
}

TEST(Options, OneNameMayMeanDifferentThings) {
  RunSpec train = defaults_of("train"), probe = defaults_of("probe");
  set(train, "tokens", "1M");
  set(probe, "tokens", "1M");
  EXPECT_EQ(train.token_budget, 1 << 20);
  EXPECT_EQ(probe.tokens_file, "1M");
  EXPECT_TRUE(train.given("tokens") && probe.given("tokens"));
}

void expect_refused(const std::string& name, const std::string& value, const std::string& hint = "") {
  RunSpec spec = defaults_of("train");
  try {
    set(spec, name, value);
    ADD_FAILURE() << name << " = " << value << " was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::kInput);
    EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    EXPECT_FALSE(e.hint.empty());
    EXPECT_TRUE(hint.empty() || e.hint == hint) << e.hint;
  }
}

TEST(Options, ValuesAreChecked) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"lr", "nan"},
                                                                  {"lr", "inf"},
                                                                  {"lr", "-1e-3"},
                                                                  {"lr", ""},
                                                                  {"lr", "1e-3x"},
                                                                  {"lr", "0x1"},
                                                                  {"steps", "-1"},
                                                                  {"steps", "0"},
                                                                  {"steps", "1.5"},
                                                                  {"steps", "ten"},
                                                                  {"steps", "99999999999999999999"},
                                                                  {"steps", " 1"},
                                                                  {"steps", "+1"},
                                                                  {"steps", "1K"},
                                                                  {"context", "0"},
                                                                  {"context", "16Q"},
                                                                  {"context", "K"},
                                                                  {"context", "-16K"},
                                                                  {"context", "9999999999G"},
                                                                  {"context", "1.5K"},
                                                                  {"ranks", "0"},
                                                                  {"ranks", "-1"},
                                                                  {"ranks", "1000000000"},
                                                                  {"ranks", "two"},
                                                                  {"ranks", "1e9"},
                                                                  {"strategy", "rign"},
                                                                  {"strategy", ""},
                                                                  {"strategy", "auto|single"},
                                                                  {"layout", "zag"},
                                                                  {"dtype", "fp12"},
                                                                  {"schedule", "cos"},
                                                                  {"document-mask", "yes"},
                                                                  {"betas", "0.9"},
                                                                  {"betas", "0.9,1"},
                                                                  {"betas", "0.9,0.95,0.99"},
                                                                  {"betas", "a,b"},
                                                                  {"betas", "nan,0.9"},
                                                                  {"min-lr-ratio", "1.1"},
                                                                  {"memory", "lots"},
                                                                  {"memory", "0"},
                                                                  {"seed", "-1"},
                                                                  {"minutes", "0"},
                                                                  {"watchdog", "0"},
                                                                  {"decay-norms", "1"}})
    expect_refused(name, value);
}

TEST(Options, UnknownNamesSuggestTheNearest) {
  expect_refused("conetxt-parallel", "2", "did you mean \"context-parallel\"?");
  expect_refused("learning_rate", "2");
  expect_refused("step", "2", "did you mean \"steps\"?");
  expect_refused("prompt", "hello");  // of another command
}

TEST(Options, TheLastOneWins) {
  RunSpec spec = defaults_of("train");
  set_from_toml(spec, "lr = 1\nsteps = 7\n", "c.toml");
  set(spec, "lr", "2");
  set_assignment(spec, "lr=3e-3");
  EXPECT_EQ(spec.lr, 3e-3);
  EXPECT_EQ(spec.steps, 7);
  set_assignment(spec, "data=a,b");
  EXPECT_EQ(spec.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW(set_assignment(spec, "lr"), Error);
  EXPECT_THROW(set_assignment(spec, "=3"), Error);
  EXPECT_THROW(set_assignment(spec, "lr="), Error);
}

TEST(Toml, EveryKindOfValue) {
  RunSpec spec = defaults_of("train");
  set_from_toml(spec, R"(
# a comment
model = "mini"
data = ["a b", 'c\d']
context = "16K"
memory = 123456789012
lr = 3
betas = [0.8, 0.9]
document-mask = false
decay-norms = true
min-lr-ratio = 5e-2
)",
                "c.toml");
  EXPECT_EQ(spec.data, (std::vector<std::string>{"a b", "c\\d"}));
  EXPECT_EQ(spec.context, 16384);
  EXPECT_EQ(spec.memory, 123456789012);
  EXPECT_EQ(spec.lr, 3);
  EXPECT_EQ(spec.betas[0], 0.8);
  EXPECT_FALSE(spec.document_mask);
  EXPECT_TRUE(spec.decay_norms);
}

TEST(Toml, MistakesNameTheLine) {
  for (const auto& [text, line] :
       std::initializer_list<std::pair<const char*, const char*>>{{"steps = 1\nstep = 2\n", "line 2"},
                                                                  {"steps = \"x\"\n", "line 1"},
                                                                  {"\n\n[mesh]\nranks = 2\n", "line 3"},
                                                                  {"lr = nan", "line 1"},
                                                                  {"lr 3", "line 1"},
                                                                  {"lr = 1\nlr = 2", "line 2"},
                                                                  {"steps = 2024-01-01", "line 1"},
                                                                  {"steps = [1, 2]", "line 1"},
                                                                  {"betas = 0.9", "line 1"}}) {
    RunSpec spec = defaults_of("train");
    try {
      set_from_toml(spec, text, "c.toml");
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(e.where.find(line), std::string::npos) << text << ": " << e.where;
      EXPECT_NE(e.where.find("c.toml"), std::string::npos);
    }
  }
}

TEST(Toml, TheEffectiveConfigurationRoundTrips) {
  for (const char* command : kAll) {
    RunSpec back = defaults_of(command);
    set_from_toml(back, to_toml(defaults_of(command)), command);
    EXPECT_EQ(to_toml(back), to_toml(defaults_of(command)));
  }
  RunSpec spec = defaults_of("train");
  spec.data = {"with \"quotes\"", "tab\there", "née \xf0\x9f\x98\x80"};
  spec.lr = 0.1 + 0.2, spec.betas = {1.0 / 3, 0.999}, spec.warmup = 0, spec.steps = 12345, spec.document_mask = false;
  spec.seed = 9'000'000'000'000'000'000, spec.minutes = 20, spec.decay_norms = true;
  const std::string text = to_toml(spec);
  RunSpec back = defaults_of("train");
  set_from_toml(back, text, "c.toml");
  EXPECT_EQ(to_toml(back), text);
  EXPECT_EQ(back.data, spec.data);
  EXPECT_EQ(back.lr, spec.lr);
  EXPECT_EQ(back.betas, spec.betas);
  EXPECT_EQ(back.warmup, 0);
  EXPECT_EQ(back.seed, spec.seed);
  EXPECT_EQ(hash_of(back), hash_of(spec));
  back.lr = 0.3;
  EXPECT_NE(hash_of(back), hash_of(spec));
}

}  // namespace
}  // namespace longhaul::spec
