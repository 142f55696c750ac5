// A whole cluster in one process: trainers and servers run their transpiled programs, and what send
// and recv would carry is carried by this harness.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/executor.h"
#include "tests/transpiler/nets.h"
#include "transpiler/edit.h"

namespace trireme::testing {
namespace {

bool is_rpc(const Op& op) {
  static const std::set<std::string> types = {"send", "recv", "send_barrier", "fetch_barrier"};
  return types.contains(op.type());
}

bool joins_slices(const Op& op) { return op.type() == "concat" && op.has_role(op_role::kDist); }

// A copy whose global block has only the ops that `keep` wants.
std::shared_ptr<Program> only(const Program& program, const std::function<bool(const Op&)>& keep) {
  std::shared_ptr<Program> copy = clone(program, false);
  std::vector<const Op*> gone;
  for (const Op* op : copy->global_block().ops()) {
    if (!keep(*op)) gone.push_back(op);
  }
  remove_ops(copy->global_block(), gone);
  return copy;
}

void carry(const Scope& from, const std::string& name, Scope& to, const std::string& as) {
  const Variable* value = from.find(name);
  if (!value || !value->initialized()) throw InternalError("nothing to carry: " + name);
  Variable& target = to.var(as);
  target.clear();
  if (value->kind() == Kind::rows) {
    target.rows() = value->rows();
  } else {
    target.tensor() = value->tensor().clone();
  }
}

struct Server {
  std::shared_ptr<Program> main, startup;
  Scope scope;
  Executor executor;

  void start() { executor.run(*startup, {}, {}, {.scope = &scope}); }

  void update() {
    for (const int index :
         nth(*main, "listen_and_serv").attr<BlockRefs>("optimize_blocks").indices) {
      std::shared_ptr<Program> step = clone(*main, false);
      Block& block = step->global_block();
      block.remove_ops(0, block.size());
      const Block& from = step->block(index);
      for (const Var* var : from.vars()) clone_var(block, *var);
      for (const Op* op : from.ops()) block.insert_raw_op(block.size(), op->spec());
      // What was received, and the schedule's rate, is there when the block runs.
      for (Var* var : block.vars()) {
        if (var->name().find("@GRAD") != std::string::npos || !from.find_var(var->name())) {
          var->set_persistable(true);
        }
      }
      executor.run(*step, {}, {}, {.scope = &scope});
    }
  }
};

using Cluster = std::map<std::string, std::unique_ptr<Server>>;

struct Trainer {
  std::shared_ptr<Program> main, startup;
  Scope scope;
  Executor executor;

  void start(const Cluster& servers) {
    executor.run(*only(*startup,
                       [](const Op& op) {
                         return !is_rpc(op) && !joins_slices(op) && op.type() != "fake_init";
                       }),
                 {}, {}, {.scope = &scope});
    receive(*startup, servers);
  }

  float compute(const Feeds& feeds, const std::string& loss, const Cluster& servers) {
    std::shared_ptr<Program> step =
        only(*main, [](const Op& op) { return !is_rpc(op) && !joins_slices(op); });
    look_up_here(*step, servers);
    std::vector<std::string> sent;
    for (const Op* op : main->global_block().ops()) {
      if (op->type() != "send") continue;
      for (const std::string& name : op->input("X")) sent.push_back(name);
    }
    for (const std::string& name : sent) {
      Var* var = step->global_block().find_var(name);
      if (var) var->set_persistable(true);
    }
    return *executor.run_one(*step, feeds, loss, {.scope = &scope}).data<float>();
  }

  void send(Cluster& servers) {
    for (const Op* op : main->global_block().ops()) {
      if (op->type() != "send") continue;
      const Strings epmap = strings(*op, "epmap");
      for (size_t i = 0; i < op->input("X").size(); ++i) {
        const std::string& name = op->input("X")[i];
        carry(scope, name, servers.at(epmap[i])->scope, name);
      }
    }
  }

  void receive(const Program& program, const Cluster& servers) {
    for (const Op* op : program.global_block().ops()) {
      if (op->type() != "recv") continue;
      const Strings epmap = strings(*op, "epmap");
      for (size_t i = 0; i < op->output("Out").size(); ++i) {
        const std::string& name = op->output("Out")[i];
        carry(servers.at(epmap[i])->scope, name, scope, name);
      }
    }
    std::shared_ptr<Program> join = only(program, joins_slices);
    for (const Op* op : join->global_block().ops()) {
      for (const std::string& name : op->input("X")) {
        join->global_block().var(name).set_persistable(true);
      }
    }
    if (join->global_block().size() > 0) executor.run(*join, {}, {}, {.scope = &scope});
  }

  // Rows come from a table put together here.
  void look_up_here(Program& step, const Cluster& servers) {
    Block& block = step.global_block();
    for (size_t i = 0; i < block.size(); ++i) {
      const OpSpec remote = block.op(i).spec();
      if (remote.type != "distributed_lookup_table") continue;
      const std::string& table = remote.inputs.at("W").front();
      const Var& var = block.var(table);
      Tensor whole(var.dtype(), var.shape());
      size_t at = 0;
      const auto names = std::get<Strings>(remote.attrs.at("table_names"));
      const auto endpoints = std::get<Strings>(remote.attrs.at("endpoints"));
      for (size_t s = 0; s < names.size(); ++s) {
        const Tensor part = std::as_const(*servers.at(endpoints[s])->scope.find(names[s])).tensor();
        std::memcpy(whole.bytes().data() + at, part.raw(), part.byte_size());
        at += part.byte_size();
      }
      scope.var(table).tensor() = whole;
      block.remove_ops(i, i + 1);
      const std::string type = std::get<std::string>(remote.attrs.at("lookup_table_version"));
      for (size_t n = 0; n < remote.inputs.at("Ids").size(); ++n) {
        insert_filled(block, i + n,
                      {.type = type,
                       .inputs = {{"W", {table}}, {"Ids", {remote.inputs.at("Ids")[n]}}},
                       .outputs = {{"Out", {remote.outputs.at("Outputs")[n]}}},
                       .attrs = {{"is_sparse", true}}},
                      op_role::kForward);
      }
    }
  }
};

struct Case {
  std::string name;
  std::function<Var&()> build;
  Minimize minimize;
  std::function<Feeds(int64_t begin, int64_t end)> feed;  // samples of one batch
};

constexpr int64_t kBatch = 8;
constexpr int kSteps = 4;

struct Trained {
  std::map<std::string, Tensor> params;
  std::vector<float> losses;
};

std::string build(const Case& with) {
  Var& loss = with.build();
  with.minimize(loss);
  return loss.name();
}

Trained train_locally(const Case& with) {
  FreshPrograms fresh;
  const std::string loss = build(with);
  Scope scope;
  Executor executor;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t begin = step * kBatch;
    trained.losses.push_back(
        *executor.run_one(*fresh.main, with.feed(begin, begin + kBatch), loss, {.scope = &scope})
             .data<float>());
  }
  for (const Var* param : fresh.main->parameters()) {
    trained.params[param->name()] = scope.find(param->name())->tensor().clone();
  }
  return trained;
}

Trained train_in_cluster(const Case& with, int count, DistributeTranspilerConfig config = {}) {
  Cluster servers;
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<PlacedParam> placed;
  std::string loss;
  for (int t = 0; t < count; ++t) {
    FreshPrograms fresh;
    loss = build(with);
    DistributeTranspiler transpiler(config);
    transpiler.transpile({.trainer_id = t,
                          .program = fresh.main,
                          .startup_program = fresh.startup,
                          .pservers = kServers,
                          .trainers = count});
    trainers.push_back(std::make_unique<Trainer>());
    trainers.back()->main = transpiler.get_trainer_program(false);
    trainers.back()->startup = fresh.startup;
    if (t > 0) continue;
    placed = transpiler.placement().params;
    for (const std::string& endpoint : {kEp0, kEp1}) {
      servers[endpoint] = std::make_unique<Server>();
      std::tie(servers[endpoint]->main, servers[endpoint]->startup) =
          transpiler.get_pserver_programs(endpoint);
      servers[endpoint]->start();
    }
  }
  for (const auto& trainer : trainers) trainer->start(servers);
  Trained trained;
  const int64_t share = kBatch / count;
  for (int step = 0; step < kSteps; ++step) {
    float sum = 0;
    for (int t = 0; t < count; ++t) {
      const int64_t begin = step * kBatch + t * share;
      sum +=
          trainers[static_cast<size_t>(t)]->compute(with.feed(begin, begin + share), loss, servers);
    }
    trained.losses.push_back(sum / static_cast<float>(count));
    for (const auto& trainer : trainers) trainer->send(servers);
    for (const auto& [endpoint, server] : servers) server->update();
    for (const auto& trainer : trainers) trainer->receive(*trainer->main, servers);
  }
  for (const PlacedParam& param : placed) {
    Tensor whole(param.dtype, param.shape);
    for (const Slice& slice : param.slices) {
      const Tensor part = std::as_const(*servers[slice.endpoint]->scope.find(slice.name)).tensor();
      std::memcpy(whole.bytes().data() + slice.offset * 4, part.raw(), part.byte_size());
    }
    trained.params[param.name] = whole;
  }
  return trained;
}

double worst_difference(const Trained& a, const Trained& b) {
  double worst = 0;
  EXPECT_EQ(a.params.size(), b.params.size());
  for (const auto& [name, value] : a.params) {
    const Tensor& other = b.params.at(name);
    EXPECT_EQ(value.shape(), other.shape());
    for (int64_t i = 0; i < value.numel(); ++i) {
      worst = std::max<double>(worst, std::abs(value.data<float>()[i] - other.data<float>()[i]));
    }
  }
  for (size_t i = 0; i < a.losses.size(); ++i) {
    worst = std::max<double>(worst, std::abs(a.losses[i] - b.losses[i]));
  }
  return worst;
}

Tensor samples(int64_t begin, int64_t end, int64_t width, uint64_t stream) {
  Tensor tensor(DType::float32, {end - begin, width});
  const Philox philox(1, stream);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] =
        static_cast<float>(philox.uniform(static_cast<uint64_t>(begin * width + i)) - 0.5);
  }
  return tensor;
}

ParamAttr seeded(const char* name, int seed) {
  return {.name = name,
          .initializer = std::make_shared<initializer::Uniform>(
              initializer::UniformOptions{.low = -0.2, .high = 0.2, .seed = seed})};
}

Case dense(const std::string& name, const Minimize& minimize) {
  return {name,
          []() -> Var& {
            Var& x = layers::data("x", {128});
            Var& y = layers::data("y", {1});
            Var& hidden = layers::fc(
                x, {.size = 160, .param_attr = seeded("w1", 3), .bias_attr = "b1", .act = "tanh"});
            Var& out =
                layers::fc(hidden, {.size = 1, .param_attr = seeded("w2", 4), .bias_attr = "b2"});
            return layers::mean(layers::square_error_cost(out, y));
          },
          minimize,
          [](int64_t begin, int64_t end) -> Feeds {
            return {{"x", samples(begin, end, 128, 1)}, {"y", samples(begin, end, 1, 2)}};
          }};
}

Case sparse() {
  return {"sparse",
          []() -> Var& {
            Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
            Var& y = layers::data("y", {1});
            Var& rows = layers::embedding(
                ids, {.size = {600, 32}, .is_sparse = true, .param_attr = seeded("table", 5)});
            Var& out =
                layers::fc(rows, {.size = 1, .param_attr = seeded("w", 6), .bias_attr = false});
            return layers::mean(layers::square_error_cost(out, y));
          },
          [](Var& loss) { optimizer::Adagrad(0.1).minimize(loss); },
          [](int64_t begin, int64_t end) -> Feeds {
            Tensor ids(DType::int64, {end - begin, 1});
            for (int64_t i = begin; i < end; ++i) ids.data<int64_t>()[i - begin] = (i * 83) % 600;
            return {{"ids", ids}, {"y", samples(begin, end, 1, 2)}};
          }};
}

std::vector<Case> cases() {
  const auto l2 = std::make_shared<L2Decay>(0.01);
  return {dense("sgd", sgd),
          dense("momentum, weight decay",
                [=](Var& loss) {
                  optimizer::Momentum(0.05, 0.9, false, {.regularization = l2}).minimize(loss);
                }),
          dense("adam", [](Var& loss) { optimizer::Adam(0.01).minimize(loss); }),
          dense("rmsprop, rate that decays",
                [](Var& loss) {
                  optimizer::RmsProp(layers::exponential_decay(0.01, 2, 0.5, true)).minimize(loss);
                }),
          dense("ftrl, rate by pieces",
                [](Var& loss) {
                  optimizer::Ftrl(layers::piecewise_decay({2}, {0.05, 0.01})).minimize(loss);
                }),
          dense("lars", [](Var& loss) { optimizer::LarsMomentum(0.1, 0.9).minimize(loss); }),
          sparse()};
}

TEST(Cluster, OneTrainerGivesTheBitsOfTheUntranspiledProgram) {
  for (const Case& with : cases()) {
    SCOPED_TRACE(with.name);
    EXPECT_EQ(worst_difference(train_locally(with), train_in_cluster(with, 1)), 0);
  }
  const Case clipped = dense("clip", [](Var& loss) {
    optimizer::Sgd(0.1, {.grad_clip = std::make_shared<GradientClipByGlobalNorm>(0.05)})
        .minimize(loss);
  });
  EXPECT_EQ(worst_difference(train_locally(clipped), train_in_cluster(clipped, 1)), 0);
}

TEST(Cluster, TwoTrainersGiveItsNumbers) {
  for (const Case& with : cases()) {
    SCOPED_TRACE(with.name);
    EXPECT_LT(worst_difference(train_locally(with), train_in_cluster(with, 2)), 2e-5);
  }
}

TEST(Cluster, PlacementDoesNotChangeNumbers) {
  const Case with = cases()[2];
  const Trained expected = train_in_cluster(with, 2);
  DistributeTranspilerConfig hashed, whole;
  hashed.split_method = [](Strings eps) { return std::make_unique<HashName>(std::move(eps)); };
  whole.slice_var_up = false;
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 2, hashed)), 0);
  EXPECT_EQ(worst_difference(expected, train_in_cluster(with, 2, whole)), 0);
}

}  // namespace
}  // namespace trireme::testing
