// Data parallel on CPU devices: the same numbers as one device on the whole batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/layers.h"
#include "tests/runtime/heap.h"
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

// What a device's loss counts for is its share of the words, not of the sequences: two devices with
// two sequences each, of 7 and of 2 words.
TEST(DataParallel, ADevicesWeightIsItsShareOfWhatTheLossAverages) {
  Net net([]() -> Var& {
    Var& words = layers::data("words", {6}, {.lod_level = 1});
    return layers::mean(layers::square(layers::fc(words, {.size = 3})));
  });
  std::vector<Feeds> batches;
  for (uint64_t i = 0; i < 3; ++i) {
    Draw draw(i);
    Tensor words = cast(draw.uniform({9, 6}), DType::float32);
    words.set_lod({{0, 4, 7, 8, 9}});
    batches.push_back({{"words", words}});
  }
  EXPECT_LT(drift(net, 2, batches), 1e-6);
}

// The kept mean of a batch_norm is a mean over samples: 7 of them on 3 devices.
TEST(DataParallel, StatisticsAreJoinedByTheShareOfEachDevice) {
  Net net(
      []() -> Var& {
        Var& x = layers::data("x", {3});
        return layers::mean(layers::batch_norm(x, {.momentum = 0.5}));
      },
      0.0);
  Draw draw(5);
  const Feeds feeds = {{"x", cast(draw.uniform({7, 3}), DType::float32)}};
  std::vector<Tensor> means;
  for (const int devices : {1, 3}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    executor.run_parallel(*net.main, split_feeds(feeds, devices), {}, {}, {.scope = &scope});
    for (const Op* op : net.main->global_block().ops()) {
      if (op->type() != "batch_norm") continue;
      means.push_back(scope.find(op->input("Mean").front())->tensor().clone());
    }
  }
  ASSERT_EQ(means.size(), 2u);
  EXPECT_LT(max_abs_diff(means[0], means[1]), 1e-6);
  EXPECT_GT(max_abs_diff(means[0], filled(DType::float32, {3}, 0)), 1e-2) << "it has moved";
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

// An id that is not in the table stops the device that has it, and with it the run.
TEST(DataParallel, AFailingOpOnOneDeviceEndsTheRunAndTheNextOneIsWhole) {
  Net net([]() -> Var& {
    Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
    return layers::mean(layers::fc(layers::embedding(ids, {.size = {20, 4}}), {.size = 3}));
  });
  const Feeds good = {{"ids", longs({4, 1}, {1, 2, 3, 4})}};
  for (int64_t device = 0; device < 4; ++device) {
    Scope scope, untouched;
    Executor executor;
    for (Scope* each : {&scope, &untouched}) {
      executor.run(*net.startup, {}, {}, {.scope = each});
    }
    Feeds bad = {{"ids", longs({4, 1}, {1, 2, 3, 4})}};
    bad.at("ids").data<int64_t>()[device] = 50;
    EXPECT_THAT(error_of([&] {
                  executor.run_parallel(*net.main, split_feeds(bad, 4), {net.loss}, {},
                                        {.scope = &scope});
                }),
                HasSubstr("id 50"));
    for (Scope* each : {&scope, &untouched}) {
      executor.run_parallel(*net.main, split_feeds(good, 4), {net.loss}, {}, {.scope = each});
    }
    for (const std::string& name : net.parameters) {
      EXPECT_EQ(max_abs_diff(scope.find(name)->tensor(), untouched.find(name)->tensor()), 0)
          << name;
    }
  }
}

TEST(DataParallel, AFedRateReachesTheUpdate) {
  Net net(two_layers);
  const std::string rate = [&] {
    for (const std::string& name : net.states) {
      if (name.find("learning_rate") != std::string::npos) return name;
    }
    return std::string();
  }();
  std::vector<Feeds> batches = {batch(8, 1)};
  batches[0][rate] = floats({1}, {0.5});
  std::vector<Tensor> ends;
  for (int devices : {1, 2}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    executor.run_parallel(*net.main, split_feeds(batches[0], devices, {rate}), {}, {},
                          {.scope = &scope});
    ends.push_back(scope.find(net.parameters[0])->tensor().clone());
  }
  EXPECT_LT(max_abs_diff(ends[0], ends[1]), 1e-6);
  std::vector<Feeds> apart = split_feeds(batches[0], 2, {rate});
  apart[1][rate] = floats({1}, {0.25});
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  EXPECT_THAT(error_of([&] { executor.run_parallel(*net.main, apart, {}, {}, {.scope = &scope}); }),
              HasSubstr("devices 0 and 1 are fed different values of " + rate));
}

// Two plans of one program (they differ in what is fetched) take turns.
TEST(DataParallel, StatisticsDoNotDependOnWhatIsFetchedWhen) {
  Net net([]() -> Var& {
    Var& x = layers::data("x", {6});
    layers::data("y", {1}, {.dtype = DType::int64});
    return layers::mean(layers::fc(layers::batch_norm(x), {.size = 3}));
  });
  std::vector<std::unique_ptr<Scope>> scopes;
  for (const bool alternate : {false, true}) {
    scopes.push_back(std::make_unique<Scope>());
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = scopes.back().get()});
    for (uint64_t i = 0; i < 4; ++i) {
      const std::vector<std::string> fetches =
          alternate && i % 2 ? std::vector<std::string>{net.loss} : std::vector<std::string>{};
      executor.run_parallel(*net.main, split_feeds(batch(7, i), 2), fetches, {},
                            {.scope = scopes.back().get()});
      scopes.back()->drop_kids();  // replicas keep nothing there
    }
  }
  for (const std::string& name : net.states) {
    EXPECT_EQ(max_abs_diff(scopes[0]->find(name)->tensor(), scopes[1]->find(name)->tensor()), 0)
        << name;
  }
}

TEST(DataParallel, RandomSizesLeaveNoMemoryBehind) {
  constexpr int64_t kMost = 40;
  Net net(two_layers);
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  const Feeds most = batch(kMost, 1);
  const Tensor sizes = Draw(11).ints({10000}, 3, kMost - 1);
  const auto step = [&](int64_t rows) {
    Feeds some;
    for (const auto& [name, tensor] : most) some[name] = tensor.slice_rows(0, rows);
    executor.run_parallel(*net.main, split_feeds(some, 3), {net.loss}, {}, {.scope = &scope});
  };
  for (int64_t rows = 3; rows <= kMost; ++rows) step(rows);
  executor.drop_temporaries(*net.main);
  const size_t bytes = allocated_bytes(), blocks = live_heap_blocks();
  for (int64_t i = 0; i < sizes.numel(); ++i) step(sizes.data<int64_t>()[i]);
  step(kMost);
  executor.drop_temporaries(*net.main);
  EXPECT_EQ(allocated_bytes(), bytes);
  // A worker has memory of its own from its first part on, whenever that is.
  EXPECT_LT(live_heap_blocks(), blocks + 50);
  EXPECT_EQ(executor.arena_bytes(*net.main), 0u);
}

// What devices sum stands one behind the other; without the pass, each gradient by itself.
TEST(DataParallel, BucketsDoNotChangeABit) {
  Net net(two_layers);
  std::vector<std::vector<Tensor>> ends;
  for (const bool bucketed : {true, false}) {
    Scope scope;
    Executor executor;
    RunOptions options{.scope = &scope};
    executor.run(*net.startup, {}, {}, options);
    if (!bucketed) options.passes_off = {"bucket_gradients"};
    for (uint64_t i = 0; i < 3; ++i) {
      executor.run_parallel(*net.main, split_feeds(batch(7, i), 3), {}, {}, options);
    }
    EXPECT_EQ(executor.report(*net.main).find("a bucket of 4 gradients") != std::string::npos,
              bucketed);
    ends.emplace_back();
    for (const std::string& name : net.states)
      ends.back().push_back(scope.find(name)->tensor().clone());
  }
  for (size_t i = 0; i < ends[0].size(); ++i) EXPECT_EQ(max_abs_diff(ends[0][i], ends[1][i]), 0);
}

// The program says one shape, the scope has another: its gradient fits no bucket.
TEST(DataParallel, AParameterSetToAnotherShapeIsSummedByItself) {
  Net net([]() -> Var& {
    return layers::mean(layers::square(layers::fc(layers::data("x", {6}), {.size = 3})));
  });
  std::vector<std::vector<Tensor>> ends;
  for (const int devices : {1, 2}) {
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    for (const std::string& name : net.states) {
      Tensor& state = scope.find(name)->tensor();
      if (state.shape() == Shape{6, 3}) state = filled(DType::float32, {6, 5}, 0.25);
      if (state.shape() == Shape{3}) state = filled(DType::float32, {5}, 0.25);
    }
    for (uint64_t i = 0; i < 2; ++i) {
      const Feeds feeds{{"x", batch(4, i).at("x")}};
      executor.run_parallel(*net.main, split_feeds(feeds, devices), {}, {}, {.scope = &scope});
    }
    ends.emplace_back();
    for (const std::string& name : net.states)
      ends.back().push_back(scope.find(name)->tensor().clone());
  }
  for (size_t i = 0; i < ends[0].size(); ++i)
    EXPECT_LT(max_abs_diff(ends[0][i], ends[1][i]), 1e-6) << net.states[i];
}

TEST(DataParallel, MoreDevicesThanThreadsTakeTurns) {
  Net net(two_layers);
  std::vector<Feeds> batches;
  for (uint64_t i = 0; i < 3; ++i) batches.push_back(batch(19 + static_cast<int64_t>(i), i));
  EXPECT_LT(drift(net, 19, batches), 1e-6);
}

TEST(DataParallel, ParametersAreStoredOnceForAllDevices) {
  Net net([]() -> Var& {
    Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
    Var& rows = layers::embedding(ids, {.size = {100000, 8}, .is_sparse = true});
    return layers::mean(layers::fc(rows, {.size = 1}));
  });
  const auto bytes_used = [&](int devices) {
    const size_t before = allocated_bytes();
    Scope scope;
    Executor executor;
    executor.run(*net.startup, {}, {}, {.scope = &scope});
    executor.run_parallel(*net.main,
                          split_feeds({{"ids", Draw(1).ints({8, 1}, 0, 99999)}}, devices),
                          {net.loss}, {}, {.scope = &scope});
    return allocated_bytes() - before;
  };
  constexpr size_t kTable = 100000 * 8 * sizeof(float);
  const size_t alone = bytes_used(1);
  EXPECT_GE(alone, 2 * kTable);  // the table and its velocity
  EXPECT_LT(bytes_used(4), alone + kTable / 10);
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

TEST(SplitFeeds, ChunksFromTheFrontAreTheOtherRule) {
  const auto sizes = [](int64_t rows, int devices) {
    std::vector<int64_t> found;
    for (const Feeds& piece :
         split_feeds({{"x", Tensor(DType::float32, {rows, 1})}}, devices, {}, SplitRule::chunks)) {
      found.push_back(sample_count(piece.at("x")));
    }
    return found;
  };
  EXPECT_EQ(sizes(3, 2), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(sizes(5, 2), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(sizes(10, 4), (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(sizes(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_THAT(error_of([&] { sizes(6, 4); }),
              HasSubstr("feed of x has 6 samples: in chunks of 2 they reach 3 of 4 devices"));
  EXPECT_EQ(devices_reached(9, 8, SplitRule::chunks), 5);
  EXPECT_EQ(devices_reached(9, 8, SplitRule::even), 8);
  EXPECT_EQ(devices_reached(3, 8, SplitRule::even), 3);
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

TEST(SplitFeeds, SeveralRowsPerSampleStayTogether) {
  const auto split = split_feeds({{"a", floats({3, 1}, {1, 2, 3})},
                                  {"b", floats({6, 1}, {1, 1, 2, 2, 3, 3})},
                                  {"loss@GRAD", floats({2}, {5, 6})},
                                  {"rate", floats({1}, {9})}},
                                 2, {"rate"});
  EXPECT_EQ(numbers(split[0].at("b")), (std::vector<double>{1, 1}));
  EXPECT_EQ(numbers(split[1].at("b")), (std::vector<double>{2, 2, 3, 3}));
  EXPECT_EQ(numbers(split[1].at("loss@GRAD")), (std::vector<double>{6}));
  EXPECT_EQ(numbers(split[1].at("rate")), (std::vector<double>{9}));
}

TEST(SplitFeeds, PiecesShareTheMemoryOfTheBatch) {
  const Tensor batch = floats({4, 1}, {1, 2, 3, 4});
  const auto split = split_feeds({{"x", batch}}, 2);
  EXPECT_EQ(split[1].at("x").raw(), batch.data<float>() + 2);
}

TEST(SplitFeeds, FeedsThatDisagreeAreNamed) {
  EXPECT_THAT(error_of([] {
                split_feeds({{"a", floats({3, 1}, {1, 2, 3})}, {"b", floats({2, 1}, {1, 2})}}, 2);
              }),
              HasSubstr("feed of a has 3 samples and feed of b has 2"));
}

TEST(JoinPieces, ArraysAreJoinedElementByElement) {
  std::vector<Variable> pieces(2);
  pieces[0].array() = {floats({1, 1}, {1}), floats({1, 1}, {2})};
  pieces[1].array() = {floats({2, 1}, {3, 4}), floats({1, 1}, {5})};
  const TensorArray joined = join_arrays("a", pieces);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(numbers(joined[0]), (std::vector<double>{1, 3, 4}));
  EXPECT_EQ(numbers(joined[1]), (std::vector<double>{2, 5}));
  pieces[1].array().pop_back();
  EXPECT_THAT(error_of([&] { join_arrays("a", pieces); }), HasSubstr("arrays of 2 and 1 tensors"));
}

TEST(MeanOfPieces, WeightsEachDeviceByItsShare) {
  EXPECT_EQ(numbers(mean_of_pieces("l", {floats({1}, {2}), floats({1}, {6})}, {0.25, 0.75})),
            (std::vector<double>{5}));
  EXPECT_THAT(error_of([] {
                mean_of_pieces("l", {floats({1}, {2}), floats({2}, {6, 6})}, {0.5, 0.5});
              }),
              HasSubstr("have no mean"));
}

TEST(DataParallel, FeedsOfNoDeviceAreRefused) {
  Executor executor;
  EXPECT_THAT(error_of([&] { executor.run_parallel(*Program::create(), {}, {}, {}); }),
              HasSubstr("feeds for at least one device"));
}

TEST(SplitFeeds, TooFewSamplesSayHowMany) {
  EXPECT_THAT(error_of([] {
                split_feeds({{"x", floats({1, 1}, {1})}}, 2);
              }),
              HasSubstr("feed of x has 1 samples for 2 devices"));
}

}  // namespace
}  // namespace trireme::testing
