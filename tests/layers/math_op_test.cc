// Operators on variables and indexing: which ops they append and how results are named.
#include "layers/math_op.h"

#include <gmock/gmock.h>

#include "tests/layers/build.h"

namespace trireme {
namespace {

using layers::Index;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MathOp, NumbersBecomeOneScale) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {4});
  Var& y = 2 * x + 1 - 3 * x / 4;
  EXPECT_EQ(y.name(), "tmp_4");
  EXPECT_EQ(types_of(fresh.main->global_block()), "scale scale scale scale elementwise_sub");
  const FreshPrograms reverse;
  1 - layers::data("x", {4});
  EXPECT_FLOAT_EQ(reverse.main->global_block().op(0).attr<float>("scale"), -1);
  EXPECT_FLOAT_EQ(reverse.main->global_block().op(0).attr<float>("bias"), 1);
}

TEST(MathOp, ReverseDivisionMakesAConstantOfTheVariablesSize) {
  const FreshPrograms fresh;
  1.0 / layers::data("x", {4});
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "fill_constant_batch_size_like(x) -> tmp_0; elementwise_div(tmp_0, x) -> tmp_1");
  EXPECT_EQ(fresh.main->global_block().op(1).attr<int>("axis"), 0);
}

TEST(MathOp, PowerComparesWithAConstantOfOneElement) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {4});
  layers::math_op("elementwise_pow", x, 2);
  Var& less = x < 0.5;
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "fill_constant() -> tmp_0; elementwise_pow(x, tmp_0) -> tmp_1; "
            "fill_constant() -> tmp_2; less_than(x, tmp_2) -> tmp_3");
  EXPECT_EQ(less.dtype(), DType::boolean);
}

TEST(MathOp, TheRightSideIsCastToTheLeft) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {4});
  Var& n = layers::data("n", {4}, {.dtype = DType::int64});
  EXPECT_EQ((x + n).dtype(), DType::float32);
  EXPECT_EQ(types_of(fresh.main->global_block()), "cast elementwise_add");
}

TEST(MathOp, IntegersBesideFractions) {
  {
    const FreshPrograms fresh;
    Var& n = layers::data("n", {4}, {.dtype = DType::int64});
    EXPECT_THAT(error_of([&] { n + 0.5; }), AllOf(HasSubstr("0.5"), HasSubstr("math_op_test.cc")));
    EXPECT_EQ((n / 2).dtype(), DType::int64);
    EXPECT_EQ(types_of(fresh.main->global_block()), "fill_constant elementwise_div");
  }
  const StyleGuard as(Style::static_2_4);
  const FreshPrograms fresh;
  Var& n = layers::data("n", {4}, {.dtype = DType::int64});
  EXPECT_EQ((n + 0.5).dtype(), DType::float32);
  EXPECT_EQ((n + 2).dtype(), DType::int64);
  EXPECT_EQ((n / 2).dtype(), DType::float32);
  EXPECT_EQ((2 * n).dtype(), DType::int64);
}

TEST(MathOp, OperandsMeetAtTheBatchOrAtTheirEnds) {
  {
    const FreshPrograms fresh;
    layers::data("x", {4}) + layers::data("y", {1});
    EXPECT_EQ(fresh.main->global_block().op(0).attr<int>("axis"), 0);
  }
  const StyleGuard as(Style::static_2_4);
  const FreshPrograms fresh;
  layers::data("x", {4}) + layers::data("y", {1});
  EXPECT_EQ(fresh.main->global_block().op(0).attr<int>("axis"), -1);
}

TEST(MathOp, AnOpKnowsTheLineOfItsOperator) {
  const FreshPrograms fresh;
  Var& x = layers::data("x", {4});
  const int line = __LINE__ + 1;
  x + x;
  EXPECT_EQ(fresh.main->global_block().op(0).line().line, line);
  EXPECT_THAT(fresh.main->global_block().op(0).line().file, HasSubstr("math_op_test.cc"));
}

TEST(Indexing, IntegersDropTheirDimension) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {6, 5, 4});
  Var& row = layers::index(x, {Index::at(-1)});
  EXPECT_EQ(row.name(), "x_slice_0");
  EXPECT_EQ(row.shape(), Shape({5, 4}));
  EXPECT_EQ(layers::index(x, {Index::ellipsis(), Index::at(1)}).shape(), Shape({6, 5}));
  EXPECT_EQ(layers::index(x, {Index::range(1, 3), Index::all(), Index::at(0)}).shape(),
            Shape({2, 5}));
  EXPECT_EQ(&layers::index(x, {Index::all()}), &x);
  EXPECT_THAT(error_of([&] { layers::index(x, {Index::at(6)}); }), HasSubstr("index 6 is outside"));
  EXPECT_THAT(error_of([&] {
                layers::index(x, {Index::at(0), Index::at(0), Index::at(0), Index::at(0)});
              }),
              HasSubstr("4 indices"));
}

TEST(Indexing, StepsAndReversal) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {6, 5});
  Var& stepped = layers::index(x, {Index::range({}, {}, 2)});
  EXPECT_EQ(stepped.name(), "x_strided_slice_0");
  EXPECT_EQ(stepped.shape(), Shape({3, 5}));
  Var& turned = layers::index(x, {Index::at(0), Index::range({}, {}, -1)});
  EXPECT_EQ(turned.name(), "x_slice_reverse_0");
  EXPECT_EQ(turned.shape(), Shape({5}));
  EXPECT_EQ(types_of(fresh.main->global_block()), "strided_slice slice reverse");
}

}  // namespace
}  // namespace trireme
