// Conditional random fields against the sum over, and the best of, all paths.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "tests/ops/small.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kTags = 3;

struct Field {
  Tensor emission = Draw(3).uniform({5, kTags}, -2, 2);
  Tensor transition = Draw(4).uniform({kTags + 2, kTags}, -2, 2);

  double score(int64_t first, const std::vector<int64_t>& path) const {
    const double* x = emission.data<double>() + first * kTags;
    const double* w = transition.data<double>();
    double sum = w[path.front()] + w[kTags + path.back()];
    for (size_t t = 0; t < path.size(); ++t) {
      sum += x[static_cast<int64_t>(t) * kTags + path[t]];
      if (t > 0) sum += w[(2 + path[t - 1]) * kTags + path[t]];
    }
    return sum;
  }
};

void each_path(size_t length, const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> path(length, 0);
  for (;;) {
    visit(path);
    size_t at = 0;
    while (at < length && ++path[at] == kTags) path[at++] = 0;
    if (at == length) return;
  }
}

TEST(LinearChainCrf, CostsTheLogOfAllPathsLessTheLabelledOne) {
  const Field field;
  const Lod lod = {{0, 3, 3, 5}};
  const std::vector<int64_t> label = {2, 0, 1, 1, 1};
  const Tensors out = run_op(OpCall{.type = "linear_chain_crf",
                                    .inputs = {{"Emission", {with_lod(field.emission, lod)}},
                                               {"Transition", {field.transition}},
                                               {"Label", {with_lod(longs({5, 1}, label), lod)}}}});
  const std::vector<double> cost = numbers(out.at("LogLikelihood")[0]);
  ASSERT_EQ(cost.size(), 3u);
  double all = 0;
  each_path(3, [&](const auto& path) { all += std::exp(field.score(0, path)); });
  EXPECT_NEAR(cost[0], std::log(all) - field.score(0, {2, 0, 1}), 1e-12);
  EXPECT_EQ(cost[1], 0);  // no rows
  all = 0;
  each_path(2, [&](const auto& path) { all += std::exp(field.score(3, path)); });
  EXPECT_NEAR(cost[2], std::log(all) - field.score(3, {1, 1}), 1e-12);
}

TEST(LinearChainCrf, PaddedRowsGiveWhatSequencesGive) {
  const Field field;
  Tensor padded = filled(DType::float64, {2, 4, kTags}, 9);
  std::copy_n(field.emission.data<double>(), 3 * kTags, padded.data<double>());
  std::copy_n(field.emission.data<double>() + 3 * kTags, 2 * kTags,
              padded.data<double>() + 4 * kTags);
  const Tensors by_length =
      run_op(OpCall{.type = "linear_chain_crf",
                    .inputs = {{"Emission", {padded}},
                               {"Transition", {field.transition}},
                               {"Label", {longs({2, 4, 1}, {2, 0, 1, 0, 1, 1, 0, 0})}},
                               {"Length", {longs({2, 1}, {3, 2})}}}});
  const Lod lod = {{0, 3, 5}};
  const Tensors by_lod =
      run_op(OpCall{.type = "linear_chain_crf",
                    .inputs = {{"Emission", {with_lod(field.emission, lod)}},
                               {"Transition", {field.transition}},
                               {"Label", {with_lod(longs({5, 1}, {2, 0, 1, 1, 1}), lod)}}}});
  EXPECT_LT(max_abs_diff(by_length.at("LogLikelihood")[0], by_lod.at("LogLikelihood")[0]), 1e-12);
}

TEST(LinearChainCrf, ATagOutOfRangeAndAWrongTransitionAreNamed) {
  const Field field;
  const Lod lod = {{0, 5}};
  const auto run = [&](const Tensor& transition, int64_t tag) {
    run_op(OpCall{.type = "linear_chain_crf",
                  .inputs = {{"Emission", {with_lod(field.emission, lod)}},
                             {"Transition", {transition}},
                             {"Label", {with_lod(longs({5, 1}, {0, 0, tag, 0, 0}), lod)}}}});
  };
  EXPECT_THAT(error_of([&] { run(field.transition, 3); }), HasSubstr("3"));
  EXPECT_THAT(error_of([&] {
                run(doubles({3, 3}, std::vector<double>(9)), 0);
              }),
              HasSubstr("Transition has shape [3, 3] but 3 tags need [5, 3]"));
}

TEST(CrfDecoding, FindsTheBestOfAllPaths) {
  const Field field;
  const Lod lod = {{0, 3, 5}};
  std::vector<double> wanted;
  for (const auto& [first, length] : {std::pair{0, 3}, std::pair{3, 2}}) {
    std::vector<int64_t> best;
    const int64_t at = first;
    each_path(static_cast<size_t>(length), [&](const auto& path) {
      if (best.empty() || field.score(at, path) > field.score(at, best)) best = path;
    });
    wanted.insert(wanted.end(), best.begin(), best.end());
  }
  const Tensor path = run_op("crf_decoding", {{"Emission", with_lod(field.emission, lod)},
                                              {"Transition", field.transition}});
  EXPECT_EQ(path.shape(), Shape({5, 1}));
  EXPECT_EQ(path.lod(), lod);
  EXPECT_EQ(numbers(path), wanted);

  std::vector<int64_t> label(wanted.begin(), wanted.end());
  label[1] = (label[1] + 1) % kTags;
  const Tensor right = run_op("crf_decoding", {{"Emission", with_lod(field.emission, lod)},
                                               {"Transition", field.transition},
                                               {"Label", with_lod(longs({5, 1}, label), lod)}});
  EXPECT_THAT(numbers(right), ElementsAre(1, 0, 1, 1, 1));
}

TEST(CrfDecoding, PaddedPathsAreZeroPastTheEnd) {
  const Field field;
  Tensor padded = filled(DType::float64, {1, 7, kTags}, 0);
  std::copy_n(field.emission.data<double>(), 5 * kTags, padded.data<double>());
  const Tensor path =
      run_op("crf_decoding",
             {{"Emission", padded}, {"Transition", field.transition}, {"Length", longs({1}, {5})}});
  const Tensor whole = run_op("crf_decoding", {{"Emission", with_lod(field.emission, {{0, 5}})},
                                               {"Transition", field.transition}});
  EXPECT_EQ(path.shape(), Shape({1, 7}));
  std::vector<double> wanted = numbers(whole);
  wanted.resize(7);
  EXPECT_EQ(numbers(path), wanted);
  EXPECT_THAT(error_of([&] {
                run_op("crf_decoding", {{"Emission", padded},
                                        {"Transition", field.transition},
                                        {"Length", longs({1}, {8})}});
              }),
              HasSubstr("Length[0] is 8 but the rows are padded to 7"));
}

}  // namespace
}  // namespace trireme::testing
