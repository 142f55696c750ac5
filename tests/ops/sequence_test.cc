// Sequence ops on small inputs worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/schema.h"
#include "tests/ops/small.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using Values = std::vector<double>;

Tensor sequences(Tensor tensor, Lod lod) {
  tensor.set_lod(std::move(lod));
  return tensor;
}

// Three sequences of 2, 0 and 3 rows.
Tensor rows5() {
  return sequences(doubles({5, 2}, {1, 8, 3, 4, 2, 1, 9, 0, 4, 5}), {{0, 2, 2, 5}});
}

TEST(SequencePool, OneRowForEverySequence) {
  const double r2 = std::sqrt(2.0), r3 = std::sqrt(3.0);
  const std::vector<std::pair<std::string, Values>> cases = {
      {"SUM", {4, 12, 7, 7, 15, 6}},
      {"AVERAGE", {2, 6, 7, 7, 5, 2}},
      {"SQRT", {4 / r2, 12 / r2, 7, 7, 15 / r3, 6 / r3}},
      {"MAX", {3, 8, 7, 7, 9, 5}},
      {"FIRST", {1, 8, 7, 7, 2, 1}},
      {"LAST", {3, 4, 7, 7, 4, 5}},
  };
  for (const auto& [how, expected] : cases) {
    const Tensor out =
        run_op("sequence_pool", {{"X", rows5()}}, {{"pooltype", how}, {"pad_value", 7.0f}});
    EXPECT_LT(max_abs_diff(out, doubles({3, 2}, expected)), 1e-12) << how;
    EXPECT_TRUE(out.lod().empty());
  }
}

TEST(SequencePool, KeepsTheRowOfEveryMaximum) {
  const Tensors out = run_op({.type = "sequence_pool",
                              .inputs = {{"X", {rows5()}}},
                              .attrs = {{"pooltype", std::string("MAX")}}});
  EXPECT_EQ(numbers(out.at("MaxIndex")[0]), (Values{1, 0, -1, -1, 3, 4}));
}

TEST(SequencePool, UsesUpTheLastLevel) {
  const Tensor x = sequences(rows5(), {{0, 1, 3}, {0, 2, 2, 5}});
  const Tensor out = run_op("sequence_pool", {{"X", x}}, {{"pooltype", std::string("SUM")}});
  EXPECT_EQ(numbers(out), (Values{4, 12, 0, 0, 15, 6}));
  EXPECT_EQ(out.lod(), (Lod{{0, 1, 3}}));
}

TEST(SequencePool, WithoutSequencesIsAnErrorThatSaysHowToFeedThem) {
  const std::string error = error_of([] {
    run_op("sequence_pool", {{"X", doubles({2, 1}, {1, 2})}});
  });
  EXPECT_NE(error.find("has no LoD"), std::string::npos) << error;
  EXPECT_NE(error.find("create_lod_tensor"), std::string::npos) << error;
}

TEST(SequenceSoftmax, EverySequenceSumsToOne) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 1000, 1000}), {{0, 2, 2, 4}});
  const Tensor out = run_op("sequence_softmax", {{"X", x}});
  const double e = std::exp(1.0);
  EXPECT_LT(max_abs_diff(out, doubles({4, 1}, {1 / (1 + e), e / (1 + e), 0.5, 0.5})), 1e-12);
  EXPECT_EQ(out.lod(), x.lod());
}

TEST(SequenceSoftmax, TakesOneNumberARow) {
  const std::string error = error_of([] { run_op("sequence_softmax", {{"X", rows5()}}); });
  EXPECT_NE(error.find("one number for every row"), std::string::npos) << error;
}

TEST(SequenceExpand, RepeatsSequences) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 2, 4}});
  const Tensor y = sequences(doubles({4, 1}, {0, 0, 0, 0}), {{0, 2, 4}, {0, 3, 4, 4, 4}});
  const Tensor out = run_op("sequence_expand", {{"X", x}, {"Y", y}}, {{"ref_level", 0}});
  EXPECT_EQ(numbers(out), (Values{1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 4, 6, 8}}));
}

TEST(SequenceExpand, RepeatsRowsWhereXHasNoSequences) {
  const Tensor y = sequences(doubles({5, 1}, {0, 0, 0, 0, 0}), {{0, 2, 2, 5}});
  const Tensor out = run_op("sequence_expand", {{"X", doubles({3, 1}, {1, 2, 3})}, {"Y", y}});
  EXPECT_EQ(numbers(out), (Values{1, 1, 3, 3, 3}));
  EXPECT_TRUE(out.lod().empty());
}

TEST(SequenceExpand, ALevelThatYDoesNotHaveIsAnError) {
  const std::string error = error_of([] {
    run_op("sequence_expand", {{"X", doubles({3, 1}, {1, 2, 3})}, {"Y", rows5()}},
           {{"ref_level", 1}});
  });
  EXPECT_NE(error.find("ref_level is 1 but Y has 1 LoD levels"), std::string::npos) << error;
}

TEST(SequenceExpandAs, RepeatsRowsToTheLengthsOfY) {
  const Tensor out =
      run_op("sequence_expand_as", {{"X", doubles({3, 1}, {1, 2, 3})}, {"Y", rows5()}});
  EXPECT_EQ(numbers(out), (Values{1, 1, 3, 3, 3}));
  EXPECT_EQ(out.lod(), rows5().lod());
  const std::string error = error_of([] {
    run_op("sequence_expand_as", {{"X", doubles({2, 1}, {1, 2})}, {"Y", rows5()}});
  });
  EXPECT_NE(error.find("X has 2 rows but Y has 3 sequences"), std::string::npos) << error;
}

TEST(SequenceConcat, JoinsSequenceBySequence) {
  const Tensor a = sequences(doubles({3, 1}, {1, 2, 3}), {{0, 2, 3}});
  const Tensor b = sequences(doubles({2, 1}, {4, 5}), {{0, 0, 2}});
  const Tensors out = run_op({.type = "sequence_concat", .inputs = {{"X", {a, b}}}});
  EXPECT_EQ(numbers(out.at("Out")[0]), (Values{1, 2, 3, 4, 5}));
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 2, 5}}));
  const std::string error = error_of([&] {
    run_op({.type = "sequence_concat", .inputs = {{"X", {a, sequences(b, {{0, 2}})}}}});
  });
  EXPECT_NE(error.find("X[1] has 1 sequences but X[0] has 2"), std::string::npos) << error;
}

TEST(SequenceReverse, TurnsEverySequenceRound) {
  const Tensor out = run_op("sequence_reverse", {{"X", rows5()}});
  EXPECT_EQ(numbers(out), (Values{3, 4, 1, 8, 4, 5, 9, 0, 2, 1}));
  EXPECT_EQ(out.lod(), rows5().lod());
  error_of([] { run_op("sequence_reverse", {{"X", doubles({2, 1}, {1, 2})}}); });
}

TEST(SequenceReshape, KeepsElementsWithTheirSequence) {
  const Tensor x = sequences(doubles({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), {{0, 1, 3}});
  const Tensor out = run_op("sequence_reshape", {{"X", x}}, {{"new_dim", 2}});
  EXPECT_EQ(out.shape(), (Shape{6, 2}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 6}}));
  EXPECT_EQ(numbers(out), numbers(x));
  const std::string error = error_of([&] {
    run_op("sequence_reshape", {{"X", x}}, {{"new_dim", 3}});
  });
  EXPECT_NE(error.find("do not fill rows of 3"), std::string::npos) << error;
}

TEST(SequencePad, FillsUpToTheLongest) {
  const Tensors out = run_op(
      {.type = "sequence_pad", .inputs = {{"X", {rows5()}}, {"PadValue", {doubles({1}, {-1})}}}});
  EXPECT_EQ(out.at("Out")[0].shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(numbers(out.at("Out")[0]), (Values{1, 8, 3, 4, -1, -1,  //
                                               -1, -1, -1, -1, -1, -1, 2, 1, 9, 0, 4, 5}));
  EXPECT_EQ(numbers(out.at("Length")[0]), (Values{2, 0, 3}));
}

TEST(SequencePad, FillsWithARow) {
  const Tensor x = sequences(doubles({1, 2}, {1, 2}), {{0, 0, 1}});
  const Tensor out = run_op("sequence_pad", {{"X", x}, {"PadValue", doubles({2}, {5, 6})}},
                            {{"padded_length", 2}});
  EXPECT_EQ(numbers(out), (Values{5, 6, 5, 6, 1, 2, 5, 6}));
}

TEST(SequencePad, ALengthThatIsTooShortIsAnError) {
  const std::string error = error_of([] {
    run_op("sequence_pad", {{"X", rows5()}, {"PadValue", doubles({1}, {0})}},
           {{"padded_length", 2}});
  });
  EXPECT_NE(error.find("padded_length is 2 but a sequence of X has 3 rows"), std::string::npos)
      << error;
}

TEST(SequenceUnpad, IsTheOtherWayRound) {
  const Tensor x = doubles({3, 3}, {1, 2, 0, 0, 0, 0, 3, 4, 5});
  const Tensor out = run_op("sequence_unpad", {{"X", x}, {"Length", longs({3}, {2, 0, 3})}});
  EXPECT_EQ(out.shape(), (Shape{5, 1}));
  EXPECT_EQ(numbers(out), (Values{1, 2, 3, 4, 5}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 2, 5}}));
  const std::string error = error_of([&] {
    run_op("sequence_unpad", {{"X", x}, {"Length", longs({3}, {2, 4, 3})}});
  });
  EXPECT_NE(error.find("Length[1] is 4 but X is padded to 3"), std::string::npos) << error;
}

TEST(SequenceMask, MarksWhatLiesInside) {
  const Attrs floats = {{"out_dtype", static_cast<int>(DType::float32)}};
  const Tensor x = longs({3}, {2, 0, 3});
  const Tensor found = run_op("sequence_mask", {{"X", x}}, floats);
  EXPECT_EQ(found.shape(), (Shape{3, 3}));
  EXPECT_EQ(numbers(found), (Values{1, 1, 0, 0, 0, 0, 1, 1, 1}));
  Attrs two = floats;
  two["maxlen"] = 2;
  EXPECT_EQ(numbers(run_op("sequence_mask", {{"X", x}}, two)), (Values{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(run_op("sequence_mask", {{"X", x}, {"MaxLenTensor", longs({1}, {4})}}, floats).shape(),
            (Shape{3, 4}));
  const std::string error = error_of([&] {
    run_op("sequence_mask", {{"X", x}}, {{"out_dtype", 99}});
  });
  EXPECT_NE(error.find("out_dtype is 99"), std::string::npos) << error;
}

TEST(SequenceSlice, TakesAPieceOfEverySequence) {
  const Tensor x = sequences(doubles({5, 1}, {1, 2, 3, 4, 5}), {{0, 3, 5}});
  const Tensor out =
      run_op("sequence_slice",
             {{"X", x}, {"Offset", longs({2, 1}, {1, 0})}, {"Length", longs({2, 1}, {2, 1})}});
  EXPECT_EQ(numbers(out), (Values{2, 3, 4}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 3}}));
  const std::string error = error_of([&] {
    run_op("sequence_slice",
           {{"X", x}, {"Offset", longs({2, 1}, {1, 0})}, {"Length", longs({2, 1}, {3, 1})}});
  });
  EXPECT_NE(error.find("reach outside sequence 0, which has 3 rows"), std::string::npos) << error;
}

TEST(SequenceErase, LeavesTokensOut) {
  const Tensor x = sequences(longs({6, 1}, {2, 5, 2, 7, 7, 2}), {{0, 3, 6}});
  const Tensor out = run_op("sequence_erase", {{"X", x}}, {{"tokens", std::vector<int>{2, 7}}});
  EXPECT_EQ(numbers(out), (Values{5}));
  EXPECT_EQ(out.lod(), (Lod{{0, 1, 1}}));
}

TEST(SequenceEnumerate, ShowsAWindowAtEveryRow) {
  const Tensor x = sequences(longs({4, 1}, {1, 2, 3, 4}), {{0, 3, 4}});
  const Tensor out = run_op("sequence_enumerate", {{"X", x}}, {{"win_size", 2}, {"pad_value", 9}});
  EXPECT_EQ(numbers(out), (Values{1, 2, 2, 3, 3, 9, 4, 9}));
  EXPECT_EQ(out.lod(), x.lod());
}

TEST(LodReset, TakesTheLodOfYThenItsNumbersThenTheTarget) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 4}});
  const Tensor y = sequences(doubles({4, 1}, {0, 0, 0, 0}), {{0, 1, 2}, {0, 3, 4}});
  EXPECT_EQ(run_op("lod_reset", {{"X", x}, {"Y", y}}).lod(), y.lod());
  EXPECT_EQ(run_op("lod_reset", {{"X", x}, {"Y", longs({3}, {0, 1, 4})}}).lod(), (Lod{{0, 1, 4}}));
  const Tensor out = run_op("lod_reset", {{"X", x}}, {{"target_lod", std::vector<int>{0, 2, 4}}});
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 4}}));
  EXPECT_EQ(numbers(out), numbers(x));
}

TEST(LodReset, AppendsALevel) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 2}});
  Tensor two = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 1, 4}});
  two.set_lod({{0, 1, 4}});
  const Tensor out = run_op("lod_reset", {{"X", two}},
                            {{"target_lod", std::vector<int>{0, 1, 2, 3, 4}}, {"append", true}});
  EXPECT_EQ(out.lod(), (Lod{{0, 1, 4}, {0, 1, 2, 3, 4}}));
}

TEST(LodReset, OffsetsThatDoNotEndAtTheRowsAreAnError) {
  const std::string error = error_of([] {
    run_op("lod_reset", {{"X", doubles({4, 1}, {1, 2, 3, 4})}},
           {{"target_lod", std::vector<int>{0, 2, 5}}});
  });
  EXPECT_NE(error.find("does not fit X [4, 1]"), std::string::npos) << error;
}

// The convolution written out: for every row and filter, a sum over the context.
TEST(SequenceConv, SeesTheNeighboursOfTheSameSequence) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 3, 3, 4}});
  const Tensor filter = doubles({3, 1}, {100, 10, 1});
  const Attrs attrs = {{"contextStart", -1}, {"contextLength", 3}};
  const Tensor out = run_op("sequence_conv", {{"X", x}, {"Filter", filter}}, attrs);
  EXPECT_EQ(numbers(out), (Values{12, 123, 230, 40}));
  EXPECT_EQ(out.lod(), x.lod());
}

TEST(SequenceConv, TrainablePaddingStandsBeforeAndAfter) {
  const Tensor x = sequences(doubles({4, 1}, {1, 2, 3, 4}), {{0, 3, 3, 4}});
  const Attrs attrs = {{"contextStart", -1}, {"contextLength", 3}, {"paddingTrainable", true}};
  const Tensor out = run_op("sequence_conv",
                            {{"X", x},
                             {"Filter", doubles({3, 1}, {100, 10, 1})},
                             {"PaddingData", doubles({2, 1}, {8, 9})}},
                            attrs);
  EXPECT_EQ(numbers(out), (Values{812, 123, 239, 849}));
  const std::string error = error_of([&] {
    run_op("sequence_conv", {{"X", x}, {"Filter", doubles({3, 1}, {100, 10, 1})}}, attrs);
  });
  EXPECT_NE(error.find("PaddingData is absent"), std::string::npos) << error;
}

TEST(SequenceConv, AFilterOfAnotherHeightIsAnError) {
  const std::string error = error_of([] {
    run_op("sequence_conv", {{"X", rows5()}, {"Filter", doubles({3, 1}, {1, 2, 3})}},
           {{"contextLength", 3}});
  });
  EXPECT_NE(error.find("Filter has 3 rows but contextLength 3 times the width 2 of X is 6"),
            std::string::npos)
      << error;
}

TEST(RowConv, SeesAheadWithinItsSequence) {
  const Tensor out = run_op("row_conv", {{"X", with_lod(doubles({3, 1}, {1, 2, 3}), {{0, 2, 3}})},
                                         {"Filter", doubles({2, 1}, {1, 10})}});
  EXPECT_EQ(numbers(out), (std::vector<double>{1 + 20, 2, 3}));
  EXPECT_EQ(out.lod(), (Lod{{0, 2, 3}}));
}

TEST(RowConv, RowsOfAPaddedBatchSeeTheirOwn) {
  const Tensor out = run_op(
      "row_conv", {{"X", doubles({2, 2, 1}, {1, 2, 3, 4})}, {"Filter", doubles({2, 1}, {1, 10})}});
  EXPECT_EQ(numbers(out), (std::vector<double>{1 + 20, 2, 3 + 40, 4}));
}

}  // namespace
}  // namespace trireme::testing
