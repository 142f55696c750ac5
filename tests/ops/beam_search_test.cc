// Beam search steps, the sentences they end in, and paths through parents.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/ops/small.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Attrs kTwoBeams = {{"level", 0}, {"beam_size", 2}, {"end_id", 0}};

OpCall step(std::vector<int64_t> pre_ids, std::vector<float> pre_scores, Tensor scores) {
  const auto n = static_cast<int64_t>(pre_ids.size());
  return {.type = "beam_search",
          .inputs = {{"pre_ids", {longs({n, 1}, pre_ids)}},
                     {"pre_scores", {floats({n, 1}, pre_scores)}},
                     {"scores", {std::move(scores)}}},
          .attrs = kTwoBeams,
          .outputs = {"selected_ids", "selected_scores", "parent_idx"}};
}

TEST(BeamSearch, TakesTheBestOfEverySourceAndGroupsThemByPrefix) {
  // Two sources: the first has prefixes 0 and 1, the second prefix 2.
  OpCall call = step(
      {1, 2, 3}, {0.1f, 0.2f, 0.3f},
      with_lod(floats({3, 2}, {0.5f, 0.3f, 0.9f, 0.4f, 0.7f, 0.6f}), {{0, 2, 3}, {0, 1, 2, 3}}));
  call.inputs["ids"] = {longs({3, 2}, {4, 5, 6, 7, 8, 9})};
  const Tensors out = run_op(call);
  EXPECT_THAT(numbers(out.at("selected_ids")[0]), ElementsAre(4, 6, 8, 9));
  EXPECT_THAT(numbers(out.at("selected_scores")[0]), ElementsAre(0.5f, 0.9f, 0.7f, 0.6f));
  EXPECT_THAT(numbers(out.at("parent_idx")[0]), ElementsAre(0, 1, 2, 2));
  EXPECT_EQ(out.at("selected_ids")[0].lod(), (Lod{{0, 2, 3}, {0, 1, 2, 4}}));
  EXPECT_EQ(out.at("selected_ids")[0].shape(), Shape({4, 1}));
}

TEST(BeamSearch, AnEndedPrefixStaysAndAnEndedSourceIsDropped) {
  const Lod lod = {{0, 2, 4}, {0, 1, 2, 3, 4}};
  OpCall call = step({0, 2, 0, 0}, {0.8f, 0.2f, 0.6f, 0.5f},
                     with_lod(floats({4, 2}, {9, 9, 0.5f, 0.3f, 9, 9, 9, 9}), lod));
  const Tensors out = run_op(call);
  // Without ids the column is the word.
  EXPECT_THAT(numbers(out.at("selected_ids")[0]), ElementsAre(0, 0));
  EXPECT_THAT(numbers(out.at("selected_scores")[0]), ElementsAre(0.8f, 0.5f));
  EXPECT_EQ(out.at("selected_ids")[0].lod(), (Lod{{0, 2, 4}, {0, 1, 2, 2, 2}}));
}

TEST(BeamSearch, AllEndedGivesNoRows) {
  OpCall call = step({0}, {0.8f}, with_lod(floats({1, 2}, {1, 1}), {{0, 1}, {0, 1}}));
  EXPECT_EQ(run_op(call).at("selected_ids")[0].shape(), Shape({0, 1}));
}

TEST(BeamSearch, ProbabilitiesOfTheCandidateAloneAreAddedAsLogarithms) {
  OpCall call = step({5}, {-1.0f}, with_lod(floats({1, 2}, {0.25f, 0.75f}), {{0, 1}, {0, 1}}));
  call.attrs["is_accumulated"] = false;
  const Tensors out = run_op(call);
  EXPECT_THAT(numbers(out.at("selected_ids")[0]), ElementsAre(1, 0));
  EXPECT_NEAR(numbers(out.at("selected_scores")[0])[0], -1 + std::log(0.75), 1e-6);
}

TEST(BeamSearch, MissingLodIsNamed) {
  EXPECT_THAT(error_of([] {
                run_op(step({5}, {-1.0f}, floats({1, 2}, {1, 2})));
              }),
              HasSubstr("scores has 0 LoD levels but level is 0"));
}

// Runs beam_search_decode on arrays that it finds in the scope.
std::vector<Variable> decode(const TensorArray& ids, const TensorArray& scores, int end_id) {
  const auto program = Program::create();
  Block& block = program->global_block();
  Scope scope;
  for (const auto& [name, dtype] : {std::pair{"ids", DType::int64}, {"scores", DType::float32}}) {
    block.create_var({.name = name,
                      .type = VarType::lod_tensor_array,
                      .dtype = dtype,
                      .persistable = true,
                      .has_shape = false});
    scope.var(name).array() = std::string(name) == "ids" ? ids : scores;
  }
  block.create_var({.name = "words", .has_shape = false});
  block.create_var({.name = "word_scores", .has_shape = false});
  block.append_op({.type = "beam_search_decode",
                   .inputs = {{"Ids", {"ids"}}, {"Scores", {"scores"}}},
                   .outputs = {{"SentenceIds", {"words"}}, {"SentenceScores", {"word_scores"}}},
                   .attrs = {{"beam_size", 2}, {"end_id", end_id}}});
  Executor executor;
  auto found = executor.run(*program, {}, {"words", "word_scores"}, {.scope = &scope});
  note_result(*program, "words", found.at(0));
  return found;
}

TEST(BeamSearchDecode, ReadsSentencesBackBestFirst) {
  // One source. Step 0: the start word. Step 1: words 1 and 2. Step 2: word 3 after 1 and the end
  // after 2. Step 3: after 3 the end, the ended one stays.
  const TensorArray ids = {with_lod(longs({1, 1}, {7}), {{0, 1}, {0, 1}}),
                           with_lod(longs({2, 1}, {1, 2}), {{0, 1}, {0, 2}}),
                           with_lod(longs({2, 1}, {3, 9}), {{0, 2}, {0, 1, 2}}),
                           with_lod(longs({2, 1}, {9, 9}), {{0, 2}, {0, 1, 2}})};
  const TensorArray scores = {with_lod(floats({1, 1}, {0}), {{0, 1}, {0, 1}}),
                              with_lod(floats({2, 1}, {0.5f, 0.4f}), {{0, 1}, {0, 2}}),
                              with_lod(floats({2, 1}, {0.3f, 0.35f}), {{0, 2}, {0, 1, 2}}),
                              with_lod(floats({2, 1}, {0.2f, 0.35f}), {{0, 2}, {0, 1, 2}})};
  const std::vector<Variable> out = decode(ids, scores, 9);
  EXPECT_THAT(numbers(out[0].tensor()), ElementsAre(7, 2, 9, 7, 1, 3, 9));
  EXPECT_THAT(numbers(out[1].tensor()), ElementsAre(0, 0.4f, 0.35f, 0, 0.5f, 0.3f, 0.2f));
  EXPECT_EQ(out[0].tensor().lod(), (Lod{{0, 2}, {0, 3, 7}}));
  EXPECT_EQ(out[0].tensor().shape(), Shape({7}));
}

TEST(BeamSearchDecode, ASourceThatEndedEarlyStartsAtItsLastRows) {
  // Two sources; the first one's beams are gone at the last step.
  const TensorArray ids = {with_lod(longs({2, 1}, {7, 8}), {{0, 1, 2}, {0, 1, 2}}),
                           with_lod(longs({4, 1}, {9, 1, 2, 3}), {{0, 1, 2}, {0, 2, 4}}),
                           with_lod(longs({2, 1}, {4, 5}), {{0, 2, 4}, {0, 0, 0, 1, 2}})};
  TensorArray scores;
  for (const Tensor& step : ids) {
    Tensor score = cast(step, DType::float32);
    for (int64_t i = 0; i < score.numel(); ++i) score.data<float>()[i] *= -1;
    scores.push_back(with_lod(score, step.lod()));
  }
  const std::vector<Variable> out = decode(ids, scores, 9);
  EXPECT_EQ(out[0].tensor().lod(), (Lod{{0, 2, 4}, {0, 2, 4, 7, 10}}));
  EXPECT_THAT(numbers(out[0].tensor()), ElementsAre(7, 1, 7, 9, 8, 2, 4, 8, 3, 5));
}

TEST(BeamSearchDecode, StepsWithoutLodAreNamed) {
  EXPECT_THAT(error_of([] {
                decode({longs({1, 1}, {7})}, {floats({1, 1}, {0})}, 9);
              }),
              HasSubstr("both need two LoD levels and equal rows"));
  EXPECT_THAT(error_of([] {
                const Tensor word = longs({1, 1}, {7});
                decode({word, word}, {floats({1, 1}, {0})}, 9);
              }),
              HasSubstr("Ids has 2 steps and Scores 1"));
}

TEST(GatherTree, FollowsParentsBack) {
  const Tensor out =
      run_op("gather_tree", {{"Ids", longs({3, 2, 2}, {2, 2, 6, 1, 3, 9, 6, 1, 0, 1, 9, 0})},
                             {"Parents", longs({3, 2, 2}, {0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1})}});
  EXPECT_THAT(numbers(out), ElementsAre(2, 2, 1, 6, 3, 3, 6, 1, 0, 1, 9, 0));
  EXPECT_THAT(error_of([] {
                run_op("gather_tree",
                       {{"Ids", longs({2, 1, 1}, {1, 2})}, {"Parents", longs({2, 1, 1}, {0, 4})}});
              }),
              HasSubstr("Parents names beam 4 at step 1"));
}

}  // namespace
}  // namespace trireme::testing
