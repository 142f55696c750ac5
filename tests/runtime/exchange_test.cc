// What replicas exchange, count and draw: the same as one device on the whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/layers.h"
#include "runtime/compiled_program.h"
#include "tests/runtime/parallel_net.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

Var& bn_net() {
  Var& x = layers::data("x", {3, 4, 4});
  Var& y = layers::data("y", {1}, {.dtype = DType::int64});
  Var& normal = layers::batch_norm(x, {.act = "relu"});
  Var& out = layers::fc(layers::batch_norm(normal), {.size = 3, .act = "softmax"});
  return layers::mean(layers::cross_entropy(out, y));
}

Feeds images(int64_t rows, uint64_t seed) {
  Draw draw(seed);
  return {{"x", cast(draw.uniform({rows, 3, 4, 4}, -1, 4), DType::float32)},
          {"y", draw.ints({rows, 1}, 0, 2)}};
}

std::vector<Feeds> some(Feeds (*one)(int64_t, uint64_t), int64_t rows) {
  std::vector<Feeds> batches;
  for (uint64_t i = 0; i < 4; ++i) batches.push_back(one(rows + static_cast<int64_t>(i), i));
  return batches;
}

TEST(SyncBatchNorm, EqualsOneDeviceAlsoWhenSlicesAreUneven) {
  Net net(bn_net);
  for (int devices : {2, 3, 4}) {
    EXPECT_LT(drift(net, devices, some(images, 9), {.sync_batch_norm = true}), 2e-5) << devices;
  }
  // Without it each device normalises by its own slice, which is something else.
  EXPECT_GT(drift(net, 3, some(images, 9)), 1e-3);
}

TEST(SyncBatchNorm, MoreDevicesThanThreadsMeetAllTheSame) {
  Net net(bn_net);
  EXPECT_LT(drift(net, 11, some(images, 11), {.sync_batch_norm = true}), 2e-5);
}

TEST(SyncBatchNorm, IsStableWhereTheMeanIsLarge) {
  Net net([]() -> Var& {
    Var& x = layers::data("x", {3, 4, 4});
    Var& y = layers::data("y", {1}, {.dtype = DType::int64});
    Var& normal = layers::batch_norm(layers::scale(x, {.bias = 1000}));
    Var& out = layers::fc(normal, {.size = 3, .act = "softmax"});
    return layers::mean(layers::cross_entropy(out, y));
  });
  // The kept mean comes to 344, where the next float32 is 3e-5 away.
  EXPECT_LT(drift(net, 2, some(images, 6), {.sync_batch_norm = true}), 1e-4);
}

TEST(SyncBatchNorm, ThreadsDoNotChangeABit) {
  Net net(bn_net);
  std::vector<Tensor> ends;
  for (int threads : {1, 2, 3}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    for (const Feeds& feeds : some(images, 8)) {
      executor.run_parallel(*net.main, split_feeds(feeds, 4), {}, {.sync_batch_norm = true},
                            {.scope = &scope, .threads = threads});
    }
    ends.push_back(scope.find(net.parameters[0])->tensor().clone());
  }
  EXPECT_EQ(max_abs_diff(ends[0], ends[1]), 0);
  EXPECT_EQ(max_abs_diff(ends[0], ends[2]), 0);
}

TEST(SyncBatchNorm, InsideABranchIsRefused) {
  Net net([]() -> Var& {
    Var& x = layers::data("x", {3, 4, 4});
    Var& y = layers::data("y", {1}, {.dtype = DType::int64});
    Var& yes = layers::fill_constant({1}, DType::boolean, 1);
    const auto normal = [&] { return std::vector<Var*>{&layers::batch_norm(x)}; };
    const auto plain = [&] { return std::vector<Var*>{&layers::scale(x, {.scale = 2})}; };
    Var& either = *layers::cond(yes, normal, plain).at(0);
    Var& out = layers::fc(either, {.size = 3, .act = "softmax"});
    return layers::mean(layers::cross_entropy(out, y));
  });
  EXPECT_THAT(error_of([&] { drift(net, 2, some(images, 6), {.sync_batch_norm = true}); }),
              HasSubstr("batch_norm inside a loop or branch"));
}

Feeds rows_of(int64_t rows, uint64_t seed) {
  Draw draw(seed);
  return {{"x", cast(draw.uniform({rows, 6}), DType::float32)}, {"y", draw.ints({rows, 1}, 0, 1)}};
}

TEST(Counts, AucIsThatOfAllDevicesAndOneBatchLater) {
  for (int devices : {2, 3}) {
    auto main = Program::create(), startup = Program::create();
    std::string auc, batch_auc;
    {
      ProgramGuard guard(main, startup);
      startup->set_seed(2);
      Var& x = layers::data("x", {6});
      Var& y = layers::data("y", {1}, {.dtype = DType::int64});
      Var& p = layers::fc(x, {.size = 2, .act = "softmax"});
      const auto made = layers::auc(p, y, {.num_thresholds = 200, .slide_steps = 2});
      auc = made.auc.name();
      batch_auc = made.batch_auc.name();
    }
    Scope one, several;
    Executor executor;
    executor.run(*startup, {}, {}, {.scope = &one});
    executor.run(*startup, {}, {}, {.scope = &several});
    for (uint64_t i = 0; i < 4; ++i) {
      const Feeds feeds = rows_of(7 + static_cast<int64_t>(i), i);
      const auto whole = executor.run(*main, feeds, {auc, batch_auc}, {.scope = &one});
      const auto parts = executor.run_parallel(*main, split_feeds(feeds, devices), {auc, batch_auc},
                                               {}, {.scope = &several});
      for (size_t f = 0; f < 2; ++f) {
        for (const Variable& device : parts[f].by_device) {
          EXPECT_EQ(max_abs_diff(whole[f].tensor(), device.tensor()), 0);
        }
      }
    }
  }
}

TEST(Draws, DropoutDependsOnThePlaceInTheBatchNotOnTheDevices) {
  Net net([]() -> Var& {
    Var& x = layers::data("x", {6});
    Var& y = layers::data("y", {1}, {.dtype = DType::int64});
    Var& hidden = layers::dropout(layers::fc(x, {.size = 8}), {.dropout_prob = 0.4, .seed = 5});
    return layers::mean(
        layers::cross_entropy(layers::fc(hidden, {.size = 3, .act = "softmax"}), y));
  });
  for (int devices : {2, 3, 4}) EXPECT_LT(drift(net, devices, some(rows_of, 8)), 1e-6) << devices;
}

TEST(VirtualShards, GiveEqualBitsOnAnyNumberOfDevices) {
  Net net(bn_net);
  std::vector<Tensor> ends;
  for (int devices : {1, 2, 4, 8}) {
    BuildStrategy build;
    build.virtual_shards = 8;
    build.sync_batch_norm = true;
    CompiledProgram compiled(net.main, build);
    compiled.with_data_parallel(
        {.loss_name = net.loss,
         .places = std::vector<Place>(static_cast<size_t>(devices), cpu_place())});
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    for (const Feeds& feeds : some(images, 11)) {
      const auto results =
          compiled.run(executor, feeds, {net.loss}, {.scope = &scope, .threads = devices});
      EXPECT_EQ(results[0].by_device.size(), 8u);
    }
    ends.push_back(scope.find(net.parameters[0])->tensor().clone());
  }
  for (const Tensor& end : ends) EXPECT_EQ(max_abs_diff(ends[0], end), 0);
}

TEST(VirtualShards, AreAPowerOfTwo) {
  Net net(bn_net);
  BuildStrategy build;
  build.virtual_shards = 6;
  EXPECT_THAT(error_of([&] { CompiledProgram(net.main, build); }), HasSubstr("virtual_shards"));
}

TEST(Customized, TheLossGradientIsTheFedOneAlsoOnOneDevice) {
  for (int devices : {1, 2}) {
    Net net(bn_net);
    BuildStrategy build;
    build.gradient_scale_strategy = GradientScaleStrategy::customized;
    CompiledProgram compiled(net.main, build);
    compiled.with_data_parallel(
        {.loss_name = net.loss,
         .places = std::vector<Place>(static_cast<size_t>(devices), cpu_place())});
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    const Tensor before = scope.find(net.parameters[0])->tensor().clone();
    Feeds feeds = images(4, 1);
    feeds[net.loss + "@GRAD"] = filled(DType::float32, {devices}, 0);
    compiled.run(executor, feeds, {net.loss}, {.scope = &scope});
    EXPECT_EQ(max_abs_diff(before, scope.find(net.parameters[0])->tensor()), 0) << devices;
  }
}

}  // namespace
}  // namespace trireme::testing
