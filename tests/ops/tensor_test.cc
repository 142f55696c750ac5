// Known values and wrong uses of constants, shape changes, joins, slices and indexing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

const Tensor& counted() {
  static const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  return x;
}
Tensor narrow(const Shape& shape, const Longs& values) {
  return cast(longs(shape, values), DType::int32);
}

// ---- constants and copies

TEST(Fill, ConstantsKeepAllDigitsOfWholeNumbers) {
  const Tensor out = run_op("fill_constant", {},
                            {{"shape", Longs{2}}, {"dtype", 3}, {"str_value", "9007199254740993"}});
  EXPECT_EQ(out.data<int64_t>()[1], 9007199254740993);
}

TEST(Fill, ConstantTakesItsShapeFromTensors) {
  const Tensors out = run_op({.type = "fill_constant",
                              .inputs = {{"ShapeTensor", {narrow({2}, {2, 3})}}},
                              .attrs = {{"value", 1.5f}}});
  EXPECT_EQ(out.at("Out")[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(numbers(out.at("Out")[0])[5], 1.5);
}

TEST(Fill, BatchSizeLikeTakesOneExtent) {
  const Tensor out = run_op("fill_constant_batch_size_like", {{"Input", counted()}},
                            {{"shape", Ints{-1, 4}}, {"value", 2.f}});
  EXPECT_EQ(out.shape(), (Shape{2, 4}));
  EXPECT_THAT(numbers(out), ::testing::Each(2));
}

TEST(Fill, TheBatchOfSequencesIsTheirNumber) {
  Tensor x = floats({5, 1}, {1, 2, 3, 4, 5});
  x.set_lod({{0, 2, 5}});
  const Tensor out =
      run_op("fill_constant_batch_size_like", {{"Input", x}}, {{"shape", Ints{-1, 4}}});
  EXPECT_EQ(out.shape(), (Shape{2, 4}));
}

TEST(Fill, LikeAndValuesAndShape) {
  EXPECT_THAT(numbers(run_op("fill_any_like", {{"X", longs({2}, {7, 8})}}, {{"value", 3.f}})),
              ElementsAre(3, 3));
  EXPECT_THAT(numbers(run_op("fill_zeros_like", {{"X", longs({2}, {7, 8})}})), ElementsAre(0, 0));
  EXPECT_THAT(numbers(run_op("assign", {{"X", longs({2}, {7, 8})}})), ElementsAre(7, 8));
  EXPECT_THAT(numbers(run_op("assign_value", {},
                             {{"shape", Ints{2}}, {"dtype", 2}, {"int32_values", Ints{4, 5}}})),
              ElementsAre(4, 5));
  EXPECT_THAT(numbers(run_op("shape", {{"Input", counted()}})), ElementsAre(2, 3));
  EXPECT_THAT(numbers(run_op("range", {{"Start", longs({1}, {5})},
                                       {"End", longs({1}, {0})},
                                       {"Step", longs({1}, {-2})}})),
              ElementsAre(5, 3, 1));
  EXPECT_THAT(numbers(run_op("diag", {{"Diagonal", floats({2}, {1, 2})}})),
              ElementsAre(1, 0, 0, 2));
}

TEST(Fill, TextThatIsNoNumberIsRefused) {
  const std::string what = error_of([] {
    run_op("fill_constant", {}, {{"shape", Longs{1}}, {"str_value", "seven"}});
  });
  EXPECT_THAT(what, HasSubstr("str_value is \"seven\", which is no number"));
}

TEST(Fill, ARangeThatGoesTheWrongWayIsRefused) {
  const std::string what = error_of([] {
    run_op("range",
           {{"Start", longs({1}, {0})}, {"End", longs({1}, {5})}, {"Step", longs({1}, {-1})}});
  });
  EXPECT_THAT(what, HasSubstr("no steps of -1 lead from 0 to 5"));
}

TEST(Fill, ValuesMustFillTheShape) {
  const std::string what = error_of([] {
    run_op("assign_value", {}, {{"shape", Ints{3}}, {"dtype", 2}, {"int32_values", Ints{4, 5}}});
  });
  EXPECT_THAT(what, HasSubstr("shape [3] and 2 values of type int32 do not fit"));
}

// ---- shapes

TEST(Reshape, ZeroCopiesAndMinusOneIsInferred) {
  const Tensors out = run_op({.type = "reshape2",
                              .inputs = {{"X", {floats({2, 1, 3}, {1, 2, 3, 4, 5, 6})}}},
                              .attrs = {{"shape", Ints{0, -1}}}});
  EXPECT_EQ(out.at("Out")[0].shape(), (Shape{2, 3}));
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(out.at("XShape")[0].shape(), (Shape{0, 2, 1, 3}));
}

TEST(Reshape, TakesItsShapeFromATensor) {
  const Tensors out = run_op({.type = "reshape2",
                              .inputs = {{"X", {counted()}}, {"Shape", {narrow({2}, {3, -1})}}},
                              .attrs = {{"shape", Ints{}}}});
  EXPECT_EQ(out.at("Out")[0].shape(), (Shape{3, 2}));
}

TEST(Reshape, OtherElementCountsAreRefused) {
  const std::string what = error_of([] {
    run_op("reshape2", {{"X", counted()}}, {{"shape", Ints{4, 2}}});
  });
  EXPECT_THAT(what, HasSubstr("X of shape [2, 3] has 6 elements but shape [4, 2] has 8"));
}

TEST(Reshape, SqueezeUnsqueezeFlattenTranspose) {
  const Tensor x = floats({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op("squeeze2", {{"X", x}}, {{"axes", Ints{0}}}).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(run_op("squeeze2", {{"X", x}}).shape(), (Shape{2, 3}));
  EXPECT_EQ(run_op("unsqueeze2", {{"X", counted()}}, {{"axes", Ints{0, 2}}}).shape(),
            (Shape{1, 2, 1, 3}));
  EXPECT_EQ(run_op("flatten2", {{"X", x}}, {{"axis", 2}}).shape(), (Shape{2, 3}));
  for (const char* op : {"squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "reshape"}) {
    const bool reshapes = std::string(op) == "reshape";
    const Attrs attrs = {{reshapes ? "shape" : "axes", reshapes ? Ints{1, 6} : Ints{0}}};
    EXPECT_THAT(numbers(run_op(op, {{"X", x}}, attrs)), ElementsAre(1, 2, 3, 4, 5, 6)) << op;
  }
  for (const char* op : {"flatten", "flatten2"}) {
    const Tensor flat = run_op(op, {{"X", x}}, {{"axis", 2}});
    EXPECT_EQ(flat.shape(), (Shape{2, 3}));
    EXPECT_THAT(numbers(flat), ElementsAre(1, 2, 3, 4, 5, 6)) << op;
  }
  EXPECT_THAT(numbers(run_op("transpose", {{"X", counted()}}, {{"axis", Ints{1, 0}}})),
              ElementsAre(1, 4, 2, 5, 3, 6));
  const Tensor turned = run_op("transpose2", {{"X", counted()}}, {{"axis", Ints{1, 0}}});
  EXPECT_EQ(turned.shape(), (Shape{3, 2}));
  EXPECT_THAT(numbers(turned), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Reshape, WrongUsesAreNamed) {
  EXPECT_THAT(error_of([] {
                run_op("squeeze2", {{"X", counted()}}, {{"axes", Ints{1}}});
              }),
              HasSubstr("axis 1 of X [2, 3] has 3 elements"));
  EXPECT_THAT(error_of([] {
                run_op("unsqueeze2", {{"X", counted()}}, {{"axes", Ints{5}}});
              }),
              HasSubstr("axes is 5"));
  EXPECT_THAT(error_of([] {
                run_op("flatten2", {{"X", counted()}}, {{"axis", 3}});
              }),
              HasSubstr("axis is 3 but X has 2 dimensions"));
  EXPECT_THAT(error_of([] {
                run_op("transpose2", {{"X", counted()}}, {{"axis", Ints{0, 0}}});
              }),
              HasSubstr("axis is [0, 0] but X has 2 dimensions"));
}

// ---- joins

TEST(Join, ConcatAndSplitUndoEachOther) {
  const Tensor b = floats({2, 1}, {10, 20});
  const Tensors joined =
      run_op({.type = "concat", .inputs = {{"X", {counted(), b}}}, .attrs = {{"axis", -1}}});
  EXPECT_THAT(numbers(joined.at("Out")[0]), ElementsAre(1, 2, 3, 10, 4, 5, 6, 20));
  const Tensors parts = run_op({.type = "split",
                                .inputs = {{"X", {joined.at("Out")[0]}}},
                                .attrs = {{"axis", 1}, {"sections", Ints{3, -1}}},
                                .out_counts = {{"Out", 2}}});
  EXPECT_EQ(numbers(parts.at("Out")[0]), numbers(counted()));
  EXPECT_EQ(numbers(parts.at("Out")[1]), numbers(b));
}

TEST(Join, ConcatOfSequencesJoinsTheirLod) {
  Tensor a = floats({3, 1}, {1, 2, 3}), b = floats({2, 1}, {4, 5});
  a.set_lod({{0, 1, 3}});
  b.set_lod({{0, 2}});
  const Tensors out = run_op({.type = "concat", .inputs = {{"X", {a, b}}}});
  EXPECT_EQ(out.at("Out")[0].lod(), (Lod{{0, 1, 3, 5}}));
}

TEST(Join, StackUnstackExpandReverse) {
  const Tensor a = floats({2}, {1, 2}), b = floats({2}, {3, 4});
  const Tensors stacked =
      run_op({.type = "stack", .inputs = {{"X", {a, b}}}, .attrs = {{"axis", 1}}});
  EXPECT_THAT(numbers(stacked.at("Y")[0]), ElementsAre(1, 3, 2, 4));
  const Tensors apart = run_op({.type = "unstack",
                                .inputs = {{"X", {counted()}}},
                                .attrs = {{"axis", 0}, {"num", 2}},
                                .out_counts = {{"Y", 2}}});
  EXPECT_THAT(numbers(apart.at("Y")[1]), ElementsAre(4, 5, 6));
  EXPECT_THAT(
      numbers(run_op("expand", {{"X", floats({1, 2}, {1, 2})}}, {{"expand_times", Ints{2, 2}}})),
      ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(numbers(run_op("reverse", {{"X", counted()}}, {{"axis", Ints{1}}})),
              ElementsAre(3, 2, 1, 6, 5, 4));
}

TEST(Join, WrongUsesAreNamed) {
  EXPECT_THAT(error_of([] {
                run_op({.type = "concat",
                        .inputs = {{"X", {counted(), floats({1, 1}, {1})}}},
                        .attrs = {{"axis", 1}}});
              }),
              HasSubstr("dimension 0 is 1 in X[1] but 2 before"));
  EXPECT_THAT(error_of([] {
                run_op({.type = "split",
                        .inputs = {{"X", {counted()}}},
                        .attrs = {{"num", 2}, {"axis", 1}},
                        .out_counts = {{"Out", 2}}});
              }),
              HasSubstr("which do not divide into 2 equal parts"));
  EXPECT_THAT(error_of([] {
                run_op({.type = "split",
                        .inputs = {{"X", {counted()}}},
                        .attrs = {{"sections", Ints{1, 3}}, {"axis", 1}},
                        .out_counts = {{"Out", 2}}});
              }),
              HasSubstr("sections [1, 3] add up to 4 but dimension 1 of X [2, 3] has 3"));
  EXPECT_THAT(error_of([] {
                run_op("expand", {{"X", counted()}}, {{"expand_times", Ints{2}}});
              }),
              HasSubstr("has 1 numbers but X has 2 dimensions"));
  EXPECT_THAT(error_of([] {
                run_op({.type = "stack", .inputs = {{"X", {counted(), floats({1}, {1})}}}});
              }),
              HasSubstr("stack tensors of one shape"));
}

// A batch without rows goes through every family.
TEST(Empty, TensorsWithoutElementsStayEmpty) {
  const Tensor none(DType::float32, {0, 3});
  EXPECT_EQ(run_op("relu", {{"X", none}}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run_op("elementwise_add", {{"X", none}, {"Y", floats({3}, {1, 2, 3})}}).shape(),
            (Shape{0, 3}));
  EXPECT_EQ(run_op("reduce_sum", {{"X", none}}, {{"dim", Ints{1}}}).shape(), (Shape{0}));
  EXPECT_THAT(numbers(run_op("reduce_sum", {{"X", none}}, {{"dim", Ints{0}}})),
              ElementsAre(0, 0, 0));
  EXPECT_EQ(run_op("transpose", {{"X", none}}, {{"axis", Ints{1, 0}}}).shape(), (Shape{3, 0}));
  EXPECT_EQ(run_op("reshape", {{"X", none}}, {{"shape", Ints{0, 3, 1}}}).shape(), (Shape{0, 3, 1}));
  EXPECT_EQ(run_op("top_k", {{"X", none}}, {{"k", 2}}).shape(), (Shape{0, 2}));
  EXPECT_EQ(run_op("cumsum", {{"X", none}}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run_op("expand", {{"X", none}}, {{"expand_times", Ints{2, 2}}}).shape(), (Shape{0, 6}));
  EXPECT_EQ(run_op("reverse", {{"X", none}}, {{"axis", Ints{0}}}).shape(), (Shape{0, 3}));
  const Tensors joined = run_op({.type = "concat", .inputs = {{"X", {none, counted()}}}});
  EXPECT_EQ(numbers(joined.at("Out")[0]), numbers(counted()));
  EXPECT_THAT(numbers(run_op("is_empty", {{"X", none}})), ElementsAre(1));
  EXPECT_THAT(error_of([&] {
                run_op("reduce_max", {{"X", none}}, {{"dim", Ints{0}}});
              }),
              HasSubstr("the largest of no elements is asked for"));
}

// ---- slices and indices

TEST(Slice, CutsAndDropsDimensions) {
  const Attrs cut = {{"axes", Ints{1}}, {"starts", Ints{-2}}, {"ends", Ints{100}}};
  EXPECT_THAT(numbers(run_op("slice", {{"Input", counted()}}, cut)), ElementsAre(2, 3, 5, 6));
  const Tensor row = run_op(
      "slice", {{"Input", counted()}},
      {{"axes", Ints{0}}, {"starts", Ints{1}}, {"ends", Ints{2}}, {"decrease_axis", Ints{0}}});
  EXPECT_EQ(row.shape(), (Shape{3}));
  EXPECT_THAT(numbers(row), ElementsAre(4, 5, 6));
  const Attrs back = {
      {"axes", Ints{1}}, {"starts", Ints{2}}, {"ends", Ints{-100}}, {"strides", Ints{-2}}};
  EXPECT_THAT(numbers(run_op("strided_slice", {{"Input", counted()}}, back)),
              ElementsAre(3, 1, 6, 4));
}

TEST(Slice, TakesItsBoundsFromTensors) {
  const Tensors out = run_op({.type = "slice",
                              .inputs = {{"Input", {counted()}},
                                         {"StartsTensor", {narrow({1}, {1})}},
                                         {"EndsTensor", {narrow({1}, {3})}}},
                              .attrs = {{"axes", Ints{1}}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(2, 3, 5, 6));
}

TEST(Slice, CropAndPad) {
  EXPECT_THAT(
      numbers(run_op("crop", {{"X", counted()}}, {{"offsets", Ints{0, 1}}, {"shape", Ints{1, 2}}})),
      ElementsAre(2, 3));
  EXPECT_THAT(numbers(run_op("pad", {{"X", floats({1, 1}, {5})}},
                             {{"paddings", Ints{1, 0, 0, 1}}, {"pad_value", 9.f}})),
              ElementsAre(9, 9, 5, 9));
}

TEST(Slice, WrongUsesAreNamed) {
  EXPECT_THAT(error_of([] {
                run_op("slice", {{"Input", counted()}},
                       {{"axes", Ints{0}},
                        {"starts", Ints{5}},
                        {"ends", Ints{6}},
                        {"decrease_axis", Ints{0}}});
              }),
              HasSubstr("axis 0 is to be dropped but the slice has 0 elements"));
  EXPECT_THAT(error_of([] {
                run_op("slice", {{"Input", counted()}},
                       {{"axes", Ints{0}}, {"starts", Ints{}}, {"ends", Ints{1}}});
              }),
              HasSubstr("starts has 0 numbers but axes has 1"));
  EXPECT_THAT(
      error_of([] {
        run_op("strided_slice", {{"Input", counted()}},
               {{"axes", Ints{0}}, {"starts", Ints{0}}, {"ends", Ints{1}}, {"strides", Ints{0}}});
      }),
      HasSubstr("strides[0] is 0"));
  EXPECT_THAT(
      error_of([] {
        run_op("crop", {{"X", counted()}}, {{"offsets", Ints{0, 2}}, {"shape", Ints{1, 2}}});
      }),
      HasSubstr("do not lie inside 3"));
  EXPECT_THAT(error_of([] {
                run_op("pad", {{"X", counted()}}, {{"paddings", Ints{1}}});
              }),
              HasSubstr("paddings has 1 numbers"));
}

TEST(Index, GatherScatterAndTheirKin) {
  EXPECT_THAT(numbers(run_op("gather", {{"X", counted()}, {"Index", longs({3}, {1, 0, 1})}})),
              ElementsAre(4, 5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      numbers(run_op("gather_nd", {{"X", counted()}, {"Index", longs({2, 2}, {0, 2, 1, 0})}})),
      ElementsAre(3, 4));
  EXPECT_THAT(
      numbers(run_op("index_sample", {{"X", counted()}, {"Index", longs({2, 2}, {2, 0, 1, 1})}})),
      ElementsAre(3, 1, 5, 5));
  const Tensor ids = longs({2}, {1, 1}), updates = floats({2, 3}, {10, 10, 10, 20, 20, 20});
  EXPECT_THAT(numbers(run_op("scatter", {{"X", counted()}, {"Ids", ids}, {"Updates", updates}})),
              ElementsAre(1, 2, 3, 20, 20, 20));
  EXPECT_THAT(numbers(run_op("scatter", {{"X", counted()}, {"Ids", ids}, {"Updates", updates}},
                             {{"overwrite", false}})),
              ElementsAre(1, 2, 3, 30, 30, 30));
}

TEST(Index, OneHotAndWhere) {
  const Tensor out = run_op("one_hot", {{"X", longs({2, 1}, {2, 0})}}, {{"depth", 3}});
  EXPECT_EQ(out.shape(), (Shape{2, 3}));
  EXPECT_THAT(numbers(out), ElementsAre(0, 0, 1, 1, 0, 0));
  const Tensor appended = run_op("one_hot_v2", {{"X", longs({2, 1}, {2, 0})}}, {{"depth", 3}});
  EXPECT_EQ(appended.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(numbers(appended), numbers(out));
  EXPECT_THAT(numbers(run_op("one_hot", {{"X", longs({1, 1}, {7})}},
                             {{"depth", 2}, {"allow_out_of_range", true}})),
              ElementsAre(0, 0));
  const Tensor condition = cast(floats({2, 2}, {1, 0, 0, 1}), DType::boolean);
  EXPECT_THAT(numbers(run_op("where_index", {{"Condition", condition}})), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(numbers(run_op("where", {{"Condition", condition},
                                       {"X", longs({2, 2}, {1, 2, 3, 4})},
                                       {"Y", longs({2, 2}, {5, 6, 7, 8})}})),
              ElementsAre(1, 6, 7, 4));
}

TEST(Index, AnIndexOutsideSaysWhichAndWhere) {
  EXPECT_THAT(error_of([] {
                run_op("gather", {{"X", counted()}, {"Index", longs({2}, {0, 2})}});
              }),
              HasSubstr("Index[1] is 2 but the dimension has 2 elements"));
  EXPECT_THAT(error_of([] {
                run_op("gather_nd", {{"X", counted()}, {"Index", longs({1, 2}, {0, -1})}});
              }),
              HasSubstr("Index[1] is -1"));
  EXPECT_THAT(error_of([] {
                run_op("one_hot", {{"X", longs({1, 1}, {7})}}, {{"depth", 2}});
              }),
              HasSubstr("X[0] is 7 but the dimension has 2 elements"));
  EXPECT_THAT(error_of([] {
                run_op("scatter", {{"X", counted()},
                                   {"Ids", longs({1}, {9})},
                                   {"Updates", floats({1, 3}, {1, 2, 3})}});
              }),
              HasSubstr("Ids[0] is 9"));
  EXPECT_THAT(error_of([] {
                run_op("gather", {{"X", counted()}, {"Index", floats({1}, {0})}});
              }),
              HasSubstr("Index holds float32 but must hold int32 or int64"));
}

}  // namespace
}  // namespace trireme::testing
