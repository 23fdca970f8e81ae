// RunSpec: what a command was asked to do, as values. Filled through the one table of options (spec/options.h).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace longhaul::spec {

// A field holds its option's default (see the table) after defaults_of(command). Below: what a field means where the
// option's name does not say it. 0, -1 or empty as marked: not given, and there is no default.
struct RunSpec {
  std::string command;

  // model
  std::string model;  // preset name or Hugging Face directory
  std::string init;   // auto, random
  std::string checkpoint;

  // data
  std::vector<std::string> data;
  std::string tokenizer, batches;  // files
  Index context = 0;               // rows of a sequence
  Index batch = 0;                 // sequences of a step, over all ranks
  Index accumulate = 0;            // parts that a rank's share of the batch is worked through in
  bool document_mask = false;

  // length: whichever ends first
  Index steps = 0, token_budget = 0;  // 0: not given
  double minutes = 0;                 // 0: not given

  // numbers
  std::string dtype;  // auto, fp32, bf16, fp64
  Index seed = 0;
  std::string kernel;  // auto or the name of an attention variant

  // resources
  Index memory = 0;     // bytes a rank; 0: not given
  Index threads = 0;    // a rank; 0: cores of the node / ranks on it
  double watchdog = 0;  // seconds

  // run directory
  std::string run, resume;                         // resume: auto, never, or a path
  Index save_every = 0, keep = 0, eval_every = 0;  // 0: never, all, never

  // mesh; 0: not given
  Index ranks = 0, context_parallel = 0, ulysses = 0, data_parallel = 0, fsdp = 0, tensor_parallel = 0,
        expert_parallel = 0;
  std::string strategy, layout;

  // optimizer
  double lr = 0;
  Index warmup = -1;  // steps; -1: not given, a twentieth of the steps but at most 2,000
  std::string schedule;
  double min_lr_ratio = 0, weight_decay = 0, eps = 0, clip = 0;  // clip 0: none
  bool decay_norms = false;
  std::array<double, 2> betas = {0, 0};

  // of single commands
  std::string in, out;      // files
  std::string tokens_file;  // probe --tokens
  bool no_grad = false;
  Index logits_tail = 0;  // 0: all rows
  std::string prompt;
  Index length = 0;
  double temperature = 0;
  bool json = false;

  std::bitset<128> given_bits;  // by index in the table
  bool given(std::string_view option) const;
};

// Every option of the command at its default.
RunSpec defaults_of(std::string_view command);

// Takes `values` (one, or several for a list) into the option `name` of spec.command. `where` says where the option
// stands ("--steps", "run.toml, line 3"). Input errors: an unknown name (the nearest is suggested), a value of the
// wrong kind, out of range or not among those allowed.
void set_option(RunSpec& spec, std::string_view name, std::span<const std::string> values, const std::string& where);
// "key=value", as after --set.
void set_assignment(RunSpec& spec, std::string_view assignment);
// All keys of a TOML document: `name = value`, names as of the flags. `where` names the file.
void set_from_toml(RunSpec& spec, std::string_view text, const std::string& where);

// The effective configuration as a TOML document that set_from_toml reads back to the same values.
std::string to_toml(const RunSpec& spec);
// Of the effective configuration.
std::uint64_t hash_of(const RunSpec& spec);

}  // namespace longhaul::spec
