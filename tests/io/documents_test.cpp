// Documents: what is found, in which order, and what is held out.
#include "io/documents.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "base/hash.h"
#include "scratch.h"

namespace longhaul::io {
namespace {

constexpr auto kInput = Error::Kind::kInput;

std::vector<std::string> found(const Scratch& scratch, const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const auto& name : names) paths.push_back(name.empty() ? scratch.path() : scratch / name);
  std::vector<std::string> files = list_data_files(paths);
  for (auto& file : files) file = file.substr(scratch.path().size() + 1);
  return files;
}

TEST(Documents, FoundInOrderOnceEach) {
  using Names = std::vector<std::string>;
  const Scratch scratch, elsewhere;
  scratch.put("b.txt", "b");
  scratch.put("a/z.txt", "z");
  scratch.put("a/y/deep.txt", "d");
  scratch.put("a.txt", "a");
  scratch.put("empty.txt", "");
  scratch.put(".hidden", "h");
  scratch.put(".git/x", "g");
  std::filesystem::create_symlink(scratch.path(), scratch / "a/up");       // a loop
  std::filesystem::create_symlink(scratch / "a", scratch / "c");           // a folder by a second name
  std::filesystem::create_symlink(scratch / "b.txt", scratch / "b2.txt");  // a file by a second name
  std::filesystem::create_symlink(elsewhere.path(), scratch / "e");
  elsewhere.put("far.txt", "f");
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);  // opening it would wait for ever
  EXPECT_EQ(found(scratch, {""}), (Names{"a/y/deep.txt", "a/z.txt", "a.txt", "b.txt", "e/far.txt"}));
  EXPECT_EQ(found(scratch, {"b.txt", "a/y", "b.txt"}), (Names{"b.txt", "a/y/deep.txt"}));
  EXPECT_EQ(found(scratch, {".hidden"}), Names{".hidden"});  // asked for by name
}

TEST(Documents, NothingToReadIsAnInputError) {
  const Scratch scratch;
  const auto corpus = [](const std::string& path) { return [path] { ByteCorpus c(std::vector<std::string>{path}); }; };
  std::filesystem::create_directory(scratch / "none");
  expect_error(kInput, "no data", "none", corpus(scratch / "none"));
  expect_error(kInput, "no data", "zero", corpus(scratch.put("zero", "")));
  expect_error(kInput, "No such file", "gone", corpus(scratch / "gone"));
  std::filesystem::create_directory(scratch / "loop");
  std::filesystem::create_directory_symlink(scratch / "loop", scratch / "loop/again");
  expect_error(kInput, "no data", "loop", corpus(scratch / "loop"));
  std::filesystem::create_symlink("self", scratch / "self");
  expect_error(kInput, "cannot be read", "self", corpus(scratch / "self"));
  std::filesystem::create_directory(scratch / "dangling");
  std::filesystem::create_symlink("nowhere", scratch / "dangling/link");
  expect_error(kInput, "No such file", "dangling/link", corpus(scratch / "dangling"));
  expect_error(kInput, "no data", "/dev/null", corpus("/dev/null"));
  if (::geteuid() != 0) {  // root reads everything
    std::filesystem::permissions(scratch.put("closed/file", "x"), std::filesystem::perms::none);
    expect_error(kInput, "Permission denied", "closed/file", corpus(scratch / "closed"));
  }
}

TEST(Documents, HeldOutByContent) {
  const Scratch scratch;
  constexpr int kCount = 800;
  for (int i = 0; i < kCount; ++i) scratch.put("f" + std::to_string(i), "document " + std::to_string(i));
  for (int i = 0; i < kCount; i += 2) scratch.put("copies/" + std::to_string(i), "document " + std::to_string(i));
  const ByteCorpus corpus(std::vector<std::string>{scratch.path()});
  ASSERT_EQ(corpus.training().size() + corpus.held_out().size(), kCount + kCount / 2u);
  std::map<std::string, bool> side;
  Index bytes = 0;
  const auto look = [&](std::span<const Document> documents, bool held) {
    for (const Document& document : documents) {
      const std::string text(document.bytes.begin(), document.bytes.end());
      EXPECT_EQ(text, slurp(document.path));
      const auto [at, added] = side.emplace(text, held);
      EXPECT_EQ(at->second, held) << text << " is on both sides";
      bytes += static_cast<Index>(text.size());
    }
  };
  look(corpus.training(), false);
  look(corpus.held_out(), true);
  EXPECT_EQ(corpus.bytes(), bytes);
  int held = 0;
  for (const auto& [text, is_held] : side) held += is_held;
  EXPECT_NEAR(held, kCount / 16.0, 4 * 7);  // a binomial count of deviation 6.8

  // Other names, another order, fewer files: every document stays on its side.
  const Scratch other;
  for (int i = 0; i < kCount; i += 3) other.put("g" + std::to_string(kCount - i), "document " + std::to_string(i));
  const ByteCorpus fewer(std::vector<std::string>{other.path()});
  look(fewer.training(), false);
  look(fewer.held_out(), true);
}

// Few documents: one is always held out, one always remains; alone or equal ones are all trained on.
TEST(Documents, FewDocumentsHaveBothSides) {
  int all_low = 0, none_low = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const Scratch scratch;
    const std::string first = scratch.put("a", "x" + std::to_string(trial));
    const std::string second = scratch.put("b", "y" + std::to_string(trial));
    const ByteCorpus corpus(std::vector<std::string>{first, second});
    ASSERT_EQ(corpus.held_out().size(), 1u) << "trial " << trial;
    ASSERT_EQ(corpus.training().size(), 1u) << "trial " << trial;
    ASSERT_LT(corpus.held_out()[0].hash, corpus.training()[0].hash);
    all_low += corpus.training()[0].hash >> 60 == 0;
    none_low += corpus.held_out()[0].hash >> 60 != 0;
  }
  EXPECT_GT(all_low, 0);  // both special rules were needed
  EXPECT_GT(none_low, 0);
  const Scratch scratch;
  const std::vector<std::string> same = {scratch.put("a", "same"), scratch.put("b", "same")};
  EXPECT_EQ(ByteCorpus(same).training().size(), 2u);
  EXPECT_EQ(ByteCorpus(same).held_out().size(), 0u);
}

// The choice must not change between versions: a run would train on what an earlier one held out.
TEST(Documents, HeldOutChoiceIsPinned) {
  const Scratch scratch;
  const ByteCorpus corpus(std::vector<std::string>{scratch.put("a", "longhaul")});
  EXPECT_EQ(corpus.training()[0].hash, hash64(std::as_bytes(std::span("longhaul", 8)), 0x6c6f6e676861756c));
}

}  // namespace
}  // namespace longhaul::io
