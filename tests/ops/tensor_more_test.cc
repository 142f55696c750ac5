// Known values and wrong uses of ops that move, pick and multiply whole tensors.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;

const Tensor kSix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Flip, TurnsTheOrderRound) {
  EXPECT_THAT(numbers(run_op("flip", {{"X", kSix}}, {{"dims", Ints{1}}})),
              ElementsAre(3, 2, 1, 6, 5, 4));
}

TEST(Roll, WhatLeavesEntersAtTheOtherEnd) {
  EXPECT_THAT(numbers(run_op("roll", {{"X", kSix}}, {{"shifts", Longs{1}}, {"dims", Longs{1}}})),
              ElementsAre(3, 1, 2, 6, 4, 5));
}

TEST(TrilTriu, KeepsOneSideOfADiagonal) {
  EXPECT_THAT(numbers(run_op("tril_triu", {{"X", kSix}}, {{"lower", true}})),
              ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(numbers(run_op("tril_triu", {{"X", kSix}}, {{"diagonal", 1}, {"lower", false}})),
              ElementsAre(0, 2, 3, 0, 0, 6));
}

TEST(DiagEmbed, RowsBecomeDiagonals) {
  EXPECT_THAT(numbers(run_op("diag_embed", {{"Input", floats({1, 2}, {1, 2})}}, {{"offset", 1}})),
              ElementsAre(0, 1, 0, 0, 0, 2, 0, 0, 0));
}

TEST(Trace, AddsADiagonalUp) {
  EXPECT_THAT(numbers(run_op("trace", {{"Input", kSix}})), ElementsAre(6));
  EXPECT_THAT(numbers(run_op("trace", {{"Input", kSix}}, {{"offset", 1}})), ElementsAre(8));
}

TEST(SpaceToDepth, ReadsBlocksOfChannels) {
  const Tensor x = floats({1, 4, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  EXPECT_THAT(numbers(run_op("space_to_depth", {{"X", x}}, {{"blocksize", int64_t{2}}})),
              ElementsAre(0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15));
}

TEST(ExpandAs, RepeatsToTheTarget) {
  EXPECT_THAT(
      numbers(run_op("expand_as", {{"X", floats({1, 2}, {1, 2})},
                                   {"target_tensor", floats({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0})}})),
      ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
}

TEST(IndexSelect, TakesSlices) {
  EXPECT_THAT(
      numbers(run_op("index_select", {{"X", kSix}, {"Index", longs({2}, {2, 0})}}, {{"dim", 1}})),
      ElementsAre(3, 1, 6, 4));
}

TEST(ScatterNdAdd, AddsBlocksWhereTuplesPoint) {
  EXPECT_THAT(numbers(run_op("scatter_nd_add", {{"X", kSix},
                                                {"Index", longs({2, 1}, {1, 1})},
                                                {"Updates", floats({2, 3}, {1, 1, 1, 2, 2, 2})}})),
              ElementsAre(1, 2, 3, 7, 8, 9));
}

TEST(Multiplex, TakesRowsOfSeveral) {
  const Tensors out = run_op({.type = "multiplex",
                              .inputs = {{"Ids", {cast(longs({2, 1}, {1, 0}), DType::int32)}},
                                         {"X", {floats({2, 1}, {1, 2}), floats({2, 1}, {3, 4})}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(3, 2));
}

TEST(ShardIndex, GivesPlacesInThisShard) {
  const Attrs attrs = {{"index_num", 20}, {"nshards", 2}, {"shard_id", 1}};
  EXPECT_THAT(numbers(run_op("shard_index", {{"X", longs({3, 1}, {1, 12, 19})}}, attrs)),
              ElementsAre(-1, 2, 9));
  EXPECT_THAT(error_of([&] {
                run_op("shard_index", {{"X", longs({1, 1}, {20})}}, attrs);
              }),
              ::testing::HasSubstr("X[0] is 20"));
}

TEST(Eye, OnesOnTheDiagonal) {
  EXPECT_THAT(numbers(run_op("eye", {}, {{"num_rows", int64_t{2}}, {"num_columns", int64_t{3}}})),
              ElementsAre(1, 0, 0, 0, 1, 0));
  // As programs of the original say that there are as many columns as rows.
  EXPECT_THAT(numbers(run_op("eye", {}, {{"num_rows", int64_t{2}}, {"num_columns", int64_t{-1}}})),
              ElementsAre(1, 0, 0, 1));
}

TEST(Linspace, DividesEvenly) {
  EXPECT_THAT(numbers(run_op("linspace", {{"Start", floats({1}, {1})},
                                          {"Stop", floats({1}, {3})},
                                          {"Num", cast(longs({1}, {5}), DType::int32)}})),
              ElementsAre(1, 1.5, 2, 2.5, 3));
}

TEST(Size, CountsElements) {
  EXPECT_THAT(numbers(run_op("size", {{"Input", kSix}})), ElementsAre(6));
}

TEST(Meshgrid, RepeatsVectorsOverAGrid) {
  const Tensors out = run_op({.type = "meshgrid",
                              .inputs = {{"X", {floats({2}, {1, 2}), floats({3}, {3, 4, 5})}}},
                              .out_counts = {{"Out", 2}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(numbers(out.at("Out")[1]), ElementsAre(3, 4, 5, 3, 4, 5));
}

TEST(VectorProducts, KnownValues) {
  const Tensor a = floats({1, 3}, {1, 2, 3}), b = floats({1, 3}, {4, 5, 6});
  EXPECT_THAT(numbers(run_op("dot", {{"X", a}, {"Y", b}})), ElementsAre(32));
  EXPECT_THAT(numbers(run_op("cross", {{"X", a}, {"Y", b}})), ElementsAre(-3, 6, -3));
  EXPECT_THAT(numbers(run_op("kron", {{"X", floats({2}, {1, 2})}, {"Y", floats({2}, {3, 4})}})),
              ElementsAre(3, 4, 6, 8));
  EXPECT_THAT(numbers(run_op("dist", {{"X", a}, {"Y", b}}, {{"p", 1.f}})), ElementsAre(9));
  EXPECT_THAT(numbers(run_op("dist", {{"X", a}, {"Y", b}}, {{"p", INFINITY}})), ElementsAre(3));
  EXPECT_THAT(numbers(run_op("allclose", {{"Input", a}, {"Other", b}})), ElementsAre(0));
  EXPECT_THAT(numbers(run_op("allclose", {{"Input", a}, {"Other", a}})), ElementsAre(1));
}

TEST(StackedProducts, KnownValues) {
  EXPECT_THAT(numbers(run_op("bmm", {{"X", floats({2, 1, 2}, {1, 2, 3, 4})},
                                     {"Y", floats({2, 2, 1}, {5, 6, 7, 8})}})),
              ElementsAre(17, 53));
  EXPECT_THAT(numbers(run_op("fsp", {{"X", floats({1, 1, 1, 2}, {1, 2})},
                                     {"Y", floats({1, 2, 1, 2}, {3, 4, 5, 6})}})),
              ElementsAre(5.5, 8.5));
}

TEST(Arc, KnownAngles) {
  const double half_pi = std::acos(0.0);
  const Tensor ends = doubles({3}, {-1, 0, 1});
  const auto near = [](const Tensor& found, std::vector<double> wanted) {
    return max_abs_diff(found, doubles({3}, wanted)) < 1e-14;
  };
  EXPECT_TRUE(near(run_op("asin", {{"X", ends}}), {-half_pi, 0, half_pi}));
  EXPECT_TRUE(near(run_op("acos", {{"X", ends}}), {2 * half_pi, half_pi, 0}));
  EXPECT_TRUE(near(run_op("atan", {{"X", ends}}), {-half_pi / 2, 0, half_pi / 2}));
  EXPECT_TRUE(near(run_op("mish", {{"X", doubles({3}, {0, std::log(2.0), 30})}}),
                   {0, std::log(2.0) * 0.8, 30}));
}

TEST(PairLosses, KnownValues) {
  const auto one = [](double value) { return doubles({1, 1}, {value}); };
  EXPECT_THAT(
      numbers(run_op("rank_loss", {{"Label", one(1)}, {"Left", one(2)}, {"Right", one(2)}})),
      ElementsAre(std::log(2.0)));
  const Tensors margin =
      run_op({.type = "margin_rank_loss",
              .inputs = {{"X1", {one(1)}}, {"X2", {one(2)}}, {"Label", {one(1)}}},
              .attrs = {{"margin", 0.5f}}});
  EXPECT_THAT(numbers(margin.at("Out")[0]), ElementsAre(1.5));
  EXPECT_THAT(numbers(margin.at("Activated")[0]), ElementsAre(1));
  EXPECT_THAT(numbers(run_op("kldiv_loss",
                             {{"X", doubles({1, 2}, {-1, 5})}, {"Target", doubles({1, 2}, {1, 0})}},
                             {{"reduction", std::string("sum")}})),
              ElementsAre(1));
  const auto taught = [&](double label) {
    return numbers(
        run_op("teacher_student_sigmoid_loss", {{"X", one(0)}, {"Label", one(label)}}))[0];
  };
  EXPECT_DOUBLE_EQ(taught(-2), std::log(2.0));
  EXPECT_DOUBLE_EQ(taught(0.5), 2 * std::log(2.0));
}

TEST(WrongUse, WholeTensors) {
  const Tensor line = doubles({3}, {1, 2, 3});
  const Tensor square = doubles({2, 2}, {1, 2, 3, 4});
  expect_refused({
      spoiled("flip", {}, {{"dims", Ints{3}}}, "dims"),
      spoiled("roll", {}, {{"dims", Longs{0}}}, "shifts is [1, -2] but dims [0]"),
      spoiled("tril_triu", {{"X", {line}}}, {}, "X has shape [3]"),
      spoiled("diag_embed", {}, {{"dim1", 2}}, "dim1 and dim2 are both 2"),
      spoiled("trace", {}, {{"dim1", 2}}, "dim1 and dim2 are both 2"),
      spoiled("space_to_depth", {}, {{"blocksize", int64_t{3}}}, "blocksize is 3"),
      spoiled("expand_as", {{"target_tensor", {line}}}, {}, "target_tensor [3]"),
      spoiled("index_select", {{"Index", {line}}}, {}, "must hold int32 or int64"),
      spoiled("scatter_nd_add", {{"Updates", {line}}}, {}, "Updates has shape [3]"),
      spoiled("multiplex", {{"X", {square, line}}}, {}, "X[1] has shape [3]"),
      {"shard_index",
       {{"X", {longs({1, 1}, {1})}}},
       {{"index_num", 20}, {"nshards", 2}, {"shard_id", 2}},
       "shard_id is 2 but nshards 2"},
      {"eye", {}, {{"num_rows", int64_t{2}}, {"dtype", 99}}, "dtype"},
      {"eye", {}, {{"num_rows", int64_t{2}}, {"num_columns", int64_t{-2}}}, "num_columns"},
      {"linspace",
       {{"Start", {longs({1}, {1})}}, {"Stop", {longs({1}, {1})}}, {"Num", {longs({1}, {1})}}},
       {},
       "Start"},
      spoiled("meshgrid", {{"X", {square, line}}}, {}, "X[0] has shape [2, 2]"),
      spoiled("dot", {{"Y", {line}}}, {}, "Y [3]"),
      spoiled("kron", {{"X", {longs({1, 1, 1, 1, 1}, {1})}}}, {}, "declare all extents"),
      spoiled("cross", {{"X", {square}}, {"Y", {square}}}, {}, "X has shape [2, 2]"),
      spoiled("dist", {{"X", {longs({2}, {1, 2})}}}, {}, "int64"),
      {"allclose", {{"Input", {line}}, {"Other", {square}}}, {}, "Other [2, 2]"},
      spoiled("bmm", {{"X", {square}}}, {}, "X has shape [2, 2]"),
      spoiled("fsp", {{"X", {square}}}, {}, "X has shape [2, 2]"),
      spoiled("asin", {{"X", {longs({1}, {1})}}}, {}, "int64"),
      spoiled("acos", {{"X", {longs({1}, {1})}}}, {}, "int64"),
      spoiled("atan", {{"X", {longs({1}, {1})}}}, {}, "int64"),
      spoiled("mish", {{"X", {longs({1}, {1})}}}, {}, "int64"),
      spoiled("rank_loss", {{"Left", {line}}}, {}, "Left [3]"),
      spoiled("margin_rank_loss", {{"Label", {line}}}, {}, "Label [3]"),
      spoiled("kldiv_loss", {{"Target", {line}}}, {}, "Target [3]"),
      spoiled("teacher_student_sigmoid_loss", {{"X", {line}}, {"Label", {line}}}, {},
              "X has shape [3]"),
      {"size", {{"Input", {}}}, {}, "Input"},
  });
}

}  // namespace
}  // namespace trireme::testing
