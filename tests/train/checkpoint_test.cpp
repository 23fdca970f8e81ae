// Resume equals uninterrupted, bit for bit; what one mesh saves any other loads; poisoned memory changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "io/checkpoint.h"
#include "train/small_run.h"
#include "train/weights.h"

namespace longhaul {
namespace {

using test::SmallRun;

struct Folder {
  std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("longhaul-checkpoint-" + std::to_string(getpid()))).string();
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::span<float> floats(const AnyView<1>& x) {
  return {x.as<float>().data, static_cast<std::size_t>(x.extent[0])};
}

std::vector<io::TensorDescription> tensors_of(const train::Trainer& t) {
  std::vector<io::TensorDescription> all;
  for (const auto& p : t.table.rows) all.push_back({p.name, io::FileDType::kF32, train::shape_of(p)});
  return all;
}

// Steps [first, last] of 6; starts from a checkpoint when first > 1, saves one at the end when a folder is given.
std::vector<double> train_steps(const SmallRun& run, Index first, Index last, const std::string& folder) {
  std::vector<double> weights;
  on_ranks(run, [&](train::Trainer& t) {
    if (first > 1) {
      const io::Checkpoint c(folder + "/" + io::checkpoint_name(first - 1));
      c.load(tensors_of(t), {floats(t.state.master), floats(t.state.m), floats(t.state.v)});
      t.refresh_weights();
    }
    const test::RandomBatches batches(run);
    for (Index step = first; step <= last; ++step) train_step(t, batches, step, 6);
    if (t.rank != 0) return;
    weights = test::values_of(t.state.master);
    if (folder.empty()) return;
    io::CheckpointWriter writer(folder, tensors_of(t), {"{}", "", 0});
    writer.save({last, last * run.batch, 1}, floats(t.state.master), floats(t.state.m), floats(t.state.v));
    writer.wait();
  });
  return weights;
}

TEST(Resume, EqualsUninterruptedBitForBit) {
  for (DType storage : {DType::kF32, DType::kBF16}) {
    SmallRun run;
    run.storage = storage, run.context = 2, run.strategy = "ring", run.layout = strategy::LayoutKind::kZigzag;
    run.documents = 3;
    Folder folder;
    const auto whole = train_steps(run, 1, 6, "");
    train_steps(run, 1, 3, folder.path);
    EXPECT_EQ(train_steps(run, 4, 6, folder.path), whole) << name_of(storage);
  }
}

// Weights and moments are the same bits in every mesh, so the next steps are the same up to the order of sums.
TEST(Resume, LoadsUnderAnyOtherMesh) {
  std::vector<SmallRun> meshes(5);
  meshes[1].context = 3, meshes[1].strategy = "ring", meshes[1].layout = strategy::LayoutKind::kStriped;
  meshes[2].data = 2;
  meshes[3].context = 2, meshes[3].data = 2, meshes[3].strategy = "ulysses", meshes[3].ulysses = 2;
  meshes[4].context = 4, meshes[4].strategy = "usp", meshes[4].ulysses = 2,
  meshes[4].layout = strategy::LayoutKind::kZigzag;
  for (const SmallRun& from : meshes)
    for (const SmallRun& to : meshes) {
      Folder folder;
      train_steps(from, 1, 2, folder.path);
      const auto stayed = train_steps(from, 3, 4, folder.path), moved = train_steps(to, 3, 4, folder.path);
      double worst = 0;
      for (std::size_t i = 0; i < stayed.size(); ++i) worst = std::max(worst, std::abs(stayed[i] - moved[i]));
      EXPECT_LE(worst, 2e-4) << from.strategy << " to " << to.strategy;  // a fiftieth of one AdamW step of 1e-2
    }
}

// NaN in all of a fresh arena, before every step, changes no bit: nothing is read before it is written.
TEST(Poison, ChangesNoBitOfAnyResult) {
  for (const char* strategy : {"single", "all_gather", "ring", "ulysses", "usp"})
    for (DType storage : {DType::kF32, DType::kBF16})
      for (spec::LayerPolicy policy : {spec::LayerPolicy::kKeep, spec::LayerPolicy::kRecomputeLayer}) {
        SmallRun run;
        run.strategy = strategy, run.storage = storage, run.policy = policy, run.documents = 4, run.length = 29;
        run.context = std::string(strategy) == "single" ? 1 : 4;
        run.ulysses = std::string(strategy) == "ulysses" ? 4 : std::string(strategy) == "usp" ? 2 : 1;
        run.layout = strategy::LayoutKind::kZigzag;
        std::vector<double> weights[2];
        for (bool poison : {false, true})
          on_ranks(run, [&](train::Trainer& t) {
            const test::RandomBatches batches(run);
            for (Index step = 1; step <= 2; ++step) {
              if (poison) t.activation_memory.poison(0, t.activation_memory.size());
              if (poison) std::fill(floats(t.state.gradient).begin(), floats(t.state.gradient).end(), NAN);
              train_step(t, batches, step, 6);
            }
            if (t.rank == 0) weights[poison] = test::values_of(t.state.master);
          });
        EXPECT_EQ(weights[0], weights[1]) << strategy << " " << name_of(storage);
      }
}

}  // namespace
}  // namespace longhaul
