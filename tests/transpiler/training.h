// Nets that are trained twice: on one machine, and by a cluster in this process.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/random.h"
#include "tests/support/cluster.h"
#include "tests/transpiler/nets.h"
#include "transpiler/sliced_files.h"

namespace trireme::testing {

inline constexpr int64_t kBatch = 8;
// For three trainers, who share it evenly too.
inline constexpr int64_t kBatchOfThree = 12;

struct Case {
  std::string name;
  std::function<Var&()> build;
  Minimize minimize;
  std::function<Feeds(int64_t begin, int64_t end)> feed;  // samples of one batch
  int64_t batch = kBatch;
};

struct Trained {
  std::map<std::string, Tensor> params;
  std::vector<float> losses;
};

inline constexpr int kSteps = 4;

inline std::string build_case(const Case& with) {
  Var& loss = with.build();
  with.minimize(loss);
  return loss.name();
}

inline Trained train_locally(const Case& with) {
  FreshPrograms fresh;
  const std::string loss = build_case(with);
  Scope scope;
  Executor executor;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t begin = step * with.batch;
    trained.losses.push_back(
        *executor
             .run_one(*fresh.main, with.feed(begin, begin + with.batch), loss, {.scope = &scope})
             .data<float>());
  }
  for (const Var* param : fresh.main->parameters()) {
    trained.params[param->name()] = scope.find(param->name())->tensor().clone();
  }
  return trained;
}

// Two servers and their trainers, started.
struct TestCluster {
  TestServers servers;
  std::vector<std::unique_ptr<TestTrainer>> trainers;
  std::vector<PlacedParam> placed;
  std::string loss;
  std::vector<std::shared_ptr<Program>> programs;  // of the trainers

  // `files`: a directory that servers load after they have started.
  TestCluster(const Case& with, int count, const DistributeTranspilerConfig& config = {},
              const std::string& endpoints = kServers, const std::string& files = {}) {
    for (int t = 0; t < count; ++t) {
      FreshPrograms fresh;
      loss = build_case(with);
      DistributeTranspiler transpiler(config);
      transpiler.transpile({.trainer_id = t,
                            .program = fresh.main,
                            .startup_program = fresh.startup,
                            .pservers = endpoints,
                            .trainers = count});
      programs.push_back(transpiler.get_trainer_program(false));
      trainers.push_back(std::make_unique<TestTrainer>(programs.back(), fresh.startup, t, servers));
      if (t > 0) continue;
      placed = transpiler.placement().params;
      for (const std::string& endpoint : transpiler.placement().endpoints) {
        const auto [main, startup] = transpiler.get_pserver_programs(endpoint);
        servers[endpoint] = std::make_unique<TestServer>(main, startup);
        servers[endpoint]->start();
        if (files.empty()) continue;
        Executor().run(*sliced_load_program(*main, files), {}, {},
                       {.scope = &servers[endpoint]->scope()});
      }
    }
    for (const auto& trainer : trainers) trainer->begin_startup();
    run_to_end(trainers, servers);
  }

  // The mean of the trainers' losses; each trains on its share of the batch.
  float step(const Case& with, int number) {
    const auto count = static_cast<int64_t>(trainers.size());
    const int64_t share = with.batch / count;
    promise(share * count == with.batch, "trainers share a batch evenly");
    for (int64_t t = 0; t < count; ++t) {
      const int64_t begin = number * with.batch + t * share;
      trainers[static_cast<size_t>(t)]->begin_step(with.feed(begin, begin + share));
    }
    run_to_end(trainers, servers);
    float sum = 0;
    for (const auto& trainer : trainers) sum += *trainer->value(loss).data<float>();
    return sum / static_cast<float>(count);
  }

  std::map<std::string, Tensor> params() {
    std::map<std::string, Tensor> params;
    for (const PlacedParam& param : placed) {
      Tensor whole(param.dtype, param.shape);
      for (const Slice& slice : param.slices) {
        const Tensor part = servers.at(slice.endpoint)->value(slice.name);
        std::memcpy(whole.bytes().data() + slice.offset * 4, part.address(), part.byte_size());
      }
      params[param.name] = whole;
    }
    return params;
  }
};

inline Trained train_in_cluster(const Case& with, int count,
                                const DistributeTranspilerConfig& config = {},
                                const std::string& endpoints = kServers) {
  TestCluster cluster(with, count, config, endpoints);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) trained.losses.push_back(cluster.step(with, step));
  trained.params = cluster.params();
  return trained;
}

inline double worst_difference(const Trained& a, const Trained& b) {
  double worst = 0;
  EXPECT_EQ(a.params.size(), b.params.size());
  for (const auto& [name, value] : a.params) {
    const Tensor& other = b.params.at(name);
    EXPECT_EQ(value.shape(), other.shape());
    for (int64_t i = 0; i < value.numel(); ++i) {
      const double difference = std::abs(value.data<float>()[i] - other.data<float>()[i]);
      worst = difference <= worst ? worst : difference;  // NaN is the worst
    }
  }
  for (size_t i = 0; i < a.losses.size(); ++i) {
    const double difference = std::abs(a.losses[i] - b.losses[i]);
    worst = difference <= worst ? worst : difference;
  }
  return worst;
}

inline Tensor samples(int64_t begin, int64_t end, int64_t width, uint64_t stream) {
  Tensor tensor(DType::float32, {end - begin, width});
  const Philox philox(1, stream);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] =
        static_cast<float>(philox.uniform(static_cast<uint64_t>(begin * width + i)) - 0.5);
  }
  return tensor;
}

inline Tensor numbered(int64_t begin, int64_t end, int64_t most) {
  Tensor ids(DType::int64, {end - begin, 1});
  for (int64_t i = begin; i < end; ++i) ids.data<int64_t>()[i - begin] = (i * 83) % most;
  return ids;
}

inline ParamAttr seeded(const char* name, int seed) {
  return {.name = name,
          .initializer = std::make_shared<initializer::Uniform>(
              initializer::UniformOptions{.low = -0.2, .high = 0.2, .seed = seed})};
}

// Two layers; the first weight is large enough to be cut.
inline Case dense(const std::string& name, const Minimize& minimize) {
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

struct Lookup {
  bool is_distributed = false;
};
// Two tables, one of them looked up twice.
inline Case sparse(const std::string& name, const Minimize& minimize, const Lookup& lookup = {}) {
  return {name,
          [=]() -> Var& {
            const auto row = [&](const char* ids, const char* table, int seed) -> Var& {
              return layers::embedding(layers::data(ids, {1}, {.dtype = DType::int64}),
                                       {.size = {600, 32},
                                        .is_sparse = true,
                                        .is_distributed = lookup.is_distributed,
                                        .param_attr = seeded(table, seed)});
            };
            Var& rows = layers::concat(
                {row("a", "table", 5), row("b", "table", 5), row("c", "other", 7)}, 1);
            Var& out =
                layers::fc(rows, {.size = 1, .param_attr = seeded("w", 6), .bias_attr = false});
            return layers::mean(layers::square_error_cost(out, layers::data("y", {1})));
          },
          minimize,
          [](int64_t begin, int64_t end) -> Feeds {
            return {{"a", numbered(begin, end, 600)},
                    {"b", numbered(begin + 5, end + 5, 17)},
                    {"c", numbered(begin, end, 31)},
                    {"y", samples(begin, end, 1, 2)}};
          }};
}

}  // namespace trireme::testing
