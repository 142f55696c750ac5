// Data parallel on CPU devices: the same numbers as one device on the whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/layers.h"
#include "tests/runtime/parallel_net.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

Var& two_layers() {
  Var& x = layers::data("x", {6});
  Var& y = layers::data("y", {1}, {.dtype = DType::int64});
  Var& hidden = layers::fc(x, {.size = 8, .act = "tanh"});
  Var& out = layers::fc(hidden, {.size = 3, .act = "softmax"});
  return layers::mean(layers::cross_entropy(out, y));
}

Feeds batch(int64_t rows, uint64_t seed) {
  Draw draw(seed);
  return {{"x", cast(draw.uniform({rows, 6}), DType::float32)}, {"y", draw.ints({rows, 1}, 0, 2)}};
}

TEST(DataParallel, EqualsOneDeviceAlsoWhenSlicesAreUneven) {
  Net net(two_layers);
  for (int devices : {2, 3, 4}) {
    std::vector<Feeds> batches;
    for (uint64_t i = 0; i < 5; ++i) batches.push_back(batch(7 + static_cast<int64_t>(i), i));
    EXPECT_LT(drift(net, devices, batches), 1e-6) << devices << " devices";
  }
}

TEST(DataParallel, ALossComesBackOncePerDevice) {
  Net net(two_layers);
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  const auto results = executor.run_parallel(*net.main, split_feeds(batch(6, 1), 2),
                                             {net.loss, net.parameters[0]}, {}, {.scope = &scope});
  ASSERT_EQ(results[0].by_device.size(), 2u);
  const Tensor joined =
      join_pieces(net.loss, {results[0].by_device[0].tensor(), results[0].by_device[1].tensor()});
  EXPECT_EQ(joined.shape(), (Shape{2}));
  EXPECT_EQ(max_abs_diff(results[1].by_device[0].tensor(), results[1].by_device[1].tensor()), 0);
}

TEST(DataParallel, ThreadsDoNotChangeABit) {
  Net net(two_layers);
  std::vector<Tensor> ends;
  for (int threads : {1, 2, 3}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    for (uint64_t i = 0; i < 4; ++i) {
      executor.run_parallel(*net.main, split_feeds(batch(8, i), 4), {}, {},
                            {.scope = &scope, .threads = threads});
    }
    ends.push_back(scope.find(net.parameters[0])->tensor().clone());
  }
  EXPECT_EQ(max_abs_diff(ends[0], ends[1]), 0);
  EXPECT_EQ(max_abs_diff(ends[0], ends[2]), 0);
}

TEST(DataParallel, SparseGradientsStaySparseAndEqual) {
  Net net([]() -> Var& {
    Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
    Var& y = layers::data("y", {1});
    Var& embedded = layers::embedding(ids, {.size = {20, 4}, .is_sparse = true});
    return layers::mean(layers::square_error_cost(layers::fc(embedded, {.size = 1}), y));
  });
  std::vector<Feeds> batches;
  for (uint64_t i = 0; i < 4; ++i) {
    Draw draw(i);
    batches.push_back(
        {{"ids", draw.ints({9, 1}, 0, 19)}, {"y", cast(draw.uniform({9, 1}), DType::float32)}});
  }
  EXPECT_LT(drift(net, 2, batches), 1e-6);
}

TEST(DataParallel, SequencesAreWeightedByWhatTheLossAveragesOver) {
  Net net(
      []() -> Var& {
        Var& words = layers::data("words", {1}, {.dtype = DType::int64, .lod_level = 1});
        Var& y = layers::data("y", {1});
        Var& embedded = layers::embedding(words, {.size = {20, 4}});
        Var& pooled = layers::sequence_pool(embedded, "sum");
        return layers::mean(layers::square_error_cost(layers::fc(pooled, {.size = 1}), y));
      },
      0.01);
  std::vector<Feeds> batches;
  for (uint64_t i = 0; i < 3; ++i) {
    Draw draw(i + 1);
    Lod lod = draw.lod(5, 4, false);
    Tensor words = draw.ints({lod[0].back(), 1}, 0, 19);
    words.set_lod(lod);
    batches.push_back({{"words", words}, {"y", cast(draw.uniform({5, 1}), DType::float32)}});
  }
  EXPECT_LT(drift(net, 2, batches), 1e-6);
}

TEST(SplitFeeds, ThreeOverTwoAreOneAndTwo) {
  const auto split = split_feeds({{"x", floats({3, 1}, {1, 2, 3})}}, 2);
  EXPECT_EQ(numbers(split[0].at("x")), (std::vector<double>{1}));
  EXPECT_EQ(numbers(split[1].at("x")), (std::vector<double>{2, 3}));
}

TEST(SplitFeeds, SequencesGoWholeAndComeBackWhole) {
  Tensor words = longs({6, 1}, {1, 2, 3, 4, 5, 6});
  words.set_lod({{0, 1, 3}, {0, 2, 3, 6}});
  const auto split = split_feeds({{"w", words}}, 2);
  EXPECT_EQ(split[0].at("w").lod(), (Lod{{0, 1}, {0, 2}}));
  EXPECT_EQ(split[1].at("w").lod(), (Lod{{0, 2}, {0, 1, 4}}));
  EXPECT_EQ(numbers(split[1].at("w")), (std::vector<double>{3, 4, 5, 6}));
  const Tensor joined = join_pieces("w", {split[0].at("w"), split[1].at("w")});
  EXPECT_EQ(joined.lod(), words.lod());
  EXPECT_EQ(numbers(joined), numbers(words));
}

TEST(SplitFeeds, TooFewSamplesSayHowMany) {
  EXPECT_THAT(error_of([] {
                split_feeds({{"x", floats({1, 1}, {1})}}, 2);
              }),
              HasSubstr("feed of x has 1 samples for 2 devices"));
}

}  // namespace
}  // namespace trireme::testing
