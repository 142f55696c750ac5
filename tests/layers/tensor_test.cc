// Making and reshaping tensors, the generic call, and lists that hold variables.
#include "layers/tensor.h"

#include <gmock/gmock.h>

#include "tests/layers/build.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FillConstant, KeepsTheExactNumberAsText) {
  const FreshPrograms fresh;
  Var& rate = layers::fill_constant({1}, DType::float32, 0.01);
  Var& big = layers::fill_constant({2, 3}, DType::int64, int64_t{16777217});
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(main.op(0).attr<std::string>("str_value"), "0.01");
  EXPECT_EQ(main.op(1).attr<std::string>("str_value"), "16777217");
  EXPECT_EQ(rate.name(), "fill_constant_0.tmp_0");
  EXPECT_TRUE(rate.stop_gradient());
  EXPECT_EQ(big.shape(), Shape({2, 3}));
  EXPECT_EQ(big.dtype(), DType::int64);
  EXPECT_THAT(error_of([] {
                layers::zeros({-1, 2}, DType::float32);
              }),
              AllOf(HasSubstr("[-1, 2]"), HasSubstr("tensor_test.cc")));
}

TEST(FillConstant, AShapeWithAVariableInIt) {
  const FreshPrograms fresh;
  Var& n = layers::data("n", {1}, {.append_batch_size = false, .dtype = DType::int32});
  EXPECT_EQ(layers::ones({n, 3}, DType::float32).shape(), Shape({-1, 3}));
  const Op& op = fresh.main->global_block().op(1);
  EXPECT_THAT(op.input("ShapeTensorList"), ::testing::ElementsAre("n", "fill_constant_1.tmp_0"));
  EXPECT_EQ(layers::uniform_random({n, 3}).shape(), Shape({-1, 3}));
}

TEST(Reshape, ZeroCopiesAndMinusOneIsInferred) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {4, 6, 5});
  Var& flat = layers::reshape(x, {0, -1}, {.act = "relu"});
  EXPECT_EQ(flat.shape(), Shape({4, 30}));
  EXPECT_EQ(ops_of(fresh.main->global_block()),
            "reshape2(x) -> reshape2_0.tmp_0, reshape2_0.tmp_1; relu(reshape2_0.tmp_0) -> "
            "reshape2_0.tmp_2");
  EXPECT_EQ(&layers::reshape(x, {24, 5}, {.inplace = true}), &x);
  EXPECT_THAT(error_of([&] { layers::reshape(x, {-1, -1}); }), HasSubstr("2 entries of -1"));
  EXPECT_THAT(error_of([&] { layers::reshape(flat, {4, 30, 0}); }), HasSubstr("has 2 dimensions"));
}

TEST(TensorLayers, ShapesAndNames) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {4, 6});
  EXPECT_EQ(layers::transpose(x, {1, 0}).name(), "transpose_0.tmp_0");
  EXPECT_EQ(layers::unsqueeze(x, {0}).shape(), Shape({1, 4, 6}));
  EXPECT_EQ(layers::squeeze(layers::unsqueeze(x, {1}), {1}).shape(), Shape({4, 6}));
  EXPECT_EQ(layers::concat({x, x}, 1).shape(), Shape({4, 12}));
  EXPECT_EQ(layers::sums({x, x}).name(), "sum_0.tmp_0");
  EXPECT_EQ(layers::stack({x, x}).shape(), Shape({2, 4, 6}));
  EXPECT_EQ(layers::expand(x, {2, 1}).shape(), Shape({8, 6}));
  EXPECT_EQ(layers::slice(x, {0, 1}, {1, -2}, {3, 100}).shape(), Shape({2, 2}));
  EXPECT_EQ(layers::shape(x).shape(), Shape({2}));
  EXPECT_EQ(layers::flatten(layers::unsqueeze(x, {0}), 2).shape(), Shape({4, 6}));
  EXPECT_EQ(layers::cast(x, DType::int64).dtype(), DType::int64);
  Var& one = layers::fill_constant({1}, DType::float32, 1);
  EXPECT_EQ(&layers::increment(one), &one);
  EXPECT_NE(&layers::increment(one, 1, false), &one);
  EXPECT_THAT(error_of([&] { layers::transpose(x, {0}); }), HasSubstr("perm is [0]"));
}

TEST(Split, PartsOrSections) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {4, 6});
  EXPECT_EQ(layers::split(x, 3).size(), 3u);
  const auto parts = layers::split(x, {1, -1, 2}, 1);
  EXPECT_EQ(parts[1]->shape(), Shape({4, 3}));
  EXPECT_EQ(parts[1]->name(), "split_1.tmp_1");
  EXPECT_EQ(fresh.main->global_block().op(0).attr<int>("axis"), 1);
  EXPECT_THAT(error_of([&] { layers::split(x, 2, 2); }), HasSubstr("dim is 2"));
}

TEST(Assign, ArraysBecomeAttributes) {
  const FreshPrograms fresh;
  Var& out = layers::assign(make_tensor<int64_t>({2}, {7, 8}));
  EXPECT_EQ(out.dtype(), DType::int64);
  const Op& op = fresh.main->global_block().op(0);
  EXPECT_EQ(op.attr<std::vector<int64_t>>("int64_values"), std::vector<int64_t>({7, 8}));
  EXPECT_THAT(error_of([] { layers::assign(make_tensor<double>({1}, {1})); }),
              HasSubstr("float64"));
}

TEST(Apply, AnyOpOfTheTable) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {4, 6});
  Var& out = layers::apply("leaky_relu", {{"X", x}}, {{"alpha", 0.1f}}, {.act = "tanh"});
  EXPECT_EQ(out.name(), "leaky_relu_0.tmp_1");
  const auto all = layers::apply_all("top_k", {{"X", x}}, {{"k", 2}}, {.name = "best"});
  EXPECT_EQ(all.at("Out").front()->name(), "best.tmp_0");
  EXPECT_EQ(all.at("Indices").front()->dtype(), DType::int64);
  EXPECT_THAT(error_of([&] {
                layers::apply("no_such_op", {{"X", x}});
              }),
              AllOf(HasSubstr("no_such_op"), HasSubstr("tensor_test.cc")));
}

TEST(Elementwise, TheNameIsTheResults) {
  const FreshPrograms fresh;
  Var& x = layers::checked_data("x", {4, 6});
  EXPECT_EQ(layers::elementwise_add(x, x, {.name = "total"}).name(), "total");
  EXPECT_EQ(layers::elementwise_add(x, x).name(), "elementwise_add_0.tmp_0");
  EXPECT_EQ(layers::reduce_sum(x, {.dim = {1}, .keep_dim = true}).shape(), Shape({4, 1}));
}

}  // namespace
}  // namespace trireme
