// Learning-rate schedules, Switch, regularizers and gradient clips: ops, order, roles and names.
#include <gmock/gmock.h>

#include "tests/layers/build.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Schedule, TheCounterLeadsTheProgramAndIsShared) {
  const FreshPrograms fresh;
  layers::data("x", {4}) + 1;
  layers::exponential_decay(0.1, 100, 0.5, true);
  layers::natural_exp_decay(0.1, 100, 0.5);
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(types_of(main),
            "increment scale cast scale floor fill_constant elementwise_pow scale "
            "cast scale scale exp scale");
  EXPECT_EQ(main.op(0).input("X").front(), "@LR_DECAY_COUNTER@");
  for (size_t i = 0; i < main.size(); ++i) {
    EXPECT_EQ(main.op(i).role(), i == 1 ? op_role::kForward : op_role::kLrSched) << i;
  }
  EXPECT_EQ(types_of(fresh.startup->global_block()), "fill_constant");
  EXPECT_FLOAT_EQ(fresh.startup->global_block().op(0).attr<float>("value"), -1);
  EXPECT_EQ(fresh.main->role, op_role::kForward);
}

TEST(Schedule, OpsOfEachDecay) {
  const auto types = [](auto build) {
    const FreshPrograms fresh;
    build();
    return types_of(fresh.main->global_block());
  };
  EXPECT_EQ(types([] { layers::noam_decay(512, 4000); }),
            "increment cast fill_constant elementwise_pow scale elementwise_min scale");
  EXPECT_EQ(types([] { layers::inverse_time_decay(0.1, 100, 0.5); }),
            "increment cast scale scale scale fill_constant elementwise_div");
  EXPECT_EQ(types([] { layers::polynomial_decay(0.1, 100); }),
            "increment cast fill_constant elementwise_min scale scale fill_constant "
            "elementwise_pow scale scale");
  EXPECT_EQ(
      types([] { layers::polynomial_decay(0.1, 100, {.cycle = true}); }),
      "increment cast scale ceil fill_constant fill_constant equal logical_not "
      "conditional_block scale elementwise_div scale fill_constant elementwise_pow scale scale");
  EXPECT_EQ(types([] { layers::cosine_decay(0.1, 100, 10); }),
            "increment cast scale floor scale scale cos scale scale");
}

TEST(Schedule, PiecewiseIsASwitch) {
  const FreshPrograms fresh;
  Var& rate = layers::piecewise_decay({10, 20}, {1, 0.5, 0.1});
  EXPECT_EQ(rate.name(), "learning_rate");
  EXPECT_TRUE(rate.persistable());
  EXPECT_EQ(types_of(fresh.main->global_block()),
            "increment cast fill_constant fill_constant less_than logical_not conditional_block "
            "fill_constant fill_constant less_than logical_not logical_and logical_and "
            "conditional_block fill_constant conditional_block");
  EXPECT_EQ(fresh.main->num_blocks(), 4u);
  EXPECT_EQ(fresh.main->current_index(), 0);
  const Op& first = fresh.main->global_block().op(6);
  EXPECT_EQ(first.output("Out").front(), "learning_rate");
  EXPECT_EQ(first.sub_block()->op(0).type(), "assign");
  EXPECT_TRUE(first.attr<bool>("is_scalar_condition"));
  EXPECT_THAT(error_of([] { layers::piecewise_decay({10}, {1}); }), HasSubstr("1 values for 1"));
}

TEST(Schedule, WarmupComputesInsideItsCase) {
  const FreshPrograms fresh;
  Var& after = layers::cosine_decay(0.1, 100, 10);
  Var& rate = layers::linear_lr_warmup(after, 50, 0.01, 0.1);
  EXPECT_EQ(rate.name(), "learning_rate_warmup");
  EXPECT_EQ(types_of(fresh.main->block(1)), "scale scale scale assign");
  EXPECT_EQ(ops_of(fresh.main->block(2)),
            cat("assign(", after.name(), ") -> learning_rate_warmup"));
}

TEST(Switch, DefaultNeedsACaseAndExceptionsLeaveTheBlock) {
  const FreshPrograms fresh;
  layers::Switch pick;
  EXPECT_THAT(error_of([&] { pick.otherwise([] {}); }), HasSubstr("default"));
  Var& yes = layers::fill_constant({1}, DType::boolean, 1);
  EXPECT_THROW(pick.when(yes, [] { throw std::runtime_error("out"); }), std::runtime_error);
  EXPECT_EQ(fresh.main->current_index(), 0);
  Var& number = layers::fill_constant({1}, DType::float32, 1);
  EXPECT_THAT(error_of([&] { pick.when(number, [] {}); }), HasSubstr("bool"));
}

// Two parameters with gradients as backward would leave them.
ParamGrads two_gradients(const FreshPrograms& fresh) {
  Block& block = fresh.main->global_block();
  ParamGrads pairs;
  for (const char* name : {"a", "b"}) {
    Var& param = layers::create_parameter({2, 3}, DType::float32, {.name = name});
    Var& grad = block.create_var({.name = grad_name(name), .shape = Shape({2, 3})});
    pairs.emplace_back(&param, &grad);
  }
  return pairs;
}

TEST(Regularizer, TheTermIsAddedUnderTheGradientsName) {
  const FreshPrograms fresh;
  ParamGrads pairs = two_gradients(fresh);
  pairs[1].first->edit_parameter().regularizer = l1_decay(0.5);
  pairs = append_regularization_ops(pairs, l2_decay(0.1));
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(ops_of(main),
            "scale(a) -> _generated_var_0; sum(a@GRAD, _generated_var_0) -> a@GRAD; "
            "sign(b) -> _generated_var_1; scale(_generated_var_1) -> _generated_var_2; "
            "sum(b@GRAD, _generated_var_2) -> b@GRAD");
  EXPECT_THAT(main.op(0).attr<std::string>("op_namescope"), StartsWith("/regularization"));
  EXPECT_THAT(main.op(4).attr<std::vector<std::string>>("op_role_var"), ElementsAre("b", "b@GRAD"));
  EXPECT_EQ(main.op(0).role(), op_role::kOptimize);
}

TEST(Regularizer, SparseGradientsBecomeDense) {
  const FreshPrograms fresh;
  ParamGrads pairs = two_gradients(fresh);
  pairs[0].second->set_type(VarType::selected_rows);
  pairs = append_regularization_ops({pairs[0]}, l2_decay(0.1));
  EXPECT_EQ(pairs[0].second->name(), "a@GRAD@NEWGRAD@");
}

TEST(GradientClip, ByValueNamesTheNewGradientInItsRole) {
  const FreshPrograms fresh;
  const ParamGrads pairs = GradientClipByValue(1)(two_gradients(fresh));
  const Block& main = fresh.main->global_block();
  EXPECT_EQ(ops_of(main), "clip(a@GRAD) -> clip_0.tmp_0; clip(b@GRAD) -> clip_1.tmp_0");
  EXPECT_THAT(main.op(0).attr<std::vector<std::string>>("op_role_var"),
              ElementsAre("a", "clip_0.tmp_0"));
  EXPECT_THAT(main.op(0).attr<std::string>("op_namescope"), StartsWith("/gradient_clip"));
  EXPECT_FLOAT_EQ(main.op(0).attr<float>("min"), -1);
}

TEST(GradientClip, ByGlobalNormScalesAllByOneFactor) {
  const FreshPrograms fresh;
  const ParamGrads pairs = GradientClipByGlobalNorm(5)(two_gradients(fresh));
  EXPECT_EQ(types_of(fresh.main->global_block()),
            "square reduce_sum square reduce_sum sum sqrt fill_constant elementwise_max "
            "elementwise_div elementwise_mul elementwise_mul");
  EXPECT_EQ(pairs[0].second->name(), "elementwise_mul_0.tmp_0");
}

TEST(GradientClip, EachParameterGetsItsOwnOldStyleClip) {
  const FreshPrograms fresh;
  ParamGrads pairs = two_gradients(fresh);
  set_gradient_clip(std::make_shared<GradientClipByNorm>(2), {"b"});
  pairs = append_gradient_clip_ops(pairs);
  EXPECT_EQ(ops_of(fresh.main->global_block()), "clip_by_norm(b@GRAD) -> clip_by_norm_0.tmp_0");
  EXPECT_EQ(pairs[0].second->name(), "a@GRAD");
  EXPECT_EQ(pairs[1].second->name(), "clip_by_norm_0.tmp_0");
  EXPECT_THAT(error_of([] { set_gradient_clip(nullptr, {"c"}); }), HasSubstr("no parameter c"));
}

TEST(GradientClip, ParametersMayBeLeftOut) {
  const FreshPrograms fresh;
  ParamGrads pairs = two_gradients(fresh);
  pairs[0].first->edit_parameter().need_clip = false;
  GradientClipByValue clip(1);
  clip(pairs);
  EXPECT_EQ(ops_of(fresh.main->global_block()), "clip(b@GRAD) -> clip_0.tmp_0");
}

TEST(ErrorClip, IsPutBehindTheOpThatMakesTheGradient) {
  const FreshPrograms fresh;
  Block& block = fresh.main->global_block();
  Var& x = layers::data("x", {4});
  set_error_clip(x, ErrorClipByValue(0.5));
  block.create_var({.name = "x@GRAD", .shape = Shape({-1, 4})});
  block.append_op({.type = "scale", .inputs = {{"X", {"x"}}}, .outputs = {{"Out", {"x@GRAD"}}}});
  layers::relu(x);
  error_clip_callback(block, block.op(0));
  EXPECT_EQ(ops_of(block), "scale(x) -> x@GRAD; clip(x@GRAD) -> x@GRAD; relu(x) -> relu_0.tmp_0");
  EXPECT_FLOAT_EQ(block.op(1).attr<float>("min"), -0.5f);
  EXPECT_EQ(block.op(1).role(), op_role::kBackward);
}

}  // namespace
}  // namespace trireme
