// Samples: every row once an epoch, rows against a plain account of them, given batches.
#include "io/samples.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "allocations.h"
#include "base/random.h"
#include "io/batch_file.h"
#include "scratch.h"

namespace longhaul::io {
namespace {

constexpr auto kInput = Error::Kind::kInput;
using Ints = std::vector<std::int32_t>;

TEST(SampleOrder, EveryRowOnceAnEpoch) {
  std::vector<Index> sizes = {97, 127, 128, 129, 255, 256, 257, 1021, 1024, 4097, 65537};
  for (Index n = 1; n <= 70; ++n) sizes.push_back(n);
  for (Index rows : sizes)
    for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
      const SampleOrder order(rows, seed);
      for (Index epoch : {Index{0}, Index{1}, Index{1000000}}) {
        std::vector<char> seen(static_cast<std::size_t>(rows));
        for (Index i = 0; i < rows; ++i) {
          const Index row = order.row_of(epoch * rows + i);
          ASSERT_TRUE(0 <= row && row < rows) << row << " of " << rows << ", seed " << seed;
          ASSERT_FALSE(seen[static_cast<std::size_t>(row)]++) << row << " twice of " << rows << ", seed " << seed;
          ASSERT_EQ(order.epoch_of(epoch * rows + i), epoch);
        }
      }
    }
  const Index huge = (Index{1} << 61) + 12345;
  std::set<Index> seen;
  for (Index i = 0; i < 1000; ++i) {
    const Index row = SampleOrder(huge, 3).row_of(i);
    EXPECT_TRUE(0 <= row && row < huge);
    EXPECT_TRUE(seen.insert(row).second);
  }
}

// Over many epochs each row must come first about equally often, and be followed by each other row about equally often:
// a chi-square statistic of d degrees of freedom has mean d and deviation sqrt(2d); six deviations allowed.
TEST(SampleOrder, OrdersLookRandom) {
  for (Index rows : {2, 3, 5, 8, 13, 64}) {
    const SampleOrder order(rows, 11);
    const Index epochs = 400 * rows;
    std::vector<double> first(static_cast<std::size_t>(rows)), step(static_cast<std::size_t>(rows));
    for (Index e = 0; e < epochs; ++e) {
      const Index a = order.row_of(e * rows), b = order.row_of(e * rows + 1);
      ++first[static_cast<std::size_t>(a)];
      ++step[static_cast<std::size_t>((b - a + rows) % rows)];
    }
    const auto chi_square = [](std::span<const double> counts, double want) {
      double sum = 0;
      for (double n : counts) sum += (n - want) * (n - want) / want;
      return sum;
    };
    const auto bound = [](double freedom) { return freedom + 6 * std::sqrt(2 * freedom); };
    EXPECT_LT(chi_square(first, 400), bound(static_cast<double>(rows - 1))) << rows << " rows";
    EXPECT_EQ(step[0], 0);
    if (rows == 2) continue;
    EXPECT_LT(chi_square(std::span<const double>(step).subspan(1), 400.0 * rows / (rows - 1)),
              bound(static_cast<double>(rows - 2)))
        << rows << " rows";
  }
}

TEST(SampleOrder, DependsOnSeedAndEpoch) {
  const Index rows = 1000;
  const SampleOrder a(rows, 1), b(rows, 2);
  int same_seed = 0, same_epoch = 0, in_place = 0;
  for (Index i = 0; i < rows; ++i) {
    same_seed += a.row_of(i) == b.row_of(i);
    same_epoch += a.row_of(i) == a.row_of(rows + i);
    in_place += a.row_of(i) == i;
  }
  EXPECT_LT(same_seed, 10);  // Poisson with mean 1
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(in_place, 10);
}

// A run that is resumed, by this or a later version, must go on with the same samples.
TEST(SampleOrder, OrderIsPinned) {
  const SampleOrder order(10, 42);
  std::vector<Index> rows;
  for (Index i = 0; i < 20; ++i) rows.push_back(order.row_of(i));
  EXPECT_EQ(rows, (std::vector<Index>{2, 5, 3, 6, 0, 7, 4, 9, 1, 8, 8, 9, 4, 2, 7, 1, 0, 6, 5, 3}));
}

struct Row {
  explicit Row(Index n)
      : tokens(static_cast<std::size_t>(n), 77), labels(tokens), documents(tokens), positions(tokens) {}
  Ints tokens, labels, documents, positions;
};

Row fill(const DocumentRows& rows, Index i) {
  Row row(rows.context());
  rows.fill(i, row.tokens, row.labels, row.documents, row.positions);
  return row;
}

std::vector<Document> make_documents(const std::vector<std::vector<std::uint8_t>>& contents) {
  std::vector<Document> documents;
  for (const auto& bytes : contents) documents.push_back({"", bytes, 0});
  return documents;
}

TEST(DocumentRows, AnExampleByHand) {
  const std::vector<std::vector<std::uint8_t>> contents = {{10, 11, 12, 13, 14}, {20}, {30, 31, 255}};
  const auto documents = make_documents(contents);
  const DocumentRows rows(documents, 4, DocumentRows::LastRow::kPad, "here");
  ASSERT_EQ(rows.rows(), 3);
  const Row a = fill(rows, 0), b = fill(rows, 1), c = fill(rows, 2);
  EXPECT_EQ(a.tokens, (Ints{10, 11, 12, 13}));
  EXPECT_EQ(a.labels, (Ints{11, 12, 13, 14}));
  EXPECT_EQ(a.documents, (Ints{1, 1, 1, 1}));
  EXPECT_EQ(a.positions, (Ints{0, 1, 2, 3}));
  EXPECT_EQ(b.tokens, (Ints{14, 20, 30, 31}));
  EXPECT_EQ(b.labels, (Ints{-100, -100, 31, 255}));
  EXPECT_EQ(b.documents, (Ints{1, 2, 3, 3}));
  EXPECT_EQ(b.positions, (Ints{0, 0, 0, 1}));
  EXPECT_EQ(c.tokens, (Ints{255, 0, 0, 0}));
  EXPECT_EQ(c.labels, (Ints{-100, -100, -100, -100}));
  EXPECT_EQ(c.documents, (Ints{1, 0, 0, 0}));
  EXPECT_EQ(c.positions, (Ints{0, 0, 0, 0}));
  EXPECT_EQ(DocumentRows(documents, 4, DocumentRows::LastRow::kDrop, "here").rows(), 2);
  EXPECT_EQ(DocumentRows({}, 4, DocumentRows::LastRow::kPad, "here").rows(), 0);
  expect_error(kInput, "less than one full row of context: 9 tokens", "here",
               [&] { DocumentRows(documents, 10, DocumentRows::LastRow::kDrop, "here"); });
  EXPECT_EQ(DocumentRows(documents, 9, DocumentRows::LastRow::kDrop, "here").rows(), 1);
}

// Random documents and lengths against an account token by token.
TEST(DocumentRows, AgreeWithTheDefinition) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<std::vector<std::uint8_t>> contents(1 + random_bits(seed, 0, 0) % 12);
    std::vector<std::pair<int, std::size_t>> stream;  // document, index in it
    for (std::size_t d = 0; d < contents.size(); ++d)
      for (std::size_t i = 0, n = 1 + random_bits(seed, 1, d) % 17; i < n; ++i) {
        contents[d].push_back(static_cast<std::uint8_t>(random_bits(seed, 2, d * 100 + i)));
        stream.emplace_back(static_cast<int>(d), i);
      }
    const auto documents = make_documents(contents);
    const Index context = 1 + static_cast<Index>(random_bits(seed, 3, 0) % 20);
    const DocumentRows rows(documents, context, DocumentRows::LastRow::kPad, "");
    ASSERT_EQ(rows.tokens(), static_cast<Index>(stream.size()));
    ASSERT_EQ(rows.rows(), (rows.tokens() + context - 1) / context);
    for (Index r = 0; r < rows.rows(); ++r) {
      const Row row = fill(rows, r);
      for (Index i = 0; i < context; ++i) {
        Row want(1);
        const Index at = r * context + i;
        if (at < rows.tokens()) {
          const auto [d, from] = stream[static_cast<std::size_t>(at)];
          const auto& bytes = contents[static_cast<std::size_t>(d)];
          want.tokens[0] = bytes[from];
          want.labels[0] = from + 1 < bytes.size() ? bytes[from + 1] : -100;
          want.documents[0] = d - stream[static_cast<std::size_t>(r * context)].first + 1;
          want.positions[0] = static_cast<std::int32_t>(std::min<Index>(static_cast<Index>(from), i));
        } else {
          want.tokens[0] = want.documents[0] = want.positions[0] = 0;
          want.labels[0] = -100;
        }
        const auto k = static_cast<std::size_t>(i);
        ASSERT_EQ((Ints{row.tokens[k], row.labels[k], row.documents[k], row.positions[k]}),
                  (Ints{want.tokens[0], want.labels[0], want.documents[0], want.positions[0]}))
            << "seed " << seed << " row " << r << " index " << i;
      }
    }
  }
}

TEST(BatchFile, GoldenRunsAndCases) {
  const BatchFile steps(TEST_SOURCE_DIR "/golden/training/llama/steps.safetensors", 1 << 20);
  EXPECT_EQ(steps.steps(), 40);
  EXPECT_EQ(steps.batch(), 2);
  EXPECT_EQ(steps.context(), 64);
  EXPECT_FALSE(steps.has_documents());
  const SafetensorsFile file(steps.path());
  const Ints all = file.read_all<std::int32_t>(*file.find("tokens"));
  Row row(64);
  steps.fill(39, 1, row.tokens, row.labels, {}, {});
  EXPECT_EQ(row.tokens, Ints(all.end() - 64, all.end()));
  Ints shifted(all.end() - 63, all.end());
  shifted.push_back(-100);
  EXPECT_EQ(row.labels, shifted);

  // Labels that are computed for packed documents are those of the file.
  const std::string packed = TEST_SOURCE_DIR "/golden/models/llama32_packed/case.safetensors";
  const BatchFile given(packed, 1 << 20);
  ASSERT_TRUE(given.has_documents() && given.has_positions());
  const SafetensorsFile source(packed);
  const Scratch scratch;
  const auto& shape = source.find("tokens")->shape;
  SafetensorsWriter writer(scratch / "x",
                           {{"tokens", FileDType::kI32, shape}, {"segment_ids", FileDType::kI32, shape}});
  writer.write<std::int32_t>("tokens", source.read_all<std::int32_t>(*source.find("tokens")));
  writer.write<std::int32_t>("segment_ids", source.read_all<std::int32_t>(*source.find("segment_ids")));
  writer.finish();
  const BatchFile computed(scratch / "x", 1 << 20);
  EXPECT_FALSE(computed.has_positions());
  EXPECT_EQ(computed.steps(), 1);
  for (Index b = 0; b < given.batch(); ++b) {
    Row want(given.context()), got(given.context());
    given.fill(0, b, want.tokens, want.labels, want.documents, want.positions);
    computed.fill(0, b, got.tokens, got.labels, got.documents, {});
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.labels, want.labels);
    EXPECT_EQ(got.documents, want.documents);
    EXPECT_EQ(*std::min_element(want.positions.begin(), want.positions.end()), 0);
  }
}

TEST(Samples, FillingAllocatesNothing) {
  const std::vector<std::vector<std::uint8_t>> contents(9, std::vector<std::uint8_t>(50, 3));
  const auto documents = make_documents(contents);
  const DocumentRows rows(documents, 64, DocumentRows::LastRow::kPad, "here");
  const SampleOrder order(rows.rows(), 1);
  const BatchFile batches(TEST_SOURCE_DIR "/golden/training/llama/steps.safetensors", 1 << 20);
  Row row(64);
  const long before = count_allocations();
  for (Index i = 0; i < 3 * rows.rows(); ++i)
    rows.fill(order.row_of(i), row.tokens, row.labels, row.documents, row.positions);
  batches.fill(7, 1, row.tokens, row.labels, {}, {});
  EXPECT_EQ(count_allocations(), before);
  const auto counted = std::make_unique<int>(1);
  EXPECT_EQ(count_allocations(), before + 1);
}

TEST(BatchFile, Refusals) {
  const Scratch scratch;
  const std::string path = scratch / "x";
  struct Tensor {
    std::string name;
    std::vector<Index> shape;
    Ints values;
  };
  const Tensor good = {"tokens", {1, 2, 2}, {0, 1, 2, 9}};
  const struct {
    const char* name;
    std::vector<Tensor> tensors;
    const char* what;  // nullptr: accepted
  } cases[] = {
      {"good", {good}, nullptr},
      {"no tokens", {}, "'tokens' is missing"},
      {"one dimension", {{"tokens", {4}, {1, 2, 3, 4}}}, "shape [4] instead of [any, any, any]"},
      {"four dimensions", {{"tokens", {1, 1, 1, 1}, {1}}}, "shape [1, 1, 1, 1]"},
      {"no steps", {{"tokens", {0, 2, 2}, {}}}, "has no tokens"},
      {"no length", {{"tokens", {2, 2, 0}, {}}}, "has no tokens"},
      {"token beyond", {{"tokens", {1, 4}, {0, 1, 10, 9}}}, "has 10 at element 2, outside [0, 9]"},
      {"token negative", {{"tokens", {1, 4}, {0, 1, 2, -5}}}, "has -5 at element 3"},
      {"labels", {good, {"labels", {1, 2, 2}, {-100, 0, 9, -100}}}, nullptr},
      {"label beyond", {good, {"labels", {1, 2, 2}, {-100, 0, 10, -100}}}, "'labels' has 10 at element 2"},
      {"label -1", {good, {"labels", {1, 2, 2}, {-100, 0, -1, -100}}}, "'labels' has -1 at element 2"},
      {"labels short", {good, {"labels", {1, 2, 1}, {0, 0}}}, "'labels' has shape [1, 2, 1] instead of [1, 2, 2]"},
      {"document negative", {good, {"segment_ids", {1, 2, 2}, {1, 1, 0, -1}}}, "'segment_ids' has -1"},
      {"documents", {good, {"segment_ids", {1, 2, 2}, {2147483647, 7, 0, 0}}}, nullptr},
      {"position negative", {good, {"position_ids", {1, 2, 2}, {0, 1, -1, 0}}}, "'position_ids' has -1"},
  };
  for (const auto& c : cases) {
    std::vector<TensorDescription> tensors;
    for (const Tensor& t : c.tensors) tensors.push_back({t.name, FileDType::kI32, t.shape});
    SafetensorsWriter writer(path, tensors);
    for (const Tensor& t : c.tensors) writer.write<std::int32_t>(t.name, t.values);
    writer.finish();
    if (c.what == nullptr)
      EXPECT_NO_THROW(BatchFile(path, 10)) << c.name;
    else
      expect_error(
          kInput, c.what, path, [&] { BatchFile(path, 10); }, c.name);
  }
  SafetensorsWriter writer(path, {{"tokens", FileDType::kF32, {1, 2, 2}}});
  writer.write<float>("tokens", std::vector<float>(4));
  writer.finish();
  expect_error(kInput, "'tokens' is F32", path, [&] { BatchFile(path, 10); });
}

}  // namespace
}  // namespace longhaul::io
