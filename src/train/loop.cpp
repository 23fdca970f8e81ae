// The life of a run on every rank: restore, then step, evaluate, save, until the steps, the minutes or the user end it.
#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "exec/reduce.h"
#include "spec/flops.h"
#include "train/generate.h"
#include "train/rate.h"
#include "train/reporter.h"
#include "train/run.h"
#include "train/weights.h"

namespace longhaul::train {
namespace {

constexpr Index kStepsToEstimate = 3;  // with minutes alone: the first is left out, it warms up
constexpr Index kEvalRows = 4, kFinalEvalRows = 12;
constexpr double kForwardShare = 0.4;  // an evaluated row's time over a training row's, generously
constexpr double kTimeKeptBack = 8;    // seconds for the sample and the last checkpoint
constexpr double kMemorises = 0.25;    // held-out loss above training loss, as a part of it

class RankLoop {
 public:
  RankLoop(Run& run, comm::World& world, const std::atomic<bool>& stop, double started)
      : run_(run), stop_(stop), started_(started), t_(run.spec, world), steps_(run.length.steps) {
    if (world.rank() == 0)
      reporter_ = std::make_unique<Reporter>(run.directory.get(), run.text != nullptr, run.options.json);
  }

  void train() {
    Index done = restore();
    rate_ = measure_matmul_rate(t_.queue, *t_.spec.ops, t_.spec.storage);
    exec::sum_over(t_.queue, t_.world.all(), {&rate_, 1});
    const Index first = done + 1;
    bool ended = steps_ > 0 && done >= steps_;
    if (ended && reporter_)
      reporter_->note(fmt::format("all {} steps are done already: give more --steps to go on", steps_));
    while (!ended) {
      const Index step = done + 1;
      const double start = now_seconds();
      const StepResult result = train_step(t_, run_.batches(), step, steps_);
      last_seconds_ = now_seconds() - start;
      done = step;
      if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm))
        throw run_error(fmt::format("loss {} and gradient norm {} are not finite", result.loss, result.grad_norm),
                        fmt::format("step {}", step),
                        "lower --lr, raise --warmup, or go on from an earlier checkpoint");
      if (step > first) step_seconds_ += last_seconds_, ++timed_steps_;
      report(step, result);
      ended = agree_on_the_end(step, first);
      if (due(step, run_.options.eval_every) && !ended) evaluate_held_out(step, kEvalRows);
      if (due(step, run_.options.save_every) && !ended) save(step);
    }
    finish(done);
  }

 private:
  bool due(Index step, Index every) const { return every > 0 && step % every == 0; }

  // Weights and optimizer state from the checkpoint, the model's directory, or the seed. Returns the steps done.
  Index restore() {
    if (!run_.checkpoint) {
      if (run_.weights)
        load_weights(*run_.weights, t_);
      else
        t_.initialize(static_cast<std::uint64_t>(run_.options.seed));
      return 0;
    }
    const auto span = [](const AnyView<1>& x) {
      return std::span(x.as<float>().data, static_cast<std::size_t>(x.extent[0]));
    };
    run_.checkpoint->load(run_.tensors(), {span(t_.state.master), span(t_.state.m), span(t_.state.v)});
    t_.refresh_weights();
    if (reporter_) reporter_->note(fmt::format("going on from {}", run_.checkpoint->path()));
    return run_.checkpoint->state().step;
  }

  void report(Index step, const StepResult& result) {
    last_loss_ = last_loss_ == 0 ? result.loss : 0.9 * last_loss_ + 0.1 * result.loss;
    if (!reporter_) return;
    StepRecord r{step, result, last_seconds_, static_cast<double>(t_.spec.length * t_.spec.batch), 0, 0, 0};
    const auto flops = spec::flops_of_step(
        t_.spec.model, {static_cast<double>(t_.spec.batch), t_.spec.length, result.visible_pairs}, t_.spec.policy);
    const double possible = last_seconds_ * rate_;
    r.mfu = flops.conventional / possible, r.mfu_exact = flops.exact / possible, r.hfu = flops.hardware / possible;
    const double left = steps_ > 0 && timed_steps_ > 0
                            ? static_cast<double>(steps_ - step) * step_seconds_ / static_cast<double>(timed_steps_)
                            : 0;
    reporter_->step(r, steps_, left);
  }

  // Rank 0 knows the clock and the user; the others follow. Also fixes the number of steps of a run limited by minutes.
  bool agree_on_the_end(Index step, Index first) {
    double news[3] = {0, 0, 0};  // end, steps, stop
    if (t_.rank == 0) {
      const double elapsed = now_seconds() - started_, limit = run_.length.minutes * 60;
      news[2] = stop_.load();
      news[0] = news[2] != 0 || (limit > 0 && elapsed + time_to_finish() > limit && steps_ > 0 && step < steps_);
      if (steps_ == 0 && step - first + 1 >= kStepsToEstimate) {
        const double each = step_seconds_ / static_cast<double>(timed_steps_);
        news[1] = static_cast<double>(step) + std::max(0.0, std::floor((limit - elapsed - time_to_finish()) / each));
      }
    }
    exec::sum_over(t_.queue, t_.world.all(), news);
    if (news[1] > 0) fix_steps(static_cast<Index>(news[1]));
    stopped_ = news[2] != 0;
    if (news[0] != 0 && reporter_)
      reporter_->note(stopped_ ? fmt::format("stopped by the user after step {}", step)
                               : "the time is over before the last step");
    return news[0] != 0 || (steps_ > 0 && step >= steps_);
  }

  void fix_steps(Index steps) {
    steps_ = steps;
    if (!reporter_) return;
    run_.options.steps = steps;
    reporter_->note(fmt::format("{} steps fit into {} minutes", steps, run_.length.minutes));
    if (run_.directory) run_.directory->write_config(spec::to_toml(run_.options));
    if (writer_) writer_->set_config_toml(spec::to_toml(run_.options));
  }

  double time_to_finish() const {
    const double each = timed_steps_ > 0 ? step_seconds_ / static_cast<double>(timed_steps_) : last_seconds_;
    const double row = each / static_cast<double>(t_.spec.batch);
    return run_.text ? kTimeKeptBack + kForwardShare * row * static_cast<double>(kFinalEvalRows + 8) : 2;
  }

  void evaluate_held_out(Index step, Index rows) {
    if (!run_.text || !run_.text->held_out) return;
    held_out_ = evaluate(t_, *run_.text->held_out_batches, std::min(rows, run_.text->held_out->rows()));
    if (reporter_) reporter_->evaluation(step, held_out_);
  }

  void save(Index step) {
    if (!run_.directory || t_.rank != 0 || t_.spec.storage == DType::kF64) return;
    if (!writer_)
      writer_ = std::make_unique<io::CheckpointWriter>(
          run_.directory->checkpoints(), run_.tensors(),
          io::CheckpointWriter::Options{spec::to_config_json(run_.source.spec), spec::to_toml(run_.options),
                                        run_.options.keep});
    run_.directory->sync_metrics();
    const auto span = [](const AnyView<1>& x) {
      return std::span<const float>(x.as<float>().data, static_cast<std::size_t>(x.extent[0]));
    };
    writer_->save({step, step * t_.spec.batch, static_cast<std::uint64_t>(run_.options.seed)}, span(t_.state.master),
                  span(t_.state.m), span(t_.state.v));
  }

  // The last step always leaves a checkpoint, before anything that is only for the reader: who stopped the run does not
  // wait for that.
  void finish(Index step) {
    save(step);
    if (!stopped_) evaluate_held_out(step, kFinalEvalRows);
    if (reporter_) reporter_->end_line();
    if (writer_) writer_->wait();
    if (!stopped_ && run_.text) tell_about_text();
    if (reporter_ && run_.directory)
      reporter_->note(fmt::format(
          "\nthe run is in {}{}", run_.directory->path(),
          stopped_ ? "; the same command with --run " + run_.directory->path() + " goes on from there" : ""));
  }

  void tell_about_text() {
    tell_about_held_out();
    if (run_.text->long_batches) {
      const Evaluation e = evaluate(t_, *run_.text->long_batches, run_.text->long_rows->rows());
      if (reporter_) reporter_->by_position(e, static_cast<Index>(run_.text->long_documents.size()));
    }
    show_sample();
  }

  void tell_about_held_out() {
    if (!reporter_ || held_out_.tokens == 0) return;
    reporter_->note(fmt::format("bits per byte on held-out text: {:.3f} this model, {:.3f} a context-free byte model",
                                held_out_.mean() / std::numbers::ln2, run_.text->context_free_bits));
    if (last_loss_ > 0 && held_out_.mean() > (1 + kMemorises) * last_loss_)
      reporter_->note(fmt::format("held-out loss is {:.2f} above training loss: the model is memorising its data",
                                  held_out_.mean() - last_loss_));
  }

  // Goes on from the beginning of a held-out document.
  void show_sample() {
    const auto documents = run_.text->corpus.held_out();
    const Index prompt_length = std::min<Index>(48, t_.spec.length / 4);
    const Index length = std::min<Index>(160, t_.spec.length - prompt_length);
    if (documents.empty() || prompt_length < 1 || length < 1) return;
    const auto bytes = documents.front().bytes;
    std::vector<std::int32_t> prompt(bytes.begin(), bytes.begin() + std::min<Index>(prompt_length, bytes.size()));
    const auto tokens = generate(t_, prompt, {length, 0.7, static_cast<std::uint64_t>(run_.options.seed)});
    if (!reporter_) return;
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i == prompt.size()) text += " ▶ ";
      const char c = static_cast<char>(tokens[i]);
      text += c == '\n' || (c >= 32 && c < 127) ? std::string(1, c) : "·";
    }
    reporter_->note(fmt::format("\na sample (before ▶: the beginning of {}):\n{}", documents.front().path, text));
  }

  Run& run_;
  const std::atomic<bool>& stop_;
  double started_;
  Trainer t_;
  Index steps_;
  std::unique_ptr<Reporter> reporter_;            // rank 0
  std::unique_ptr<io::CheckpointWriter> writer_;  // rank 0
  Evaluation held_out_;
  double rate_ = 0, last_seconds_ = 0, step_seconds_ = 0, last_loss_ = 0;
  Index timed_steps_ = 0;
  bool stopped_ = false;  // by the user
};

}  // namespace

void train(const spec::RunSpec& options, const std::atomic<bool>& stop) {
  const double started = now_seconds();
  Run run(options);
  if (run.directory) {
    run.directory->write_config(spec::to_toml(run.options));
    run.directory->drop_metrics_after(run.checkpoint ? run.checkpoint->state().step : 0);
  }
  if (!options.json) fmt::print("{}\n", plan::to_text(run.plan));
  if (!options.json)
    for (const std::string& note : run.notes) fmt::print("{}\n", note);
  std::fflush(stdout);
  comm::run_local(run.spec.mesh.ranks(), options.watchdog,
                  [&](comm::World& world) { RankLoop(run, world, stop, started).train(); });
}

}  // namespace longhaul::train
