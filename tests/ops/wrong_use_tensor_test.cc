// Wrong uses of constants, random numbers, shapes, indices and sequences.
#include "tests/ops/small.h"
#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using Axes = std::vector<int32_t>;
using Extents = std::vector<int64_t>;

const Tensor kGrid = floats({2, 3}, {1, 2, 3, 4, 5, 6});
const Tensor kLine = floats({3}, {1, 2, 3});
const Tensor kIds = longs({3, 1}, {4, 5, 6});
const int32_t kFloat = static_cast<int32_t>(DType::float32);

TEST(WrongUse, ConstantsAndRandomNumbers) {
  const Attrs no_type = {{"dtype", 77}, {"shape", Extents{2}}};
  expect_refused({
      {"fill_constant", {}, {{"shape", Extents{-2}}}, "extent 0 is negative"},
      {"fill_any_like", {{"X", {kGrid}}}, {{"dtype", 77}}, "dtype is 77, which is no element type"},
      {"fill_constant_batch_size_like",
       {{"Input", {kGrid}}},
       {{"shape", Axes{-1, 4}}, {"input_dim_idx", 2}},
       "input_dim_idx is 2 but"},
      {"diag", {{"Diagonal", {kGrid}}}, {}, "Diagonal has 2 dimensions"},
      {"uniform_random",
       {},
       {{"shape", Extents{2}}, {"min", 2.0f}, {"max", 1.0f}},
       "min is 2 but max is 1"},
      {"uniform_random_batch_size_like",
       {{"Input", {kGrid}}},
       {{"shape", Axes{-1, 4}}, {"output_dim_idx", 2}},
       "output_dim_idx is 2 but shape has 2 extents"},
      {"gaussian_random", {}, no_type, "dtype is 77, which is no element type"},
      {"gaussian_random_batch_size_like",
       {{"Input", {kGrid}}},
       {{"shape", Axes{-1, -1}}},
       "shape[1] is -1 but only output_dim_idx (0) is taken from Input"},
      {"truncated_gaussian_random", {}, {{"dtype", 77}, {"shape", Axes{2}}}, "dtype is 77"},
      {"shuffle_batch", {{"X", {kLine}}, {"Seed", {longs({1}, {1})}}}, {}, "X has 1 dimensions"},
  });
}

TEST(WrongUse, ShapesAndTheirAxes) {
  expect_refused({
      {"reshape", {{"X", {kGrid}}}, {{"shape", Axes{4, -1}}}, "6 elements, which shape [4, -1]"},
      {"squeeze", {{"X", {kGrid}}}, {{"axes", Axes{1}}}, "axis 1 of X [2, 3] has 3 elements"},
      {"unsqueeze", {{"X", {kGrid}}}, {{"axes", Axes{4}}}, "axes is 4"},
      {"flatten", {{"X", {kGrid}}}, {{"axis", 3}}, "axis is 3 but X has 2 dimensions"},
      {"transpose", {{"X", {kGrid}}}, {{"axis", Axes{0}}}, "axis is [0] but X has 2 dimensions"},
      {"reverse", {{"X", {kGrid}}}, {{"axis", Axes{2}}}, "axis is 2 but there are 2 dimensions"},
      {"unstack",
       {{"X", {kGrid}}},
       {{"axis", 0}, {"num", 3}},
       "dimension 0 of [2, 3] has 2",
       {{"Y", 3}}},
      {"slice",
       {{"Input", {kGrid}}},
       {{"axes", Axes{2}}, {"starts", Axes{0}}, {"ends", Axes{1}}},
       "axes is 2"},
      {"unique", {{"X", {kLine}}}, {{"dtype", kFloat}}, "dtype is float32, but indices are"},
      {"unique_with_counts", {{"X", {kGrid}}}, {}, "X has shape [2, 3] but one dimension is taken"},
      {"bilinear_interp", {{"X", {kGrid}}}, {}, "X has shape [2, 3]"},
      {"nearest_interp",
       {{"X", {floats({1, 1, 1, 1}, {1})}}},
       {{"out_h", 0}, {"out_w", 2}},
       "the result would be 0 x 2"},
  });
}

TEST(WrongUse, IndicesAndConditions) {
  expect_refused({
      {"one_hot_v2", {{"X", {kIds}}}, {{"depth", 5}}, "X[1] is 5 but the dimension has 5 elements"},
      {"index_sample",
       {{"X", {kGrid}}, {"Index", {longs({3, 1}, {0, 0, 0})}}},
       {},
       "X has shape [2, 3] and Index [3, 1]"},
      {"where",
       {{"Condition", {kGrid}}, {"X", {kGrid}}, {"Y", {kGrid}}},
       {},
       "Condition holds float32 but must hold bool"},
      {"gather", {{"X", {kGrid}}, {"Index", {longs({1}, {2})}}}, {}, "Index[0] is 2"},
  });
}

TEST(WrongUse, SequencesWithoutLodSayHowToFeedThem) {
  const Tensor weight = floats({2, 8}, std::vector<float>(16, 0));
  const Tensor pad = floats({1}, {0});
  expect_refused({
      {"sequence_enumerate", {{"X", {kIds}}}, {{"win_size", 2}}, "X (X_0) has no LoD"},
      {"sequence_enumerate", {{"X", {kIds}}}, {{"win_size", 0}}, "attribute win_size is 0"},
      {"sequence_erase",
       {{"X", {with_lod(kGrid, {{0, 2}})}}},
       {{"tokens", Axes{1}}},
       "X has shape [2, 3] but holds one id for every row"},
      {"sequence_pool", {{"X", {kGrid}}}, {}, "X (X_0) has no LoD"},
      {"sequence_softmax", {{"X", {kIds}}}, {}, "X (X_0) has no LoD"},
      {"sequence_reverse", {{"X", {kGrid}}}, {}, "X (X_0) has no LoD"},
      {"sequence_expand_as", {{"X", {kGrid}}, {"Y", {kGrid}}}, {}, "Y (Y_0) has no LoD"},
      {"sequence_pad", {{"X", {kGrid}}, {"PadValue", {pad}}}, {}, "X (X_0) has no LoD"},
      {"lstm",
       {{"Input", {floats({1, 8}, std::vector<float>(8, 0))}},
        {"Weight", {weight}},
        {"Bias", {floats({1, 8}, std::vector<float>(8, 0))}}},
       {{"use_peepholes", false}},
       "Input (Input_0) has no LoD"},
  });
}

TEST(WrongUse, StructuredPredictionNamesWhatDoesNotFit) {
  const Tensor emission = with_lod(kGrid, {{0, 2}});
  const Tensor transition = floats({5, 3}, std::vector<float>(15, 0));
  const Tensor ids = with_lod(longs({2, 1}, {1, 2}), {{0, 2}});
  expect_refused({
      {"linear_chain_crf",
       {{"Emission", {emission}}, {"Transition", {kGrid}}, {"Label", {ids}}},
       {},
       "Transition has shape [2, 3] but 3"},
      {"crf_decoding",
       {{"Emission", {emission}}, {"Transition", {kGrid}}},
       {},
       "Transition has shape [2, 3] but 3"},
      {"warpctc",
       {{"Logits", {emission}}, {"Label", {with_lod(cast(ids, DType::int32), {{0, 2}})}}},
       {{"blank", 3}},
       "blank is 3 but Logits has 3 classes"},
      {"chunk_eval",
       {{"Inference", {ids}}, {"Label", {with_lod(longs({2, 1}, {1, 9}), {{0, 2}})}}},
       {{"num_chunk_types", 2}, {"chunk_scheme", "IOB"}},
       "holds 9 but labels go from 0 to 4"},
      {"edit_distance",
       {{"Hyps", {ids}}, {"Refs", {with_lod(longs({2, 1}, {1, 2}), {{0, 1, 2}})}}},
       {},
       "Hyps has 1 sequences but Refs has 2"},
      {"beam_search",
       {{"pre_ids", {longs({2, 1}, {1, 2})}},
        {"pre_scores", {floats({2, 1}, {0, 0})}},
        {"ids", {longs({3, 2}, {1, 2, 3, 4, 5, 6})}},
        {"scores", {floats({3, 2}, {1, 2, 3, 4, 5, 6})}}},
       {{"level", 0}, {"beam_size", 2}, {"end_id", 0}},
       "pre_ids has shape [2, 1] but scores has 3 rows"},
  });
}

}  // namespace
}  // namespace trireme::testing
