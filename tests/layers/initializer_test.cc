// What initializers put into the startup program.
#include "layers/initializer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/layers/build.h"

namespace trireme {
namespace {

using initializer::fans_of;
using ::testing::HasSubstr;

Var& parameter(std::shared_ptr<Initializer> initializer, std::vector<int64_t> shape = {4, 6},
               DType dtype = DType::float32) {
  return layers::create_parameter(shape, dtype, {.default_initializer = std::move(initializer)});
}

const Op& only_op(const FreshPrograms& fresh) { return fresh.startup->global_block().op(0); }

TEST(Initializer, XavierUsesBothFans) {
  const FreshPrograms fresh;
  parameter(initializer::xavier());
  EXPECT_EQ(only_op(fresh).type(), "uniform_random");
  EXPECT_FLOAT_EQ(only_op(fresh).attr<float>("max"), std::sqrt(6.0f / 10));
  EXPECT_FLOAT_EQ(only_op(fresh).attr<float>("min"), -std::sqrt(6.0f / 10));
  EXPECT_EQ(fans_of(Shape({8, 3, 5, 5})).in, 75);
  EXPECT_EQ(fans_of(Shape({8, 3, 5, 5})).out, 200);
}

TEST(Initializer, MsraNormalUsesFanIn) {
  const FreshPrograms fresh;
  parameter(initializer::msra({.uniform = false}));
  EXPECT_EQ(only_op(fresh).type(), "gaussian_random");
  EXPECT_FLOAT_EQ(only_op(fresh).attr<float>("std"), std::sqrt(2.0f / 4));
}

TEST(Initializer, SeedIsTheStartupProgramsUnlessGiven) {
  const FreshPrograms fresh;
  fresh.startup->set_seed(90);
  parameter(initializer::normal());
  parameter(initializer::normal(0, 1, 5));
  EXPECT_EQ(fresh.startup->global_block().op(1).attr<int>("seed"), 90);
  EXPECT_EQ(fresh.startup->global_block().op(0).attr<int>("seed"), 5);
}

TEST(Initializer, HalfPrecisionIsDrawnInFloatAndCast) {
  for (const Style style : {Style::fluid_1_8, Style::static_2_4}) {
    const StyleGuard as(style);
    const FreshPrograms fresh;
    Var& w = parameter(initializer::xavier(), {4, 6}, DType::float16);
    EXPECT_EQ(ops_of(fresh.startup->global_block()),
              cat("uniform_random() -> xavier_init.", w.name(), ".tmp_0; cast(xavier_init.",
                  w.name(), ".tmp_0) -> ", w.name()));
  }
}

TEST(Initializer, ValuesOfATensor) {
  const FreshPrograms fresh;
  parameter(initializer::from_tensor(make_tensor<float>({2, 2}, {1, 2, 3, 4})), {2, 2});
  EXPECT_EQ(only_op(fresh).type(), "assign_value");
  EXPECT_EQ(only_op(fresh).attr<std::vector<float>>("fp32_values"),
            std::vector<float>({1, 2, 3, 4}));
  EXPECT_THAT(error_of([] {
                parameter(initializer::from_tensor(make_tensor<float>({2}, {1, 2})), {2, 2});
              }),
              HasSubstr("shape [2]"));
}

TEST(Initializer, BilinearIsSymmetric) {
  const FreshPrograms fresh;
  parameter(initializer::bilinear(), {1, 1, 4, 4});
  const auto values = only_op(fresh).attr<std::vector<float>>("fp32_values");
  for (size_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(values[i], values[15 - i]);
  EXPECT_FLOAT_EQ(values[5], 0.75f * 0.75f);
}

TEST(Initializer, IntegersNeedOne) {
  const FreshPrograms fresh;
  EXPECT_THAT(error_of([] { parameter(nullptr, {2}, DType::int64); }), HasSubstr("no initializer"));
  parameter(initializer::constant(3), {2}, DType::int64);
  EXPECT_EQ(only_op(fresh).type(), "fill_constant");
}

class Twice : public Initializer {
 public:
  void operator()(Var& var, Block& block) override {
    block.append_op({.type = "fill_constant",
                     .inputs = {},
                     .outputs = {{"Out", {var.name()}}},
                     .attrs = {{"shape", var.shape().to_vector()}, {"value", 2.0f}}});
  }
};

TEST(Initializer, AUsersOwn) {
  const FreshPrograms fresh;
  parameter(std::make_shared<Twice>());
  EXPECT_FLOAT_EQ(only_op(fresh).attr<float>("value"), 2);
}

TEST(GlobalVar, IsFilledByTheStartupProgramOnce) {
  const FreshPrograms fresh;
  Var& a =
      layers::create_global_var({1}, 0.5, DType::float32, {.persistable = true, .name = "rate"});
  Var& b =
      layers::create_global_var({1}, 0.5, DType::float32, {.persistable = true, .name = "rate"});
  EXPECT_EQ(&a, &b);
  EXPECT_TRUE(a.persistable() && a.stop_gradient());
  EXPECT_EQ(ops_of(fresh.startup->global_block()), "fill_constant() -> rate");
  EXPECT_EQ(layers::create_global_var({1}, 1).name(), "_generated_var_0");
}

}  // namespace
}  // namespace trireme
