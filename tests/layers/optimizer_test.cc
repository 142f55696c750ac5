// Optimizers: the ops they append, their names and roles, and their numbers against plain loops.
#include "layers/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/unique_name.h"
#include "layers/data.h"
#include "layers/layers.h"
#include "layers/optimizer_average.h"
#include "layers/optimizer_pipeline.h"
#include "layers/optimizer_wrapper.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::numbers;

constexpr double kStart = 0.5;
constexpr double kRate = 0.1;
const std::vector<double> kGoal = {1.0, -2.0, 0.3};

double f(double value) { return static_cast<float>(value); }  // what an attribute keeps of it

// loss = mean((w - goal)^2) over three numbers, in float64.
class OptimizerTest : public ::testing::Test {
 protected:
  OptimizerTest() : guard_(main_, startup_) {}

  Var& make_loss(ParamAttr attr = {}, DType dtype = DType::float64) {
    attr.name = "w";
    attr.initializer = initializer::constant(kStart);
    Var& goal = layers::data("goal", {3}, {.append_batch_size = false, .dtype = dtype});
    Var& w = layers::create_parameter({3}, dtype, {.attr = attr});
    return layers::mean(layers::square(layers::elementwise_sub(w, goal)));
  }

  std::vector<std::string> ops(size_t from = 0) const {
    std::vector<std::string> types;
    for (const Op* op : main_->global_block().ops()) {
      if (static_cast<size_t>(op->index()) >= from) types.push_back(op->type());
    }
    return types;
  }

  std::vector<double> value(const std::string& name) {
    return numbers(scope_.find(name)->tensor());
  }
  void start() { executor_.run(*startup_, {}, {}, {.scope = &scope_}); }
  void step() {
    executor_.run(*main_, {{"goal", trireme::testing::doubles({3}, kGoal)}}, {},
                  {.scope = &scope_});
  }

  // Runs the program and `update(i, w, g)` side by side.
  template <class Update>
  void expect_equal_steps(Update update, int steps = 6, double tolerance = 1e-9) {
    start();
    std::vector<double> w(3, kStart);
    for (int s = 0; s < steps; ++s) {
      step();
      std::vector<double> grad(3);
      for (int i = 0; i < 3; ++i) grad[i] = 2 * (w[i] - kGoal[i]) / 3;
      update(w, grad);
      const std::vector<double> got = value("w");
      for (int i = 0; i < 3; ++i) {
        EXPECT_NEAR(got[i], w[i], tolerance * (1 + std::abs(w[i]))) << "step " << s << ", " << i;
      }
    }
  }
  // The same for updates of one element at a time, with the element's own states.
  template <class Update>
  void expect_equal_elements(Update update, double tolerance = 1e-9) {
    expect_equal_steps(
        [&](std::vector<double>& w, const std::vector<double>& g) {
          for (int i = 0; i < 3; ++i) update(i, w[i], g[i]);
        },
        6, tolerance);
  }

  std::shared_ptr<Program> main_ = Program::create();
  std::shared_ptr<Program> startup_ = Program::create();
  UniqueNameGuard names_;
  ProgramGuard guard_;
  Scope scope_;
  Executor executor_;
};

TEST_F(OptimizerTest, SgdAppendsBackwardThenUpdatesInNameOrder) {
  Var& x = layers::data("X", {1});
  Var& loss = layers::mean(layers::fc(x, {.size = 10}));
  const Minimized result = optimizer::Sgd(0.01).minimize(loss);
  EXPECT_THAT(ops(), ElementsAre("mul", "elementwise_add", "mean", "fill_constant", "mean_grad",
                                 "elementwise_add_grad", "mul_grad", "sgd", "sgd"));
  ASSERT_EQ(result.ops.size(), 2u);
  EXPECT_EQ(result.params_grads.size(), 2u);
  const Op& update = *result.ops[0];
  EXPECT_THAT(update.input("Param"), ElementsAre("fc_0.b_0"));
  EXPECT_THAT(update.input("Grad"), ElementsAre("fc_0.b_0@GRAD"));
  EXPECT_THAT(update.input("LearningRate"), ElementsAre("learning_rate_0"));
  EXPECT_EQ(update.role(), op_role::kOptimize);
  EXPECT_THAT(update.attr<std::vector<std::string>>("op_role_var"),
              ElementsAre("fc_0.b_0", "fc_0.b_0@GRAD"));
  EXPECT_THAT(update.attr<std::string>("op_namescope"), HasSubstr("/optimizer"));
  EXPECT_THAT(result.ops[1]->input("Param"), ElementsAre("fc_0.w_0"));
  // The last variable made is initialised first.
  const Op& first = startup_->global_block().op(0);
  EXPECT_EQ(first.type(), "fill_constant");
  EXPECT_THAT(first.output("Out"), ElementsAre("learning_rate_0"));
  EXPECT_TRUE(main_->global_block().var("learning_rate_0").persistable());
}

TEST_F(OptimizerTest, LossOfAnotherShapeIsRefused) {
  Var& x = layers::data("X", {1});
  Var& wide = layers::fc(x, {.size = 10});
  const std::string what = error_of([&] { optimizer::Sgd(0.01).minimize(wide); });
  EXPECT_THAT(what, HasSubstr("but must have the shape [1]"));
}

TEST_F(OptimizerTest, ParametersOwnRateAddsAScaleWithItsRole) {
  Var& loss = make_loss({.learning_rate = 0.5f});
  const Minimized result = optimizer::Sgd(0.1).minimize(loss);
  ASSERT_EQ(result.ops.size(), 2u);
  EXPECT_EQ(result.ops[0]->type(), "scale");
  EXPECT_EQ(result.ops[0]->role(), op_role::kOptimize | op_role::kLrSched);
  EXPECT_THAT(result.ops[1]->input("LearningRate"), ElementsAre(result.ops[0]->output("Out")[0]));
  expect_equal_elements([](int, double& w, double g) { w -= kRate * 0.5 * g; });
}

TEST_F(OptimizerTest, StatesCarryParameterOptimizerAndStateNames) {
  Var& loss = make_loss();
  optimizer::Adam adam(0.001, {}, {.name = "mine"});
  adam.minimize(loss);
  EXPECT_THAT(adam.get_opti_var_name_list(),
              ElementsAre("w_mine_moment1_0", "w_mine_moment2_0", "w_mine_beta1_pow_acc_0",
                          "w_mine_beta2_pow_acc_0"));
  for (const std::string& name : adam.get_opti_var_name_list()) {
    EXPECT_TRUE(main_->global_block().var(name).persistable()) << name;
    EXPECT_NE(startup_->global_block().find_var(name), nullptr) << name;
  }
  EXPECT_EQ(main_->global_block().var("w_mine_beta1_pow_acc_0").shape(), Shape({1}));
}

TEST_F(OptimizerTest, MinimizingTwiceWithStatesSaysWhatToDo) {
  Var& loss = make_loss();
  optimizer::Momentum momentum(0.1, 0.9);
  momentum.minimize(loss);
  EXPECT_THAT(error_of([&] { momentum.minimize(loss); }), HasSubstr("exists already"));
}

TEST_F(OptimizerTest, ScheduledRateIsNotedOnTheProgram) {
  Var& loss = make_loss();
  optimizer::Sgd(0.1, {.scheduled = true}).minimize(loss);
  EXPECT_EQ(main_->scheduled_rate, "learning_rate_0");
  start();
  EXPECT_NEAR(value("learning_rate_0")[0], 0.1, 1e-7);
}

TEST_F(OptimizerTest, ClipComesBeforeDecayAndUpdatesReadTheResult) {
  Var& loss = make_loss();
  const size_t before = ops().size();
  const Minimized result =
      optimizer::Sgd(0.1, {.regularization = l2_decay(0.01),
                           .grad_clip = std::make_shared<GradientClipByValue>(0.5)})
          .minimize(loss);
  const std::vector<std::string> appended = ops(before);
  const auto at = [&](const std::string& type) {
    return std::find(appended.begin(), appended.end(), type) - appended.begin();
  };
  EXPECT_LT(at("clip"), at("scale"));
  EXPECT_LT(at("scale"), at("sum"));
  EXPECT_LT(at("sum"), at("sgd"));
  EXPECT_EQ(result.params_grads[0].second->name(), "w@GRAD");
  expect_equal_elements(
      [](int, double& w, double g) { w -= kRate * (std::clamp(g, -0.5, 0.5) + f(0.01) * w); });
}

TEST_F(OptimizerTest, RateFromAVariable) {
  Var& loss = make_loss();
  Var& rate = layers::create_global_var({1}, 0.25, DType::float64,
                                        {.persistable = true, .name = "my_rate"});
  optimizer::Sgd sgd(rate);
  sgd.minimize(loss);
  EXPECT_EQ(sgd.learning_rate_var()->name(), "my_rate");
  expect_equal_elements([](int, double& w, double g) { w -= 0.25 * g; });
}

TEST_F(OptimizerTest, Momentum) {
  optimizer::Momentum(0.1, 0.9).minimize(make_loss());
  std::vector<double> v(3);
  expect_equal_elements([&](int i, double& w, double g) {
    v[i] = f(0.9) * v[i] + g;
    w -= kRate * v[i];
  });
}

TEST_F(OptimizerTest, NesterovMomentum) {
  optimizer::Momentum(0.1, 0.9, true).minimize(make_loss());
  std::vector<double> v(3);
  expect_equal_elements([&](int i, double& w, double g) {
    v[i] = f(0.9) * v[i] + g;
    w -= (g + f(0.9) * v[i]) * kRate;
  });
}

TEST_F(OptimizerTest, LarsMomentum) {
  optimizer::LarsMomentum(0.1, 0.9).minimize(make_loss());
  std::vector<double> v(3);
  expect_equal_steps([&](std::vector<double>& w, const std::vector<double>& g) {
    const auto norm = [](const std::vector<double>& a) {
      return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    };
    const double decay = f(0.0005);
    const double local = kRate * f(0.001) * norm(w) / (norm(g) + decay * norm(w));
    for (int i = 0; i < 3; ++i) {
      v[i] = f(0.9) * v[i] + local * (g[i] + decay * w[i]);
      w[i] -= v[i];
    }
  });
}

TEST_F(OptimizerTest, Adagrad) {
  optimizer::Adagrad(0.1, 1e-6, 0.1).minimize(make_loss());
  std::vector<double> m(3, 0.1);
  expect_equal_elements([&](int i, double& w, double g) {
    m[i] += g * g;
    w -= kRate * g / (std::sqrt(m[i]) + f(1e-6));
  });
}

TEST_F(OptimizerTest, DecayedAdagrad) {
  optimizer::DecayedAdagrad(0.1).minimize(make_loss());
  std::vector<double> m(3);
  expect_equal_elements([&](int i, double& w, double g) {
    m[i] = f(0.95) * m[i] + (1 - f(0.95)) * g * g;
    w -= kRate * g / (std::sqrt(m[i]) + f(1e-6));
  });
}

TEST_F(OptimizerTest, Adadelta) {
  optimizer::Adadelta adadelta(0.1);
  adadelta.minimize(make_loss());
  EXPECT_THAT(adadelta.get_opti_var_name_list(),
              ElementsAre("w__avg_squared_grad_0", "w__avg_squared_update_0"));
  std::vector<double> grads(3), updates(3);
  expect_equal_elements([&](int i, double& w, double g) {
    const double rho = f(0.95), epsilon = f(1e-6);
    grads[i] = rho * grads[i] + (1 - rho) * g * g;
    const auto move = [&] { return -std::sqrt((updates[i] + epsilon) / (grads[i] + epsilon)) * g; };
    updates[i] = rho * updates[i] + (1 - rho) * move() * move();
    w += move();  // by the mean that has the first one in it
  });
}

TEST_F(OptimizerTest, Adam) {
  optimizer::Adam(0.1, {.beta1 = 0.8, .beta2 = 0.99, .epsilon = 0.25}).minimize(make_loss());
  std::vector<double> m1(3), m2(3);
  double b1 = 0.8, b2 = 0.99;
  expect_equal_elements([&](int i, double& w, double g) {
    m1[i] = f(0.8) * m1[i] + (1 - f(0.8)) * g;
    m2[i] = f(0.99) * m2[i] + (1 - f(0.99)) * g * g;
    w -= kRate * std::sqrt(1 - b2) / (1 - b1) * m1[i] / (std::sqrt(m2[i]) + 0.25);
    if (i == 2) b1 *= f(0.8), b2 *= f(0.99);
  });
}

TEST_F(OptimizerTest, AdamOfTwoPointXCorrectsEpsilon) {
  optimizer::Adam(0.1, {.beta1 = 0.8, .beta2 = 0.99, .epsilon = 0.25, .corrects_epsilon = true})
      .minimize(make_loss());
  std::vector<double> m1(3), m2(3);
  double b1 = 0.8, b2 = 0.99;
  expect_equal_elements([&](int i, double& w, double g) {
    m1[i] = f(0.8) * m1[i] + (1 - f(0.8)) * g;
    m2[i] = f(0.99) * m2[i] + (1 - f(0.99)) * g * g;
    const double correction = std::sqrt(1 - b2);
    w -= kRate * correction / (1 - b1) * m1[i] / (std::sqrt(m2[i]) + 0.25 * correction);
    if (i == 2) b1 *= f(0.8), b2 *= f(0.99);
  });
}

TEST_F(OptimizerTest, AdamWShrinksParametersBeforeTheStep) {
  const Minimized result = optimizer::Adam(0.1, {.decoupled_decay = 0.25}).minimize(make_loss());
  ASSERT_EQ(result.ops.size(), 3u);
  EXPECT_EQ(result.ops[0]->type(), "scale");
  EXPECT_EQ(result.ops[1]->type(), "elementwise_mul");
  EXPECT_EQ(result.ops[1]->role(), op_role::kOptimize);
  EXPECT_THAT(result.ops[1]->output("Out"), ElementsAre("w"));
  std::vector<double> m1(3), m2(3);
  double b1 = 0.9, b2 = 0.999;
  expect_equal_elements([&](int i, double& w, double g) {
    m1[i] = f(0.9) * m1[i] + (1 - f(0.9)) * g;
    m2[i] = f(0.999) * m2[i] + (1 - f(0.999)) * g * g;
    w *= 1 - kRate * 0.25;
    w -= kRate * std::sqrt(1 - b2) / (1 - b1) * m1[i] / (std::sqrt(m2[i]) + f(1e-8));
    if (i == 2) b1 *= f(0.9), b2 *= f(0.999);
  });
}

TEST_F(OptimizerTest, AdamWAsksWhichParametersShrink) {
  const Minimized result =
      optimizer::Adam(
          0.1, {.decoupled_decay = 0.25, .decays = [](const Var& v) { return v.name() != "w"; }})
          .minimize(make_loss());
  ASSERT_EQ(result.ops.size(), 1u);
  EXPECT_EQ(result.ops[0]->type(), "adam");
}

TEST_F(OptimizerTest, AdamTakesBetasFromVariables) {
  Var& loss = make_loss();
  Var& beta =
      layers::create_global_var({1}, 0.5, DType::float64, {.persistable = true, .name = "beta"});
  const Minimized result = optimizer::Adam(0.1, {.beta1 = beta}).minimize(loss);
  EXPECT_THAT(result.ops[0]->input("Beta1Tensor"), ElementsAre("beta"));
  start();
  step();
  EXPECT_NEAR(value("w_beta1_pow_acc_0")[0], 0.9 * 0.5, 1e-9);
}

TEST_F(OptimizerTest, AdamaxMovesThePowerAfterTheUpdates) {
  const Minimized result = optimizer::Adamax(0.1).minimize(make_loss());
  ASSERT_EQ(result.ops.size(), 2u);
  EXPECT_EQ(result.ops[1]->type(), "scale");
  EXPECT_EQ(result.ops[1]->role(), op_role::kOptimize);
  std::vector<double> m(3), norm(3);
  double power = 0.9;
  expect_equal_elements([&](int i, double& w, double g) {
    m[i] = f(0.9) * m[i] + (1 - f(0.9)) * g;
    norm[i] = std::max(std::abs(g), f(0.999) * norm[i] + f(1e-8));
    w -= kRate / (1 - power) * m[i] / norm[i];
    if (i == 2) power *= f(0.9);
  });
}

TEST_F(OptimizerTest, RmsProp) {
  optimizer::RmsProp(0.1, {.momentum = 0.3, .centered = true}).minimize(make_loss());
  std::vector<double> square(3), mean(3), velocity(3);
  expect_equal_elements([&](int i, double& w, double g) {
    const double rho = f(0.95);
    square[i] = rho * square[i] + (1 - rho) * g * g;
    mean[i] = rho * mean[i] + (1 - rho) * g;
    velocity[i] =
        f(0.3) * velocity[i] + kRate * g / std::sqrt(square[i] - mean[i] * mean[i] + f(1e-6));
    w -= velocity[i];
  });
}

TEST_F(OptimizerTest, Ftrl) {
  optimizer::Ftrl(0.1, {.l1 = 0.05, .l2 = 0.2}).minimize(make_loss());
  std::vector<double> squared(3), linear(3);
  expect_equal_elements(
      [&](int i, double& w, double g) {
        const double next = squared[i] + g * g;
        linear[i] += g - (std::sqrt(next) - std::sqrt(squared[i])) / kRate * w;
        squared[i] = next;
        const double pre = (linear[i] > 0 ? 1 : -1) * f(0.05) - linear[i];
        w = std::abs(linear[i]) > f(0.05) ? pre / (std::sqrt(next) / kRate + 2 * f(0.2)) : 0;
      },
      1e-6);
}

TEST_F(OptimizerTest, LambCorrectsTheBiasIn24StyleOnly) {
  const auto norm = [](const std::vector<double>& a) {
    return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
  };
  const StyleGuard style(Style::static_2_4);
  const Minimized result = optimizer::Lamb(0.1).minimize(make_loss());
  EXPECT_FALSE(result.ops[0]->output("Beta1PowOut").empty());
  std::vector<double> m1(3), m2(3);
  double b1 = 0.9, b2 = 0.999;
  expect_equal_steps([&](std::vector<double>& w, const std::vector<double>& g) {
    std::vector<double> direction(3);
    for (int i = 0; i < 3; ++i) {
      m1[i] = f(0.9) * m1[i] + (1 - f(0.9)) * g[i];
      m2[i] = f(0.999) * m2[i] + (1 - f(0.999)) * g[i] * g[i];
      direction[i] = m1[i] / (1 - b1) / (std::sqrt(m2[i] / (1 - b2)) + f(1e-6)) + f(0.01) * w[i];
    }
    const double trust = norm(w) / norm(direction);
    for (int i = 0; i < 3; ++i) w[i] -= kRate * trust * direction[i];
    b1 *= f(0.9), b2 *= f(0.999);
  });
}

TEST_F(OptimizerTest, LambIn18StyleWritesNoPowersAndAsksWhoIsExcluded) {
  const Minimized result =
      optimizer::Lamb(0.1,
                      {.exclude_from_weight_decay = [](const Var& v) { return v.name() == "w"; }})
          .minimize(make_loss());
  EXPECT_TRUE(result.ops[0]->output("Beta1PowOut").empty());
  EXPECT_EQ(result.ops[0]->attr<float>("weight_decay"), 0.0f);
}

TEST_F(OptimizerTest, DpsgdWithoutNoiseClipsTheWholeGradient) {
  optimizer::Dpsgd(0.1, {.clip = 0.5, .batch_size = 1, .sigma = 0}).minimize(make_loss());
  expect_equal_steps([](std::vector<double>& w, const std::vector<double>& g) {
    const double norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
    for (int i = 0; i < 3; ++i) w[i] -= kRate * g[i] / std::max(1.0, norm / f(0.5));
  });
}

TEST_F(OptimizerTest, ModelAverageAppliesTheMeanAndRestores) {
  optimizer::Sgd(0.1).minimize(make_loss());
  const optimizer::ModelAverage average(1.0, {.min_average_window = 100});
  start();
  std::vector<double> sum(3);
  for (int s = 0; s < 4; ++s) {
    step();
    for (int i = 0; i < 3; ++i) sum[i] += value("w")[i];
  }
  const std::vector<double> trained = value("w");
  executor_.run(average.apply_program(), {}, {}, {.scope = &scope_});
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(value("w")[i], sum[i] / 4, 1e-9);
  executor_.run(average.restore_program(), {}, {}, {.scope = &scope_});
  EXPECT_EQ(value("w"), trained);
}

TEST_F(OptimizerTest, MovingAverageIsCorrectedForItsStartAndCanBeAppliedAgain) {
  optimizer::Sgd(0.1).minimize(make_loss());
  optimizer::ExponentialMovingAverage ema({.decay = 0.5});
  ema.update();
  start();
  std::vector<double> average(3);
  for (int s = 0; s < 3; ++s) {
    step();
    for (int i = 0; i < 3; ++i) average[i] = 0.5 * average[i] + 0.5 * value("w")[i];
  }
  const std::vector<double> trained = value("w");
  for (int again = 0; again < 2; ++again) {
    executor_.run(ema.apply_program(), {}, {}, {.scope = &scope_});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(value("w")[i], average[i] / (1 - 0.125), 1e-6);
    executor_.run(ema.restore_program(), {}, {}, {.scope = &scope_});
    EXPECT_EQ(value("w"), trained);
  }
}

TEST_F(OptimizerTest, MovingAverageDecaysFasterInTheFirstSteps) {
  optimizer::Sgd(0.1).minimize(make_loss());
  Var& steps = layers::autoincreased_step_counter();
  optimizer::ExponentialMovingAverage ema({.decay = 0.999, .thres_steps = &steps});
  ema.update();
  start();
  step();
  EXPECT_NEAR(value("scheduled_ema_decay_rate")[0], 2.0 / 11, 1e-6);
}

TEST_F(OptimizerTest, LookaheadPullsBackEveryKSteps) {
  optimizer::Lookahead(std::make_shared<optimizer::Sgd>(0.1), 0.25, 2).minimize(make_loss());
  std::vector<double> slow(3, kStart);
  int s = 0;
  expect_equal_steps([&](std::vector<double>& w, const std::vector<double>& g) {
    for (int i = 0; i < 3; ++i) w[i] -= kRate * g[i];
    if (++s % 2 != 0) return;
    for (int i = 0; i < 3; ++i) w[i] = slow[i] = 0.25 * w[i] + 0.75 * slow[i];
  });
}

TEST_F(OptimizerTest, RecomputeGivesTheSameStepsFromLessMemory) {
  Var& x = layers::data("goal", {3}, {.append_batch_size = false, .dtype = DType::float64});
  Var& w = layers::create_parameter(
      {3}, DType::float64,
      {.attr = ParamAttr{.name = "w", .initializer = initializer::constant(0.5)}});
  Var& apart = layers::elementwise_sub(w, x);
  Var& loss = layers::mean(layers::square(apart));
  optimizer::Recompute recompute(std::make_shared<optimizer::Sgd>(0.1));
  EXPECT_THAT(error_of([&] { recompute.minimize(loss); }), HasSubstr("no checkpoints"));
  recompute.set_checkpoints({apart.name()});
  recompute.minimize(loss);
  expect_equal_elements([](int, double& p, double g) { p -= kRate * g; });
}

TEST_F(OptimizerTest, PipelineSaysWhichOpIsInWhichSection) {
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  Var& rows = layers::embedding(ids, {.size = {10, 2}, .param_attr = "table"});
  Var& twice = layers::scale(rows, {.scale = 2.0});
  Var& loss = layers::mean(layers::fc(twice, {.size = 1, .bias_attr = false}));
  optimizer::PipelineOptions options{.cuts = {{&rows}, {&twice}, {&loss}},
                                     .places = std::vector<Place>(5),
                                     .concurrency = {1, 2, 3, 4, 5}};
  optimizer::Pipeline pipeline(std::make_shared<optimizer::Sgd>(0.5), options);
  EXPECT_TRUE(pipeline.sections().empty());
  const Minimized made = pipeline.minimize(loss);
  EXPECT_EQ(made.ops.size(), 2u);
  const std::vector<optimizer::PipelineSection>& sections = pipeline.sections();
  ASSERT_EQ(sections.size(), 5u);
  EXPECT_THAT(sections[0].ops, ElementsAre("lookup_table"));
  EXPECT_THAT(sections[0].inputs, ::testing::UnorderedElementsAre("ids", "table"));
  EXPECT_THAT(sections[0].outputs, ElementsAre(rows.name()));
  EXPECT_THAT(sections[1].ops, ElementsAre("scale"));
  EXPECT_THAT(sections[1].inputs, ElementsAre(rows.name()));
  EXPECT_THAT(sections[2].ops,
              ElementsAre("mul", "mean", "fill_constant", "mean_grad", "mul_grad", "sgd"));
  EXPECT_THAT(sections[2].inputs,
              ::testing::UnorderedElementsAre(twice.name(), "fc_0.w_0", "learning_rate_0"));
  EXPECT_THAT(sections[2].outputs, ElementsAre(twice.name() + "@GRAD"));
  EXPECT_THAT(sections[3].ops, ElementsAre("scale"));
  EXPECT_THAT(sections[3].outputs, ElementsAre(rows.name() + "@GRAD"));
  EXPECT_THAT(sections[4].ops, ElementsAre("lookup_table_grad", "sgd"));
  EXPECT_EQ(sections[4].concurrency, 5);
}

TEST_F(OptimizerTest, PipelineStepsAsTheInnerOptimizerDoes) {
  Var& loss = make_loss();
  optimizer::Pipeline({std::make_shared<optimizer::Sgd>(kRate)},
                      {.cuts = {{&loss}}, .places = {cpu_place()}, .concurrency = {1}})
      .minimize(loss);
  expect_equal_elements([](int, double& p, double g) { p -= kRate * g; });
}

TEST_F(OptimizerTest, PipelineRefusesWhatIsNoCut) {
  Var& loss = make_loss();
  Var& goal = main_->global_block().var("goal");
  Var& apart = main_->global_block().var("elementwise_sub_0.tmp_0");
  const auto what = [&](optimizer::PipelineOptions options) {
    return error_of([&] {
      optimizer::Pipeline(std::make_shared<optimizer::Sgd>(kRate), options).minimize(loss);
    });
  };
  const std::vector<Place> three(3);
  EXPECT_THAT(what({}), HasSubstr("cut_list holds no cut"));
  EXPECT_THAT(
      what({.cuts = {{&apart}, {&loss}}, .places = {cpu_place()}, .concurrency = {1, 1, 1}}),
      HasSubstr("place_list has 1 item, but 2 cuts make 3 sections"));
  EXPECT_THAT(what({.cuts = {{&apart}, {&loss}}, .places = three, .concurrency = {1, 1}}),
              HasSubstr("concurrency_list has 2 items, but 2 cuts make 3 sections"));
  EXPECT_THAT(what({.cuts = {{&apart}, {&loss}}, .places = three, .concurrency = {1, 0, 1}}),
              HasSubstr("an item of concurrency_list is 0"));
  EXPECT_THAT(what({.cuts = {{&goal}, {&loss}}, .places = three, .concurrency = {1, 1, 1}}),
              HasSubstr("goal of cut 0 is computed by no op"));
  EXPECT_THAT(what({.cuts = {{&loss}, {&apart}}, .places = three, .concurrency = {1, 1, 1}}),
              HasSubstr("of cut 0 is computed from cut 1"));
  EXPECT_THAT(what({.cuts = {{&apart}, {&apart}}, .places = three, .concurrency = {1, 1, 1}}),
              HasSubstr("of cut 1 is cut twice"));
  EXPECT_THAT(what({.cuts = {{&apart}, {&loss}},
                    .places = {cuda_place(0), cpu_place(), cuda_place(1)},
                    .concurrency = {1, 1, 1}}),
              HasSubstr("place_list names the cards gpu:0, gpu:1"));
  EXPECT_THAT(ops(), ElementsAre("elementwise_sub", "square", "mean"));  // as it was
}

TEST_F(OptimizerTest, SparseGradientWithDecayBecomesDense) {
  Var& ids = layers::data("ids", {2, 1}, {.append_batch_size = false, .dtype = DType::int64});
  Var& rows = layers::embedding(ids, {.size = {4, 2}, .is_sparse = true, .param_attr = "table"});
  const Minimized result =
      optimizer::Sgd(0.1, {.regularization = l2_decay(0.1)}).minimize(layers::mean(rows));
  EXPECT_EQ(result.params_grads[0].second->type(), VarType::selected_rows);
  EXPECT_THAT(result.ops.back()->input("Grad"), ElementsAre("table@GRAD@NEWGRAD@"));
}

// A row that is named twice has the sum of both as its gradient: the norm is that of the sum.
TEST(GlobalNormClip, ClipsRowsAsItClipsTheDenseGradientTheyAddUpTo) {
  std::vector<std::vector<double>> tables;
  for (const bool is_sparse : {false, true}) {
    const std::shared_ptr<Program> main = Program::create(), startup = Program::create();
    const UniqueNameGuard names;
    const ProgramGuard guard(main, startup);
    Var& ids = layers::data("ids", {5, 1}, {.append_batch_size = false, .dtype = DType::int64});
    Var& rows = layers::embedding(
        ids, {.size = {4, 2},
              .is_sparse = is_sparse,
              .param_attr = ParamAttr{.name = "table", .initializer = initializer::constant(0.5)}});
    Var& loss = layers::reduce_sum(layers::square(rows));
    optimizer::Sgd(1.0, {.grad_clip = std::make_shared<GradientClipByGlobalNorm>(0.25)})
        .minimize(loss);
    Scope scope;
    Executor executor;
    executor.run(*startup, {}, {}, {.scope = &scope});
    executor.run(*main, {{"ids", trireme::testing::longs({5, 1}, {1, 3, 1, 1, 3})}}, {},
                 {.scope = &scope});
    tables.push_back(numbers(scope.find("table")->tensor()));
  }
  // The gradient is 3 in row 1 and 2 in row 3, twice each: its length is the root of 26.
  const double by = 0.25 / std::sqrt(26.0);
  const std::vector<double> wanted = {0.5, 0.5, 0.5 - 3 * by, 0.5 - 3 * by,
                                      0.5, 0.5, 0.5 - 2 * by, 0.5 - 2 * by};
  for (const std::vector<double>& table : tables) {
    EXPECT_THAT(table, ::testing::Pointwise(::testing::DoubleNear(1e-6), wanted));
  }
}

}  // namespace
}  // namespace trireme
