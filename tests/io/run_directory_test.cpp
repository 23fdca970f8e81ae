// Run folders: metrics that go on where a resumed run does.
#include "io/run_directory.h"

#include "scratch.h"

namespace longhaul::io {
namespace {

TEST(RunDirectory, MetricsOfAResumedRunEqualThoseOfAnUninterruptedOne) {
  const Scratch scratch;
  const auto step_line = [](int k) {
    return "{\"step\":" + std::to_string(k) + ",\"loss\":" + std::to_string(5.0 / k) + "}";
  };
  const auto run = [&](RunDirectory& folder, int from, int to) {
    for (int k = from; k <= to; ++k) {
      folder.append_metrics(step_line(k));
      if (k % 4 == 0) folder.append_metrics("{\"step\":" + std::to_string(k) + ",\"eval_loss\":1}");
    }
    folder.sync_metrics();
  };
  RunDirectory whole(scratch / "whole");
  run(whole, 1, 12);
  for (int crash = 8; crash <= 12; ++crash) {  // after the checkpoint of step 8
    RunDirectory broken(scratch / "a/b/broken");
    broken.drop_metrics_after(0);
    run(broken, 1, crash);
    std::ofstream(broken.metrics(), std::ios::app) << "{\"step\":8,\"lo";  // a line cut short
    RunDirectory resumed(broken.path());
    resumed.drop_metrics_after(8);
    run(resumed, 9, 12);
    EXPECT_EQ(slurp(resumed.metrics()), slurp(whole.metrics())) << "crash at " << crash;
    resumed.drop_metrics_after(12);
    EXPECT_EQ(slurp(resumed.metrics()), slurp(whole.metrics()));
  }
  whole.drop_metrics_after(0);
  EXPECT_EQ(slurp(whole.metrics()), "");
  whole.append_metrics(step_line(1));  // while the same object has it open
  EXPECT_EQ(slurp(whole.metrics()), step_line(1) + "\n");
  EXPECT_EQ(list(whole.path()), "metrics.jsonl ");
}

TEST(RunDirectory, HostileMetricsAreDropped) {
  const Scratch scratch;
  RunDirectory folder(scratch / "r");
  folder.drop_metrics_after(3);  // no file yet
  EXPECT_FALSE(std::filesystem::exists(folder.metrics()));
  scratch.put("r/metrics.jsonl", "\n[1]\n{\"step\":\"x\"}\n" + std::string(100000, '[') + "\n{\"step\":1e999}\n" +
                                     std::string("\0\xff", 2) +
                                     "\n{\"step\":2}\n{\"note\":1}\n{\"step\":4}\n{\"step\":3}");
  folder.drop_metrics_after(3);
  EXPECT_EQ(slurp(folder.metrics()), "{\"step\":2}\n{\"note\":1}\n{\"step\":3}\n");
}

TEST(RunDirectory, Refusals) {
  const Scratch scratch;
  const std::string file = scratch.put("file", "x");
  expect_error(Error::Kind::kInput, "a file where a folder is expected", file, [&] { RunDirectory r(file); });
  expect_error(Error::Kind::kInput, "", file, [&] { RunDirectory r(file + "/below"); });
  expect_error(Error::Kind::kInput, "", "", [&] { RunDirectory r(""); });
  EXPECT_EQ(slurp(file), "x");
  if (::geteuid() != 0) {  // root writes everywhere
    std::filesystem::create_directory(scratch / "closed");
    std::filesystem::permissions(scratch / "closed", std::filesystem::perms::owner_read);
    expect_error(Error::Kind::kInput, "Permission denied", "closed", [&] { RunDirectory r(scratch / "closed"); });
  }
}

TEST(RunDirectory, FullDiskIsARunError) {
  const Scratch scratch;
  RunDirectory folder(scratch / "r");
  folder.write_config("a = 1\n");
  folder.append_metrics("{\"step\":1}");
  {
    const FileSizeLimit limit(64);
    expect_error(Error::Kind::kRun, "cannot be written", "metrics.jsonl",
                 [&] { folder.append_metrics("{\"step\":2,\"x\":\"" + std::string(100, 'x') + "\"}"); });
    expect_error(Error::Kind::kRun, "cannot be written", "config.toml",
                 [&] { folder.write_config(std::string(100, '#')); });
  }
  EXPECT_EQ(slurp(scratch / "r/config.toml"), "a = 1\n");
  std::filesystem::remove(folder.metrics());
  std::filesystem::create_symlink("/dev/full", folder.metrics());
  RunDirectory again(folder.path());
  expect_error(Error::Kind::kRun, "No space left", "metrics.jsonl", [&] { again.append_metrics("{\"step\":2}"); });
}

}  // namespace
}  // namespace longhaul::io
