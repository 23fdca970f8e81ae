// Opens everything that a run needs, and refuses what cannot work.
#include "train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "train/weights.h"

namespace longhaul::train {
namespace {

constexpr Index kLongDocument = 8192;  // bytes
constexpr Index kLongRows = 8;         // documents looked at for the loss by position

double context_free_bits_of(const io::ByteCorpus& corpus) {
  std::array<double, 256> count{};
  double total = 256;  // one of each byte is taken as seen, so that a new byte is not impossible
  count.fill(1);
  for (const io::Document& d : corpus.training()) {
    for (std::uint8_t b : d.bytes) count[b] += 1;
    total += static_cast<double>(d.bytes.size());
  }
  double bits = 0, bytes = 0;
  for (const io::Document& d : corpus.held_out()) {
    for (std::uint8_t b : d.bytes) bits -= std::log2(count[b] / total);
    bytes += static_cast<double>(d.bytes.size());
  }
  return bytes > 0 ? bits / bytes : 0;
}

RunLength length_of(const spec::RunSpec& o, Index per_step, Index available) {
  RunLength l;
  l.minutes = o.minutes;
  l.steps = o.steps;
  if (o.token_budget > 0) {
    const Index by_tokens = (o.token_budget + per_step - 1) / per_step;
    l.steps = l.steps > 0 ? std::min(l.steps, by_tokens) : by_tokens;
  }
  if (l.steps == 0 && l.minutes == 0) l.steps = available;  // one epoch
  return l;
}

std::optional<io::Checkpoint> checkpoint_to_resume(const spec::RunSpec& o, const io::RunDirectory* directory,
                                                   std::vector<std::string>& notes) {
  if (o.resume == "never") return std::nullopt;
  if (o.resume != "auto") return io::Checkpoint(o.resume);
  if (directory == nullptr) return std::nullopt;
  io::FoundCheckpoint found = io::find_latest_good(directory->checkpoints());
  for (const std::string& s : found.skipped) notes.push_back("skipped a damaged checkpoint: " + s);
  return std::move(found.checkpoint);
}

// The steps that a run limited by minutes had estimated when it was saved.
Index steps_of_saved_run(const io::Checkpoint& checkpoint) {
  spec::RunSpec saved = spec::defaults_of("train");
  spec::set_from_toml(saved, checkpoint.config_toml(), checkpoint.path() + "/config.toml");
  return saved.steps;
}

}  // namespace

TextData::TextData(const spec::RunSpec& o, Index length)
    : corpus(o.data), rows(corpus.training(), length, io::DocumentRows::LastRow::kDrop, corpus.where()) {
  batches = std::make_unique<CorpusBatches>(rows, static_cast<std::uint64_t>(o.seed), o.batch, o.document_mask);
  if (corpus.held_out().empty()) return;
  held_out.emplace(corpus.held_out(), length, io::DocumentRows::LastRow::kPad, corpus.where());
  // A fixed sample of the held-out rows: the same for every run, so that runs can be compared.
  held_out_batches = std::make_unique<CorpusBatches>(*held_out, 0, held_out->rows(), o.document_mask);
  context_free_bits = context_free_bits_of(corpus);
  for (const io::Document& d : corpus.held_out()) {
    if (static_cast<Index>(d.bytes.size()) < std::max(kLongDocument, length)) continue;
    if (static_cast<Index>(long_documents.size()) == kLongRows) break;
    long_documents.push_back({d.path, d.bytes.first(static_cast<std::size_t>(length)), d.hash});
  }
  if (long_documents.empty()) return;
  long_rows.emplace(long_documents, length, io::DocumentRows::LastRow::kDrop, corpus.where());
  long_batches = std::make_unique<RowsInOrder>(*long_rows, true);
}

Run::Run(const spec::RunSpec& o) : options(o) {
  if (o.model.empty())
    throw input_error("no model is given", "--model",
                      "give a preset such as --model mini, or a Hugging Face directory");
  if (o.data.empty() == o.batches.empty())
    throw input_error(o.data.empty() ? "no data is given" : "both --data and --batches are given", "--data",
                      "give text files or folders with --data, or token batches with --batches");
  if (!o.tokenizer.empty())
    throw input_error("text is read as bytes; a tokenizer is not supported yet", "--tokenizer",
                      "leave it out and use a model with a vocabulary of 256");
  source = open_model(o.model);
  if (o.init == "auto") weights = open_weights(source);

  plan::Workload work{o.context, o.batch, true, true};
  Index available = 0;
  if (!o.batches.empty()) {
    file.emplace(o.batches, source.spec.vocabulary);
    given = std::make_unique<GivenBatches>(*file);
    work.length = file->context(), work.batch = file->batch();
    available = file->steps();
    if (o.given("batch") && o.batch != file->batch())
      throw input_error(fmt::format("the file has {} sequences a step, not {}", file->batch(), o.batch), "--batch",
                        "leave --batch out with --batches");
  } else {
    if (source.spec.vocabulary < 256)
      throw input_error(fmt::format("bytes need a vocabulary of 256, the model has {}", source.spec.vocabulary),
                        "--data", "use another model, or --batches");
    text = std::make_unique<TextData>(o, work.length);
    available = std::max<Index>(1, text->rows.rows() / o.batch);
  }
  work.saves = !o.run.empty();
  plan = plan_run(o, source.spec, work);
  spec = make_train_spec(o, source.spec, plan);
  length = length_of(o, work.length * work.batch, available);
  if (file && length.steps > file->steps())
    throw input_error(fmt::format("{} steps are asked for, the file has {}", length.steps, file->steps()), "--steps",
                      "train on fewer steps");

  if (!o.run.empty()) directory = std::make_unique<io::RunDirectory>(o.run);
  checkpoint = checkpoint_to_resume(o, directory.get(), notes);
  // Checkpoints hold fp32: fp64 is for checks and would lose what it is for.
  if (checkpoint && o.dtype == "fp64")
    throw input_error("a checkpoint holds fp32, which --dtype fp64 does not go on from", checkpoint->path(),
                      "give --dtype fp32, or --resume never");
  if (checkpoint) require_model(*checkpoint);  // before anything in the run directory changes
  tell_what_surprises(work);
  if (checkpoint && length.steps == 0) length.steps = steps_of_saved_run(*checkpoint);
  if (length.steps > 0) options.steps = length.steps;
  if (spec.optimizer.warmup < 0)
    spec.optimizer.warmup = length.steps > 0 ? std::min<Index>(2000, (length.steps + 19) / 20) : 10;
  options.warmup = spec.optimizer.warmup;
}

void Run::require_model(const io::Checkpoint& from) const {
  try {
    from.load(tensors(), {});
  } catch (const Error& e) {
    throw input_error(fmt::format("the checkpoint is of another model than --model {}: {}", options.model, e.what()),
                      from.path(),
                      "give the --model that it was trained with, another --run folder, or --resume never");
  }
}

void Run::tell_what_surprises(const plan::Workload& work) {
  if (options.run.empty())
    notes.emplace_back("no --run is given: nothing will be saved");
  else if (options.dtype == "fp64")
    notes.emplace_back("--dtype fp64 is for checks: no checkpoint will be saved");
  const Index groups = spec.mesh.data;
  if (work.batch < groups)
    notes.push_back(fmt::format("{} of {} groups of ranks have no sequence to work on: give --batch {} or more",
                                groups - work.batch, groups, groups));
}

std::vector<io::TensorDescription> Run::tensors() const {
  std::vector<io::TensorDescription> all;
  for (const spec::Parameter& p : spec::parameters_of(source.spec).rows)
    all.push_back({p.name, io::FileDType::kF32, shape_of(p)});
  return all;
}

}  // namespace longhaul::train
