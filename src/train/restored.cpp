// Loads a checkpoint over a mesh and uses it without gradients.
#include "train/restored.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "train/generate.h"
#include "train/run.h"
#include "train/weights.h"

namespace longhaul::train {
namespace {

// What is not given is as it was in the run that wrote the checkpoint.
void complete_from_run(spec::RunSpec& run, const std::string& checkpoint) {
  std::error_code ignored;
  if (!std::filesystem::exists(checkpoint + "/state.json", ignored)) return;  // a model of another program
  const io::Checkpoint c(checkpoint, io::Checkpoint::Verify::kNone);
  spec::RunSpec saved = spec::defaults_of("train");
  spec::set_from_toml(saved, c.config_toml(), checkpoint + "/config.toml");
  if (!run.given("data")) run.data = saved.data;
  if (!run.given("context")) run.context = saved.context;
  if (!run.given("document-mask")) run.document_mask = saved.document_mask;
}

ModelSource open_checkpoint(const spec::RunSpec& run) {
  if (run.checkpoint.empty())
    throw input_error("no checkpoint is given", "--checkpoint", "give a run directory, or one of its checkpoints");
  ModelSource source = open_model(resolve_checkpoint(run.checkpoint));
  if (!run.tokenizer.empty() || source.spec.vocabulary != 256)
    throw input_error(
        fmt::format("text is read as bytes, and the model has a vocabulary of {}", source.spec.vocabulary),
        run.checkpoint, "tokenizers are not supported yet: use a model of bytes, with 256 tokens");
  return source;
}

// Runs body on every rank with the checkpoint's weights loaded.
void with_trainers(const spec::RunSpec& run, const ModelSource& source, Index length, Index batch,
                   const std::function<void(Trainer&)>& body) {
  const TrainSpec spec = make_train_spec(run, source.spec, plan_run(run, source.spec, {length, batch, false, false}));
  const auto weights = open_weights(source);
  comm::run_local(spec.mesh.ranks(), run.watchdog, [&](comm::World& world) {
    Trainer t(spec, world);
    load_weights(*weights, t);
    body(t);
  });
}

}  // namespace

std::string resolve_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/config.json", ignored)) return path;
  const io::FoundCheckpoint found = io::find_latest_good(path + "/checkpoints");
  if (!found.checkpoint)
    throw input_error("there is no checkpoint", path,
                      "give a run directory, a checkpoint, or a Hugging Face directory");
  return found.checkpoint->path();
}

EvalResult evaluate_checkpoint(spec::RunSpec run, const std::function<void(Index done, Index all)>& on_row) {
  const ModelSource source = open_checkpoint(run);
  complete_from_run(run, source.directory);
  if (run.data.empty())
    throw input_error("no data is given", "--data", "give the text that the model was trained on, or other text");
  const TextData text(run, run.context);
  if (!text.held_out)
    throw input_error("no document is held out", text.corpus.where(), "give at least two different documents");
  EvalResult result;
  result.context = run.context;
  result.documents = static_cast<Index>(text.corpus.held_out().size());
  result.long_document_count = static_cast<Index>(text.long_documents.size());
  result.context_free_bits = text.context_free_bits;
  with_trainers(run, source, run.context, run.batch, [&](Trainer& t) {
    const Evaluation all = evaluate(t, *text.held_out_batches, text.held_out->rows(), t.rank == 0 ? on_row : nullptr);
    Evaluation by_position;
    if (text.long_batches) by_position = evaluate(t, *text.long_batches, text.long_rows->rows());
    if (t.rank == 0) result.all = all, result.long_documents = by_position;
  });
  return result;
}

std::string generate_text(const spec::RunSpec& run, const std::function<void(char)>& on_byte) {
  const ModelSource source = open_checkpoint(run);
  if (run.prompt.empty())
    throw input_error("the prompt is empty", "--prompt", "give some text to go on from, such as --prompt \"#include\"");
  const std::vector<std::int32_t> prompt = [&] {
    std::vector<std::int32_t> tokens;
    for (char c : run.prompt) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }();
  std::string text;
  with_trainers(run, source, static_cast<Index>(prompt.size()) + run.length, 1, [&](Trainer& t) {
    const auto hear = [&](std::int32_t token) {
      if (t.rank != 0) return;
      text += static_cast<char>(token);
      if (on_byte) on_byte(text.back());
    };
    std::for_each(prompt.begin(), prompt.end(), hear);
    generate(t, prompt, {run.length, run.temperature, static_cast<std::uint64_t>(run.seed)}, hear);
  });
  return text;
}

}  // namespace longhaul::train
