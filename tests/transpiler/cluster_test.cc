// Sync mode in numbers: a cluster in one process trains as the untranspiled program does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/optimizer_average.h"
#include "tests/support/temp_dir.h"
#include "tests/transpiler/training.h"
#include "transpiler/edit.h"
#include "transpiler/memory_optimize.h"
#include "transpiler/sliced_files.h"

namespace trireme::testing {
namespace {

using optimizer::RmsPropOptions;

template <class... Args>
Minimize by_adam(Args... args) {
  return [=](Var& loss) { optimizer::Adam(0.01, {}, args...).minimize(loss); };
}

OptimizerOptions decayed_by(std::shared_ptr<Regularizer> decay) {
  return {.regularization = std::move(decay)};
}

std::vector<Case> optimizers() {
  return {
      dense("sgd", sgd),
      dense("momentum", [](Var& l) { optimizer::Momentum(0.05, 0.9).minimize(l); }),
      dense("nesterov", [](Var& l) { optimizer::Momentum(0.05, 0.9, true).minimize(l); }),
      dense("adagrad", [](Var& l) { optimizer::Adagrad(0.1).minimize(l); }),
      dense("decayed adagrad", [](Var& l) { optimizer::DecayedAdagrad(0.001).minimize(l); }),
      dense("adadelta", [](Var& l) { optimizer::Adadelta(0.1).minimize(l); }),
      dense("adam", [](Var& l) { optimizer::Adam(0.01).minimize(l); }),
      dense("adamax", [](Var& l) { optimizer::Adamax(0.01).minimize(l); }),
      dense("rmsprop", [](Var& l) { optimizer::RmsProp(0.01).minimize(l); }),
      dense("rmsprop, centered",
            [](Var& l) {
              optimizer::RmsProp(0.01, {.momentum = 0.5, .centered = true}).minimize(l);
            }),
      dense("ftrl", [](Var& l) { optimizer::Ftrl(0.05).minimize(l); }),
      dense("lars", [](Var& l) { optimizer::LarsMomentum(0.1, 0.9).minimize(l); }),
      dense("lamb", [](Var& l) { optimizer::Lamb(0.01).minimize(l); }),
      // Its noise is drawn by the parameter's name and the number of the step.
      dense("dpsgd",
            [](Var& l) {
              optimizer::Dpsgd(0.01, {.clip = 0.1, .batch_size = 1, .sigma = 0.1, .seed = 7})
                  .minimize(l);
            }),
  };
}

std::vector<Case> decays() {
  const auto scheduled = [](const char* name, const std::function<Var&()>& rate) {
    return dense(name, [=](Var& loss) { optimizer::Momentum(rate(), 0.9).minimize(loss); });
  };
  return {
      scheduled("exponential",
                []() -> Var& { return layers::exponential_decay(0.05, 2, 0.5, true); }),
      scheduled("natural exponential",
                []() -> Var& { return layers::natural_exp_decay(0.05, 2, 0.5); }),
      scheduled("inverse time", []() -> Var& { return layers::inverse_time_decay(0.05, 2, 0.5); }),
      scheduled("polynomial", []() -> Var& { return layers::polynomial_decay(0.05, 3); }),
      scheduled("piecewise",
                []() -> Var& {
                  return layers::piecewise_decay({1, 3}, {0.05, 0.01, 0.1});
                }),
      scheduled("cosine", []() -> Var& { return layers::cosine_decay(0.05, 2, 3); }),
      scheduled("noam", []() -> Var& { return layers::noam_decay(64, 2); }),
      scheduled("warmup", []() -> Var& { return layers::linear_lr_warmup(0.05, 3, 0.01, 0.05); }),
      dense("weight decay, L2", by_adam(decayed_by(std::make_shared<L2Decay>(0.01)))),
      dense("weight decay, L1", by_adam(decayed_by(std::make_shared<L1Decay>(0.01)))),
  };
}

std::vector<Case> tables() {
  const Minimize adagrad = [](Var& l) { optimizer::Adagrad(0.1).minimize(l); };
  const Minimize l2 = [](Var& l) {
    optimizer::Sgd(0.1, decayed_by(std::make_shared<L2Decay>(0.1))).minimize(l);
  };
  return {sparse("sparse, sgd", sgd),
          sparse("sparse, adam", by_adam()),
          sparse("sparse, adagrad", adagrad),
          sparse("sparse, weight decay", l2),
          sparse("distributed, sgd", sgd, {.is_distributed = true}),
          sparse("distributed, adam", by_adam(), {.is_distributed = true}),
          sparse("distributed, weight decay", l2, {.is_distributed = true})};
}

// Losses whose weights are rows that only some classes need. nce draws other classes by an own
// seed, by the rows of its batch; given ones are the same for every trainer.
enum class Classes { of_tree, drawn, given };
Case classes_of_rows(Classes which) {
  const bool by_tree = which == Classes::of_tree;
  return {by_tree ? "hsigmoid" : "nce",
          [=]() -> Var& {
            Var& x = layers::fc(layers::data("x", {16}),
                                {.size = 32, .param_attr = seeded("w", 3), .bias_attr = false});
            Var& label = layers::data("label", {1}, {.dtype = DType::int64});
            Var& cost = by_tree ? layers::hsigmoid(x, label,
                                                   {.num_classes = 600,
                                                    .param_attr = seeded("rows", 8),
                                                    .bias_attr = "bias",
                                                    .is_sparse = true})
                                : layers::nce(x, label,
                                              {.num_total_classes = 600,
                                               .param_attr = seeded("rows", 8),
                                               .bias_attr = "bias",
                                               .num_neg_samples = 5,
                                               .seed = 11,
                                               .is_sparse = true});
            if (which == Classes::given) {
              for (Op* op : default_main_program().global_block().ops()) {
                if (op->type() != "nce") continue;
                op->set_attr("custom_neg_classes", std::vector<int32_t>{3, 599, 42, 300, 7});
              }
            }
            return layers::mean(cost);
          },
          sgd,
          [](int64_t begin, int64_t end) -> Feeds {
            return {{"x", samples(begin, end, 16, 1)}, {"label", numbered(begin, end, 600)}};
          }};
}

// Two losses that update the same weight one after the other, and a parameter that none needs.
Case two_losses() {
  const auto build = []() -> Var& {
    Var& x = layers::data("x", {128});
    layers::create_parameter({7}, DType::float32, {.name = "unused"});
    Var& out = layers::fc(x, {.size = 160, .param_attr = seeded("w", 3), .bias_attr = false});
    optimizer::Sgd(0.1).minimize(layers::mean(out));
    return layers::mean(layers::square(out));
  };
  return {"two losses", build, [](Var& loss) { optimizer::Momentum(0.05, 0.9).minimize(loss); },
          [](int64_t begin, int64_t end) -> Feeds {
            return {{"x", samples(begin, end, 128, 1)}};
          }};
}

// The unused parameter is nobody's to update.
Trained only_placed(Trained trained) {
  trained.params.erase("unused");
  return trained;
}

TEST(Cluster, OneTrainerGivesTheBitsOfTheUntranspiledProgram) {
  for (const auto& list : {optimizers(), decays(), tables()}) {
    for (const Case& with : list) {
      SCOPED_TRACE(with.name);
      EXPECT_EQ(worst_difference(train_locally(with), train_in_cluster(with, 1)), 0);
    }
  }
  for (const Case& with : {classes_of_rows(Classes::drawn), classes_of_rows(Classes::given),
                           classes_of_rows(Classes::of_tree), two_losses()}) {
    SCOPED_TRACE(with.name);
    EXPECT_EQ(worst_difference(only_placed(train_locally(with)), train_in_cluster(with, 1)), 0);
  }
}

TEST(Cluster, TwoTrainersGiveTheNumbersOfOneMachineWithBothBatches) {
  for (const auto& list : {optimizers(), decays(), tables()}) {
    for (const Case& with : list) {
      SCOPED_TRACE(with.name);
      EXPECT_LT(worst_difference(train_locally(with), train_in_cluster(with, 2)), 2e-5);
    }
  }
  for (Case with :
       {classes_of_rows(Classes::given), classes_of_rows(Classes::of_tree), two_losses()}) {
    SCOPED_TRACE(with.name);
    with.batch = kBatchOfThree;
    for (const int trainers : {2, 3}) {
      EXPECT_LT(
          worst_difference(only_placed(train_locally(with)), train_in_cluster(with, trainers)),
          2e-5);
    }
  }
}

// Rates, weight decay and updates get the variables back that they shared.
TEST(Cluster, TrainsAsOneMachineAfterMemoryOptimize) {
  const auto optimized = [](Var& loss) {
    optimizer::Momentum(
        layers::linear_lr_warmup(layers::piecewise_decay({1, 3}, {0.05, 0.01, 0.1}), 2, 0.01, 0.05),
        0.9, false, decayed_by(std::make_shared<L2Decay>(0.01)))
        .minimize(loss);
    memory_optimize(default_main_program(), {.level = 1, .skip_grads = true});
  };
  for (const Case& with : {dense("dense", optimized), sparse("sparse", optimized)}) {
    SCOPED_TRACE(with.name);
    const Trained expected = train_locally(with);
    EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 1)), 0);
    EXPECT_LT(worst_difference(expected, train_in_cluster(with, 2)), 2e-5);
  }
}

// Every trainer averages what it receives.
TEST(Cluster, AveragesOfParametersAreThoseOfOneMachine) {
  for (const bool is_sparse : {false, true}) {
    const auto averaged = [](Var& loss) {
      sgd(loss);
      optimizer::ExponentialMovingAverage({.decay = 0.9}).update();
    };
    const Case with = is_sparse ? sparse("sparse", averaged) : dense("dense", averaged);
    std::map<std::string, Tensor> expected;
    const auto is_average = [](const Var& var) {
      return var.persistable() && var.name().find("_ema_") != std::string::npos &&
             var.dtype() == DType::float32;
    };
    {
      FreshPrograms fresh;
      build_case(with);
      Scope scope;
      Executor executor;
      executor.run(*fresh.startup, {}, {}, {.scope = &scope});
      for (int step = 0; step < kSteps; ++step) {
        executor.run(*fresh.main, with.feed(step * kBatch, (step + 1) * kBatch), {},
                     {.scope = &scope});
      }
      for (const Var* var : fresh.main->global_block().vars()) {
        if (is_average(*var)) expected[var->name()] = scope.find(var->name())->tensor().clone();
      }
    }
    EXPECT_GE(expected.size(), 3u);
    for (const int trainers : {1, 2}) {
      TestCluster cluster(with, trainers);
      for (int step = 0; step < kSteps; ++step) cluster.step(with, step);
      for (const auto& trainer : cluster.trainers) {
        for (const auto& [name, value] : expected) {
          const Tensor held = trainer->value(name);
          for (int64_t i = 0; i < value.numel(); ++i) {
            ASSERT_NEAR(held.data<float>()[i], value.data<float>()[i], 2e-5) << name;
          }
        }
      }
    }
  }
}

TEST(Cluster, PlacementDoesNotChangeNumbers) {
  const Case with = dense("adam", by_adam());
  const Trained expected = train_in_cluster(with, 2);
  DistributeTranspilerConfig hashed, whole;
  hashed.split_method = [](Strings eps) { return std::make_unique<HashName>(std::move(eps)); };
  whole.slice_var_up = false;
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 2, hashed)), 0);
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 2, whole)), 0);
  for (const char* servers : {"a:1", "a:1,b:1,c:1", "a:1,b:1,c:1,d:1,e:1"}) {
    EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 2, {}, servers)), 0) << servers;
  }
}

TEST(Cluster, BackgroundSendersThatWaitForAllTrainersAreSyncToo) {
  DistributeTranspilerConfig config;
  config.sync_mode = false;
  config.runtime_split_send_recv = true;
  config.half_async = true;
  config.completely_not_async = true;
  for (const Case& with : {dense("adam", by_adam()), sparse("sparse, adam", by_adam())}) {
    SCOPED_TRACE(with.name);
    EXPECT_EQ(worst_difference(train_in_cluster(with, 2), train_in_cluster(with, 2, config)), 0);
  }
}

// ---- stopping and going on

void save_file(const std::string& path, const Tensor& tensor) {
  auto program = Program::create();
  Block& block = program->global_block();
  block.create_var(
      {.name = "v", .dtype = tensor.dtype(), .shape = tensor.shape(), .persistable = true});
  append_filled(block, {.type = "save", .inputs = {{"X", {"v"}}}, .attrs = {{"file_path", path}}},
                op_role::kForward);
  Scope scope;
  scope.var("v").tensor() = tensor;
  Executor().run(*program, {}, {}, {.scope = &scope});
}

// What the chief's save program asks for: the slices of one variable, joined, as one file.
void save_remote(const Program& save, TestCluster& cluster) {
  for (const Op* op : save.global_block().ops()) {
    ASSERT_EQ(op->type(), "recv_save");
    const Strings names = strings(*op, "remote_varnames"), servers = strings(*op, "endpoints");
    std::vector<Tensor> parts;
    for (size_t i = 0; i < names.size(); ++i) {
      parts.push_back(cluster.servers.at(servers[i])->value(names[i]));
    }
    const Shape shape{std::span<const int64_t>(op->attr<std::vector<int64_t>>("shape"))};
    Tensor whole(parts.front().dtype(), shape);
    size_t at = 0;
    for (const Tensor& part : parts) {
      std::memcpy(whole.bytes().data() + at, part.address(), part.byte_size());
      at += part.byte_size();
    }
    ASSERT_EQ(at, whole.byte_size());
    save_file(op->attr<std::string>("file_path"), whole);
  }
}

TEST(Cluster, SavesStopsLoadsAndGoesOnAsIfItHadNotStopped) {
  const auto decayed = [](Var& l) {
    optimizer::Adam(layers::exponential_decay(0.01, 2, 0.5, true)).minimize(l);
  };
  for (const Case& with :
       {dense("adam, rate that decays", decayed), sparse("sparse, adam, rate that decays", decayed),
        dense("momentum", [](Var& l) { optimizer::Momentum(0.05, 0.9).minimize(l); })}) {
    SCOPED_TRACE(with.name);
    const Trained expected = train_in_cluster(with, 2);
    const TempDir files;
    Trained stopped;
    {
      TestCluster cluster(with, 2);
      for (const int step : {0, 1}) stopped.losses.push_back(cluster.step(with, step));
      // The chief saves what it holds itself, and fetches the rest.
      const std::vector<std::string> remote = remote_names(*cluster.programs[0]);
      for (const PlacedParam& param : cluster.placed) {
        if (std::ranges::find(remote, param.name) != remote.end()) continue;
        save_file(files / param.name, cluster.trainers[0]->value(param.name));
      }
      save_remote(*sliced_save_program(*cluster.programs[0], files.path()), cluster);
    }
    // Three servers go on where two stopped: files hold whole variables.
    for (const char* servers : {kServers, "a:1,b:1,c:1"}) {
      TestCluster cluster(with, 2, {}, servers, files.path());
      Trained trained = stopped;
      for (const int step : {2, 3}) trained.losses.push_back(cluster.step(with, step));
      trained.params = cluster.params();
      EXPECT_EQ(worst_difference(expected, trained), 0) << servers;
    }
  }
}

}  // namespace
}  // namespace trireme::testing
