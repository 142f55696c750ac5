// Edit distances and chunk counts of sequences written out by hand.
#include <gmock/gmock.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor words(const std::string& text, std::vector<int64_t> offsets) {
  std::vector<int64_t> values;
  for (const char c : text) values.push_back(c);
  Tensor tensor = longs({static_cast<int64_t>(values.size()), 1}, values);
  tensor.set_lod({std::move(offsets)});
  return tensor;
}

TEST(EditDistance, CountsChangesPerSequence) {
  const OpCall call{.type = "edit_distance",
                    .inputs = {{"Hyps", {words("kittensunday", {0, 6, 12, 12})}},
                               {"Refs", {words("sittingsaturdayab", {0, 7, 15, 17})}}}};
  const Tensors out = run_op(call);
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(3, 3, 2));
  EXPECT_THAT(numbers(out.at("SequenceNum")[0]), ElementsAre(3));
  EXPECT_EQ(out.at("Out")[0].shape(), Shape({3, 1}));
  OpCall normalized = call;
  normalized.attrs["normalized"] = true;
  EXPECT_THAT(numbers(run_op(normalized).at("Out")[0]), ElementsAre(3.0f / 7, 3.0f / 8, 1));
}

TEST(EditDistance, LengthsTakeTheFirstWordsOfARow) {
  const Tensors out = run_op(OpCall{.type = "edit_distance",
                                    .inputs = {{"Hyps", {longs({2, 3}, {1, 2, 9, 4, 5, 6})}},
                                               {"Refs", {longs({2, 2}, {1, 2, 4, 7})}},
                                               {"HypsLength", {longs({2}, {2, 3})}},
                                               {"RefsLength", {longs({2}, {2, 1})}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(0, 2));
}

TEST(EditDistance, AnEmptyReferenceCannotBeNormalized) {
  EXPECT_THAT(error_of([] {
                run_op(OpCall{.type = "edit_distance",
                              .inputs = {{"Hyps", {words("ab", {0, 1, 2})}},
                                         {"Refs", {words("a", {0, 1, 1})}}},
                              .attrs = {{"normalized", true}}});
              }),
              HasSubstr("reference 1 is empty"));
}

// Counts: inferred, labelled, correct.
std::vector<double> counts(const std::string& scheme, int types, std::vector<int64_t> inferred,
                           std::vector<int64_t> labels, std::vector<int32_t> excluded = {}) {
  const auto n = static_cast<int64_t>(labels.size());
  Tensor a = longs({n, 1}, inferred), b = longs({n, 1}, labels);
  a.set_lod({{0, n}});
  b.set_lod({{0, n}});
  const Tensors out = run_op(OpCall{.type = "chunk_eval",
                                    .inputs = {{"Inference", {a}}, {"Label", {b}}},
                                    .attrs = {{"num_chunk_types", types},
                                              {"chunk_scheme", scheme},
                                              {"excluded_chunk_types", excluded}}});
  return {numbers(out.at("NumInferChunks")[0])[0], numbers(out.at("NumLabelChunks")[0])[0],
          numbers(out.at("NumCorrectChunks")[0])[0]};
}

TEST(ChunkEval, ReadsEveryScheme) {
  // IOB with two types: B0 I0 B1 I1 O are 0 1 2 3 4. Labels: [0 1] outside [2 3] [2].
  EXPECT_THAT(counts("IOB", 2, {0, 1, 4, 2, 2, 3}, {0, 1, 4, 2, 3, 2}), ElementsAre(3, 3, 1));
  // An inside that follows another type begins a chunk.
  EXPECT_THAT(counts("IOB", 2, {1, 1, 3, 4}, {0, 1, 2, 4}), ElementsAre(2, 2, 2));
  // IOE: I0 E0 are 0 1: a chunk ends with E.
  EXPECT_THAT(counts("IOE", 1, {0, 1, 0, 1, 2}, {0, 0, 0, 1, 2}), ElementsAre(2, 1, 0));
  // IOBES: B I E S are 0 1 2 3.
  EXPECT_THAT(counts("IOBES", 1, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 3}), ElementsAre(2, 3, 2));
  // plain: neighbours of one type are one chunk.
  EXPECT_THAT(counts("plain", 3, {0, 0, 1, 3, 2}, {0, 0, 1, 1, 2}), ElementsAre(3, 3, 2));
  EXPECT_THAT(counts("plain", 3, {0, 0, 1, 3, 2}, {0, 0, 1, 1, 2}, {2}), ElementsAre(2, 2, 1));
}

TEST(ChunkEval, GivesPrecisionRecallAndTheirMean) {
  const Tensors out = run_op(OpCall{.type = "chunk_eval",
                                    .inputs = {{"Inference", {longs({2, 3}, {0, 4, 9, 0, 0, 2})}},
                                               {"Label", {longs({2, 3}, {0, 2, 9, 0, 1, 2})}},
                                               {"SeqLength", {longs({2}, {2, 3})}}},
                                    .attrs = {{"num_chunk_types", 2}}});
  // Inferred: [0], then [0] [0] [2]; labelled: [0] [2], then [0 1] [2]; correct: the first, the
  // last.
  EXPECT_THAT(numbers(out.at("Precision")[0]), ElementsAre(0.5));
  EXPECT_THAT(numbers(out.at("Recall")[0]), ElementsAre(0.5));
  EXPECT_THAT(numbers(out.at("F1-Score")[0]), ElementsAre(0.5));
}

TEST(ChunkEval, ALabelAboveTheSchemeIsNamed) {
  EXPECT_THAT(error_of([] {
                counts("IOB", 1, {0, 3}, {0, 1});
              }),
              HasSubstr("Inference holds 3 but labels go from 0 to 2"));
}

}  // namespace
}  // namespace trireme::testing
