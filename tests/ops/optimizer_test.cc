// Optimizers against their formulas written out, and sparse gradients against dense ones.
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

constexpr int64_t kRows = 5, kWidth = 3;
using Numbers = std::map<std::string, double>;  // one element of every operand, by slot

// An optimizer: its states, its attributes, and what one element becomes.
struct Case {
  std::string type;
  std::vector<std::string> states;
  std::vector<std::string> scalars = {"LearningRate"};
  Attrs attrs = {};
  std::function<void(Numbers&)> step;  // changes Param and the states
};

std::string out_slot(const std::string& slot) {
  if (slot == "SquaredAccumulator") return "SquaredAccumOut";
  if (slot == "LinearAccumulator") return "LinearAccumOut";
  return slot + "Out";
}

Tensor draw_operand(Draw& draw, const std::string& slot) {
  if (slot == "Param" || slot == "Grad") return draw.uniform({kRows, kWidth});
  if (slot == "MeanGrad") return draw.uniform({kRows, kWidth}, -0.1, 0.1);
  return draw.uniform({kRows, kWidth}, 0.1, 1);
}

ScopeRunner prepared(const Case& c, uint64_t seed) {
  Draw draw(seed);
  ScopeRunner runner;
  for (const std::string slot : {"Param", "Grad"}) runner.set(slot, draw_operand(draw, slot));
  for (const std::string& slot : c.states) runner.set(slot, draw_operand(draw, slot));
  for (const std::string& slot : c.scalars) runner.set(slot, draw.uniform({1}, 0.2, 0.8));
  return runner;
}

void run(ScopeRunner& runner, const Case& c) {
  std::map<std::string, std::string> inputs = {{"Param", "Param"}, {"Grad", "Grad"}};
  std::map<std::string, std::string> outputs = {{"ParamOut", "Param"}};
  for (const std::string& slot : c.states) {
    inputs[slot] = slot;
    outputs[out_slot(slot)] = slot;
  }
  for (const std::string& slot : c.scalars) {
    inputs[slot] = slot;
    if (c.type == "adam" && slot != "LearningRate") outputs[out_slot(slot)] = slot;
  }
  runner.run(c.type, inputs, outputs, c.attrs);
}

double f(float value) { return value; }

Case momentum(bool nesterov) {
  return {.type = "momentum",
          .states = {"Velocity"},
          .attrs = {{"mu", 0.9f}, {"use_nesterov", nesterov}},
          .step = [=](Numbers& n) {
            n["Velocity"] = f(0.9f) * n["Velocity"] + n["Grad"];
            const double move = nesterov ? n["Grad"] + f(0.9f) * n["Velocity"] : n["Velocity"];
            n["Param"] -= n["LearningRate"] * move;
          }};
}

Case adam(bool corrects_epsilon = false) {
  return {.type = "adam",
          .states = {"Moment1", "Moment2"},
          .scalars = {"LearningRate", "Beta1Pow", "Beta2Pow"},
          .attrs = {{"epsilon", 0.01f}, {"corrects_epsilon", corrects_epsilon}},
          .step = [=](Numbers& n) {
            const double g = n["Grad"], b1 = f(0.9f), b2 = f(0.999f);
            n["Moment1"] = b1 * n["Moment1"] + (1 - b1) * g;
            n["Moment2"] = b2 * n["Moment2"] + (1 - b2) * g * g;
            const double mean = n["Moment1"] / (1 - n["Beta1Pow"]);
            const double correction = std::sqrt(1 - n["Beta2Pow"]);
            const double root = std::sqrt(n["Moment2"]) / correction;
            const double epsilon = corrects_epsilon ? f(0.01f) : f(0.01f) / correction;
            n["Param"] -= n["LearningRate"] * mean / (root + epsilon);
          }};
}

Case rmsprop(bool centered) {
  return {.type = "rmsprop",
          .states = {"MeanSquare", "MeanGrad", "Moment"},
          .attrs = {{"centered", centered}, {"momentum", 0.5f}},
          .step = [=](Numbers& n) {
            const double g = n["Grad"], decay = f(0.9f);
            n["MeanSquare"] = decay * n["MeanSquare"] + (1 - decay) * g * g;
            if (centered) n["MeanGrad"] = decay * n["MeanGrad"] + (1 - decay) * g;
            const double mean = centered ? n["MeanGrad"] : 0;
            n["Moment"] =
                0.5 * n["Moment"] +
                n["LearningRate"] * g / std::sqrt(n["MeanSquare"] - mean * mean + f(1e-10f));
            n["Param"] -= n["Moment"];
          }};
}

std::vector<Case> elementwise_cases() {
  return {
      {.type = "sgd",
       .states = {},
       .step = [](Numbers& n) { n["Param"] -= n["LearningRate"] * n["Grad"]; }},
      momentum(false),
      momentum(true),
      adam(),
      adam(/*corrects_epsilon=*/true),
      {.type = "adagrad",
       .states = {"Moment"},
       .step =
           [](Numbers& n) {
             n["Moment"] += n["Grad"] * n["Grad"];
             n["Param"] -= n["LearningRate"] * n["Grad"] / (std::sqrt(n["Moment"]) + f(1e-6f));
           }},
      {.type = "decayed_adagrad",
       .states = {"Moment"},
       .step =
           [](Numbers& n) {
             n["Moment"] = f(0.95f) * n["Moment"] + (1 - f(0.95f)) * n["Grad"] * n["Grad"];
             n["Param"] -= n["LearningRate"] * n["Grad"] / (std::sqrt(n["Moment"]) + f(1e-6f));
           }},
      {.type = "adadelta",
       .states = {"AvgSquaredGrad", "AvgSquaredUpdate"},
       .scalars = {},
       .step =
           [](Numbers& n) {
             const double rho = f(0.95f), epsilon = f(1e-6f), g = n["Grad"];
             n["AvgSquaredGrad"] = rho * n["AvgSquaredGrad"] + (1 - rho) * g * g;
             // The mean takes in the update that it gives; the parameter moves by the one it gives
             // then.
             const auto update = [&] {
               return -std::sqrt((n["AvgSquaredUpdate"] + epsilon) /
                                 (n["AvgSquaredGrad"] + epsilon)) *
                      g;
             };
             n["AvgSquaredUpdate"] = rho * n["AvgSquaredUpdate"] + (1 - rho) * update() * update();
             n["Param"] += update();
           }},
      {.type = "adamax",
       .states = {"Moment", "InfNorm"},
       .scalars = {"LearningRate", "Beta1Pow"},
       .step =
           [](Numbers& n) {
             n["Moment"] = f(0.9f) * n["Moment"] + (1 - f(0.9f)) * n["Grad"];
             n["InfNorm"] = std::max(std::fabs(n["Grad"]), f(0.999f) * n["InfNorm"] + f(1e-8f));
             n["Param"] -= n["LearningRate"] / (1 - n["Beta1Pow"]) * n["Moment"] / n["InfNorm"];
           }},
      rmsprop(false),
      rmsprop(true),
      {.type = "ftrl",
       .states = {"SquaredAccumulator", "LinearAccumulator"},
       .attrs = {{"l1", 0.5f}, {"l2", 0.25f}, {"lr_power", -0.75f}},
       .step =
           [](Numbers& n) {
             const double lr = n["LearningRate"], old = n["SquaredAccumulator"];
             const double now = old + n["Grad"] * n["Grad"];
             n["LinearAccumulator"] +=
                 n["Grad"] - (std::pow(now, 0.75) - std::pow(old, 0.75)) / lr * n["Param"];
             n["SquaredAccumulator"] = now;
             const double linear = n["LinearAccumulator"];
             n["Param"] = std::fabs(linear) > 0.5 ? (std::copysign(0.5, linear) - linear) /
                                                        (std::pow(now, 0.75) / lr + 2 * 0.25)
                                                  : 0;
           }},
  };
}

TEST(Optimizer, OneStepIsTheFormula) {
  for (const Case& c : elementwise_cases()) {
    SCOPED_TRACE(c.type);
    ScopeRunner runner = prepared(c, 3);
    const ScopeRunner before = prepared(c, 3);
    run(runner, c);
    std::vector<std::string> all = c.states;
    all.push_back("Param");
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      Numbers n = {{"Grad", before.tensor("Grad").data<double>()[i]}};
      for (const std::string& slot : all) n[slot] = before.tensor(slot).data<double>()[i];
      for (const std::string& slot : c.scalars) n[slot] = before.tensor(slot).data<double>()[0];
      c.step(n);
      for (const std::string& slot : all) {
        EXPECT_NEAR(runner.tensor(slot).data<double>()[i], n[slot], 1e-6) << slot << "[" << i;
      }
    }
  }
}

// Rows 3 and 0 with row 3 twice, and the dense gradient they add up to.
SelectedRows sparse_grad() {
  Draw draw(11);
  return {{3, 0, 3}, kRows, draw.uniform({3, kWidth})};
}
Tensor densified(const SelectedRows& grad) {
  Tensor dense = filled(DType::float64, {kRows, kWidth}, 0);
  for (size_t i = 0; i < grad.rows.size(); ++i) {
    for (int64_t j = 0; j < kWidth; ++j) {
      dense.data<double>()[grad.rows[i] * kWidth + j] +=
          grad.value.data<double>()[static_cast<int64_t>(i) * kWidth + j];
    }
  }
  return dense;
}

std::vector<Case> sparse_cases() {
  std::vector<Case> cases = {{.type = "sgd", .states = {}, .step = {}},
                             momentum(false),
                             momentum(true),
                             adam(),
                             {.type = "adagrad", .states = {"Moment"}, .step = {}},
                             rmsprop(false),
                             rmsprop(true)};
  cases.push_back({.type = "lamb",
                   .states = {"Moment1", "Moment2"},
                   .scalars = {"LearningRate", "Beta1Pow", "Beta2Pow"},
                   .attrs = {{"weight_decay", 0.01f}},
                   .step = {}});
  return cases;
}

TEST(Optimizer, ASparseGradientMovesAsADenseOne) {
  for (const Case& c : sparse_cases()) {
    SCOPED_TRACE(c.type);
    ScopeRunner sparse = prepared(c, 5), dense = prepared(c, 5);
    sparse.set("Grad", sparse_grad());
    dense.set("Grad", densified(sparse_grad()));
    run(sparse, c);
    run(dense, c);
    std::vector<std::string> all = c.states;
    all.push_back("Param");
    if (c.type == "adam") all.insert(all.end(), {"Beta1Pow", "Beta2Pow"});
    for (const std::string& slot : all) {
      EXPECT_LT(max_abs_diff(sparse.tensor(slot), dense.tensor(slot)), 1e-12) << slot;
    }
  }
}

// Enough rows for several parts, some named often and some never: each part merges its own.
TEST(Optimizer, ManyRowsNamedSeveralTimesMoveAsADenseGradient) {
  constexpr int64_t kHeight = 9000, kNamed = 12000, kColumns = 10;
  Draw draw(17);
  SelectedRows grad{{}, kHeight, draw.uniform({kNamed, kColumns})};
  Tensor dense = filled(DType::float64, {kHeight, kColumns}, 0);
  for (int64_t i = 0; i < kNamed; ++i) {
    const int64_t row = i % 3 == 0 ? draw.size(0, 40) * 200 : draw.size(0, kHeight - 1);
    grad.rows.push_back(row);
    for (int64_t j = 0; j < kColumns; ++j) {
      dense.data<double>()[row * kColumns + j] += grad.value.data<double>()[i * kColumns + j];
    }
  }
  for (const char* type : {"sgd", "adagrad"}) {
    SCOPED_TRACE(type);
    ScopeRunner one, other;
    for (ScopeRunner* runner : {&one, &other}) {
      Draw same(3);
      runner->set("Param", same.uniform({kHeight, kColumns}));
      runner->set("Moment", same.uniform({kHeight, kColumns}, 0.1, 1));
      runner->set("LearningRate", filled(DType::float64, {1}, 0.1));
    }
    one.set("Grad", grad);
    other.set("Grad", dense);
    const Case c{.type = type,
                 .states = type == std::string("sgd") ? std::vector<std::string>{}
                                                      : std::vector<std::string>{"Moment"},
                 .step = {}};
    run(one, c);
    run(other, c);
    EXPECT_LT(max_abs_diff(one.tensor("Param"), other.tensor("Param")), 1e-12);
    EXPECT_LT(max_abs_diff(one.tensor("Moment"), other.tensor("Moment")), 1e-12);
  }
}

TEST(Optimizer, ASparseGradientWithoutRowsIsADenseZero) {
  for (const Case& c : sparse_cases()) {
    SCOPED_TRACE(c.type);
    ScopeRunner sparse = prepared(c, 6), dense = prepared(c, 6);
    sparse.set("Grad", SelectedRows{{}, kRows, Tensor(DType::float64, {0, kWidth})});
    dense.set("Grad", filled(DType::float64, {kRows, kWidth}, 0));
    run(sparse, c);
    run(dense, c);
    EXPECT_LT(max_abs_diff(sparse.tensor("Param"), dense.tensor("Param")), 1e-12);
  }
}

TEST(Optimizer, ARowOutsideTheParameterIsAnError) {
  for (const Case& c : sparse_cases()) {
    ScopeRunner runner = prepared(c, 7);
    SelectedRows grad = sparse_grad();
    grad.rows[1] = kRows;
    runner.set("Grad", std::move(grad));
    const std::string error = error_of([&] { run(runner, c); });
    EXPECT_NE(error.find(cat("names row ", kRows)), std::string::npos) << error;
  }
}

TEST(Optimizer, AGradientOfAnotherShapeIsAnError) {
  for (const Case& c : elementwise_cases()) {
    ScopeRunner runner = prepared(c, 7);
    runner.set("Grad", filled(DType::float64, {kRows, kWidth + 1}, 0));
    const std::string error = error_of([&] { run(runner, c); });
    EXPECT_NE(error.find("Grad has shape [5, 4] but Param has [5, 3]"), std::string::npos) << error;
  }
}

TEST(Optimizer, AGradientOfAnotherTypeIsAnError) {
  const Case c = momentum(false);
  ScopeRunner runner = prepared(c, 7);
  runner.set("Grad", filled(DType::float32, {kRows, kWidth}, 0));
  const std::string error = error_of([&] { run(runner, c); });
  EXPECT_NE(error.find("Grad is float32 but Param is float64"), std::string::npos) << error;
}

TEST(Optimizer, ThoseWithoutASparseFormSaySo) {
  for (const Case& c : elementwise_cases()) {
    if (c.type != "ftrl" && c.type != "adamax" && c.type != "adadelta") continue;
    ScopeRunner runner = prepared(c, 7);
    runner.set("Grad", sparse_grad());
    const std::string error = error_of([&] { run(runner, c); });
    EXPECT_NE(error.find("cannot apply a sparse gradient"), std::string::npos) << error;
  }
}

TEST(Optimizer, MultiPrecisionIsRefused) {
  ScopeRunner runner = prepared(elementwise_cases()[0], 1);
  Case c = elementwise_cases()[0];
  c.attrs["multi_precision"] = true;
  const std::string error = error_of([&] { run(runner, c); });
  EXPECT_NE(error.find("multi_precision"), std::string::npos) << error;
}

TEST(Adam, WritesTheNextPowers) {
  ScopeRunner runner = prepared(adam(), 2);
  const double beta1_pow = runner.tensor("Beta1Pow").data<double>()[0];
  const double beta2_pow = runner.tensor("Beta2Pow").data<double>()[0];
  run(runner, adam());
  EXPECT_NEAR(runner.tensor("Beta1Pow").data<double>()[0], beta1_pow * f(0.9f), 1e-15);
  EXPECT_NEAR(runner.tensor("Beta2Pow").data<double>()[0], beta2_pow * f(0.999f), 1e-15);
}

TEST(Adam, TakesItsBetasFromTensors) {
  Case c = adam();
  ScopeRunner by_attribute = prepared(c, 2), by_tensor = prepared(c, 2);
  c.attrs = {{"beta1", 0.5f}, {"beta2", 0.25f}, {"epsilon", 0.125f}};
  run(by_attribute, c);
  by_tensor.set("b1", doubles({1}, {0.5}));
  by_tensor.set("b2", doubles({1}, {0.25}));
  by_tensor.set("eps", doubles({1}, {0.125}));
  by_tensor.run("adam",
                {{"Param", "Param"},
                 {"Grad", "Grad"},
                 {"LearningRate", "LearningRate"},
                 {"Moment1", "Moment1"},
                 {"Moment2", "Moment2"},
                 {"Beta1Pow", "Beta1Pow"},
                 {"Beta2Pow", "Beta2Pow"},
                 {"Beta1Tensor", "b1"},
                 {"Beta2Tensor", "b2"},
                 {"EpsilonTensor", "eps"}},
                {{"ParamOut", "Param"},
                 {"Moment1Out", "Moment1"},
                 {"Moment2Out", "Moment2"},
                 {"Beta1PowOut", "Beta1Pow"},
                 {"Beta2PowOut", "Beta2Pow"}});
  for (const std::string slot : {"Param", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow"}) {
    EXPECT_LT(max_abs_diff(by_attribute.tensor(slot), by_tensor.tensor(slot)), 1e-15) << slot;
  }
}

TEST(Adam, LazyModeLeavesOtherRowsAlone) {
  Case c = adam();
  c.attrs["lazy_mode"] = true;
  ScopeRunner lazy = prepared(c, 4), eager = prepared(adam(), 4);
  const ScopeRunner before = prepared(c, 4);
  lazy.set("Grad", sparse_grad());
  eager.set("Grad", sparse_grad());
  run(lazy, c);
  run(eager, adam());
  for (const std::string slot : {"Param", "Moment1", "Moment2"}) {
    for (int64_t row = 0; row < kRows; ++row) {
      const bool named = row == 0 || row == 3;
      const Tensor& like = named ? eager.tensor(slot) : before.tensor(slot);
      EXPECT_EQ(
          max_abs_diff(lazy.tensor(slot).slice_rows(row, row + 1), like.slice_rows(row, row + 1)),
          0)
          << slot << " row " << row;
    }
  }
}

double norm(const Tensor& x) {
  double sum = 0;
  for (const double v : numbers(x)) sum += v * v;
  return std::sqrt(sum);
}

TEST(LarsMomentum, ScalesTheRateByTheNorms) {
  const Case c = {
      .type = "lars_momentum", .states = {"Velocity"}, .attrs = {{"mu", 0.9f}}, .step = {}};
  ScopeRunner runner = prepared(c, 8);
  const ScopeRunner before = prepared(c, 8);
  run(runner, c);
  const double param_norm = norm(before.tensor("Param")), grad_norm = norm(before.tensor("Grad"));
  const double decay = f(0.0005f), lr = before.tensor("LearningRate").data<double>()[0];
  const double rate = lr * f(0.001f) * param_norm / (grad_norm + decay * param_norm);
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    const double p = before.tensor("Param").data<double>()[i];
    const double v = f(0.9f) * before.tensor("Velocity").data<double>()[i] +
                     rate * (before.tensor("Grad").data<double>()[i] + decay * p);
    EXPECT_NEAR(runner.tensor("Velocity").data<double>()[i], v, 1e-12);
    EXPECT_NEAR(runner.tensor("Param").data<double>()[i], p - v, 1e-12);
  }
}

TEST(LarsMomentum, AParameterOfZerosMovesByThePlainRate) {
  const Case c = {
      .type = "lars_momentum", .states = {"Velocity"}, .attrs = {{"mu", 0.0f}}, .step = {}};
  ScopeRunner runner = prepared(c, 8);
  runner.set("Param", filled(DType::float64, {kRows, kWidth}, 0));
  const double lr = runner.tensor("LearningRate").data<double>()[0];
  run(runner, c);
  EXPECT_NEAR(runner.tensor("Param").data<double>()[4],
              -lr * runner.tensor("Grad").data<double>()[4], 1e-12);
}

TEST(Lamb, StepsByTheLengthOfTheParameter) {
  for (const bool corrected : {false, true}) {
    const Case c = {.type = "lamb",
                    .states = {"Moment1", "Moment2"},
                    .scalars = {"LearningRate", "Beta1Pow", "Beta2Pow"},
                    .attrs = {{"weight_decay", 0.25f}},
                    .step = {}};
    ScopeRunner runner = prepared(c, 9);
    const ScopeRunner before = prepared(c, 9);
    std::map<std::string, std::string> ins,
        outs = {{"ParamOut", "Param"}, {"Moment1Out", "Moment1"}, {"Moment2Out", "Moment2"}};
    for (const std::string slot :
         {"Param", "Grad", "LearningRate", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow"}) {
      ins[slot] = slot;
    }
    if (corrected) outs.insert({{"Beta1PowOut", "Beta1Pow"}, {"Beta2PowOut", "Beta2Pow"}});
    runner.run("lamb", ins, outs, c.attrs);
    const auto at = [&](const std::string& slot, int64_t i) {
      return before.tensor(slot).data<double>()[i];
    };
    std::vector<double> direction;
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      double m1 = f(0.9f) * at("Moment1", i) + (1 - f(0.9f)) * at("Grad", i);
      double m2 = f(0.999f) * at("Moment2", i) + (1 - f(0.999f)) * at("Grad", i) * at("Grad", i);
      if (corrected) {
        m1 /= 1 - at("Beta1Pow", 0);
        m2 /= 1 - at("Beta2Pow", 0);
      }
      direction.push_back(m1 / (std::sqrt(m2) + f(1e-6f)) + 0.25 * at("Param", i));
    }
    const double trust = norm(before.tensor("Param")) / norm(doubles({kRows * kWidth}, direction));
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      EXPECT_NEAR(
          runner.tensor("Param").data<double>()[i],
          at("Param", i) - at("LearningRate", 0) * trust * direction[static_cast<size_t>(i)],
          1e-12);
    }
    EXPECT_EQ(runner.tensor("Beta1Pow").data<double>()[0] != at("Beta1Pow", 0), corrected);
  }
}

TEST(Dpsgd, ClipsAndAddsNoiseThatChangesFromRunToRun) {
  Case c = {.type = "dpsgd",
            .states = {},
            .attrs = {{"clip", 0.5f}, {"batch_size", 4.0f}, {"sigma", 0.0f}, {"seed", 3}},
            .step = {}};
  ScopeRunner quiet = prepared(c, 10);
  const ScopeRunner before = prepared(c, 10);
  const double scale = norm(before.tensor("Grad")) / 0.5;
  const double lr = before.tensor("LearningRate").data<double>()[0];
  ASSERT_GT(scale, 1);
  run(quiet, c);
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    EXPECT_NEAR(quiet.tensor("Param").data<double>()[i],
                before.tensor("Param").data<double>()[i] -
                    lr * before.tensor("Grad").data<double>()[i] / scale,
                1e-9);
  }
  c.attrs["sigma"] = 1.0f;
  ScopeRunner noisy = prepared(c, 10), again = prepared(c, 10);
  run(noisy, c);
  run(again, c);
  EXPECT_EQ(max_abs_diff(noisy.tensor("Param"), again.tensor("Param")), 0);  // the seed is given
  EXPECT_GT(max_abs_diff(noisy.tensor("Param"), quiet.tensor("Param")), 1e-3);
}

TEST(AverageAccumulates, KeepsTheSumsOfTheWindow) {
  ScopeRunner runner;
  runner.set("param", doubles({2}, {1, 2}));
  for (const std::string name : {"sum_1", "sum_2", "sum_3"}) {
    runner.set(name, filled(DType::float64, {2}, 0));
  }
  for (const std::string name : {"num_accumulates", "old_num_accumulates", "num_updates"}) {
    runner.set(name, longs({1}, {0}));
  }
  std::map<std::string, std::string> ins = {{"param", "param"}}, outs;
  for (const std::string name :
       {"sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates"}) {
    ins["in_" + name] = name;
    outs["out_" + name] = name;
  }
  const Attrs attrs = {{"average_window", 1.0f},
                       {"min_average_window", int64_t{2}},
                       {"max_average_window", int64_t{3}}};
  const auto step = [&] { runner.run("average_accumulates", ins, outs, attrs); };
  step();
  EXPECT_EQ(numbers(runner.tensor("sum_1")), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(runner.tensor("num_accumulates")), std::vector<double>{1});
  step();  // two updates reach the window of min(3, 2 * 1.0)
  EXPECT_EQ(numbers(runner.tensor("sum_1")), (std::vector<double>{0, 0}));
  EXPECT_EQ(numbers(runner.tensor("sum_3")), (std::vector<double>{2, 4}));
  EXPECT_EQ(numbers(runner.tensor("old_num_accumulates")), std::vector<double>{2});
  step();
  step();
  EXPECT_EQ(numbers(runner.tensor("num_accumulates")), std::vector<double>{2});
  step();  // three reach min(3, 5)
  EXPECT_EQ(numbers(runner.tensor("sum_3")), (std::vector<double>{3, 6}));
  EXPECT_EQ(numbers(runner.tensor("num_updates")), std::vector<double>{5});
}

TEST(AverageAccumulates, MovesASumOnBeforeItGrowsTooLong) {
  ScopeRunner runner;
  runner.set("param", doubles({1}, {1}));
  runner.set("sum_1", doubles({1}, {10}));
  runner.set("sum_2", doubles({1}, {100}));
  runner.set("sum_3", doubles({1}, {1000}));
  runner.set("num_accumulates", longs({1}, {16383}));
  runner.set("old_num_accumulates", longs({1}, {7}));
  runner.set("num_updates", longs({1}, {16383}));
  std::map<std::string, std::string> ins = {{"param", "param"}}, outs;
  for (const std::string name :
       {"sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates"}) {
    ins["in_" + name] = name;
    outs["out_" + name] = name;
  }
  runner.run("average_accumulates", ins, outs,
             {{"average_window", 1.0f},
              {"min_average_window", int64_t{100000}},
              {"max_average_window", int64_t{100000}}});
  EXPECT_EQ(numbers(runner.tensor("sum_1")), std::vector<double>{0});
  EXPECT_EQ(numbers(runner.tensor("sum_2")), std::vector<double>{111});
  EXPECT_EQ(numbers(runner.tensor("sum_3")), std::vector<double>{1000});
}

}  // namespace
}  // namespace trireme::testing
