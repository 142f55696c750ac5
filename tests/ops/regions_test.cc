// Known values and wrong uses of ops that look at regions and places of images.
#include <cmath>

#include "tests/ops/wrong_use.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using RegionInts = std::vector<int32_t>;

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return floats(shape, values);
}

Tensor all_of(const Shape& shape, float value) {
  return floats(shape, std::vector<float>(static_cast<size_t>(shape.count()), value));
}

Tensor narrow_longs(const Shape& shape, const std::vector<int64_t>& values) {
  return cast(longs(shape, values), DType::int32);
}

const Attrs kTwoByTwo = {{"pooled_height", 2}, {"pooled_width", 2}};

TEST(RoiAlign, MeansOfSamplesInBins) {
  // In a plane that grows evenly, a bin's mean is the value at its middle.
  const Tensor out =
      run_op("roi_align", {{"X", counted({1, 1, 4, 4})}, {"ROIs", floats({1, 4}, {0, 0, 2, 2})}},
             kTwoByTwo);
  EXPECT_THAT(numbers(out), ElementsAre(2.5, 3.5, 6.5, 7.5));
}

TEST(RoiAlign, RegionsOfImagesByTheirEnds) {
  const Tensor x = floats({2, 1, 1, 1}, {3, 5}), rois = all_of({3, 4}, 0);
  EXPECT_THAT(
      numbers(run_op("roi_align", {{"X", x}, {"ROIs", rois}, {"RoisLod", longs({3}, {0, 1, 3})}},
                     {{"sampling_ratio", 1}})),
      ElementsAre(3, 5, 5));
}

TEST(RoiPool, LargestOfBins) {
  const Tensors out =
      run_op({.type = "roi_pool",
              .inputs = {{"X", {counted({1, 1, 4, 4})}}, {"ROIs", {floats({1, 4}, {0, 0, 3, 3})}}},
              .attrs = kTwoByTwo});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(5, 7, 13, 15));
  EXPECT_THAT(numbers(out.at("Argmax")[0]), ElementsAre(5, 7, 13, 15));
}

TEST(PsroiPool, AChannelForEveryBin) {
  Attrs attrs = kTwoByTwo;
  attrs["output_channels"] = 1;
  const Tensor x = floats({1, 4, 1, 1}, {1, 2, 3, 4});
  EXPECT_THAT(numbers(run_op("psroi_pool", {{"X", x}, {"ROIs", all_of({1, 4}, 0)}}, attrs)),
              ElementsAre(1, 2, 3, 4));
}

TEST(PrroiPool, IntegralsOfBins) {
  const Tensor out =
      run_op("prroi_pool", {{"X", counted({1, 1, 4, 4})}, {"ROIs", floats({1, 4}, {1, 1, 2, 2})}},
             kTwoByTwo);
  const std::vector<double> found = numbers(out), wanted = {6.25, 6.75, 8.25, 8.75};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5);
}

TEST(AffineGrid, TheIdentityGoesFromCornerToCorner) {
  const Tensor out = run_op("affine_grid", {{"Theta", floats({1, 2, 3}, {1, 0, 0, 0, 1, .5f})}},
                            {{"output_shape", RegionInts{1, 1, 2, 3}}});
  EXPECT_THAT(numbers(out), ElementsAre(-1, -.5, 0, -.5, 1, -.5, -1, 1.5, 0, 1.5, 1, 1.5));
}

TEST(GridSampler, BetweenPixelsAndOutside) {
  const Tensor grid = floats({1, 1, 3, 2}, {0, 0, 1, -1, 3, 0});
  EXPECT_THAT(numbers(run_op("grid_sampler", {{"X", counted({1, 1, 2, 2})}, {"Grid", grid}})),
              ElementsAre(1.5, 1, 0));
}

TEST(DeformableConv, LooksBesideItsPlace) {
  const Tensor x = counted({1, 1, 2, 3}), filter = floats({1, 1, 1, 1}, {2});
  // One to the right, half down.
  const Tensor offset = floats({1, 2, 2, 3}, {.5f, .5f, .5f, .5f, .5f, .5f, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(
      numbers(run_op("deformable_conv_v1", {{"Input", x}, {"Offset", offset}, {"Filter", filter}})),
      ElementsAre(5, 7, 0, 4, 5, 0));
  const Tensor mask = floats({1, 1, 2, 3}, {1, .5f, 1, 1, 0, 1});
  EXPECT_THAT(
      numbers(run_op("deformable_conv",
                     {{"Input", x}, {"Offset", offset}, {"Filter", filter}, {"Mask", mask}})),
      ElementsAre(5, 3.5, 0, 4, 0, 0));
}

TEST(DeformablePsroiPooling, MovedBins) {
  const Attrs attrs = {{"output_dim", 1}, {"trans_std", 1.0f}, {"sample_per_part", 1}};
  // The region's place is pixel 1 less a half, its side 2; moved by a half of that to the right.
  const Tensors out = run_op({.type = "deformable_psroi_pooling",
                              .inputs = {{"Input", {counted({1, 1, 4, 4})}},
                                         {"ROIs", {floats({1, 4}, {1, 1, 2, 2})}},
                                         {"Trans", {floats({1, 2, 1, 1}, {.5f, 0})}}},
                              .attrs = attrs});
  EXPECT_THAT(numbers(out.at("Output")[0]), ElementsAre(3.5));
  EXPECT_THAT(numbers(out.at("TopCount")[0]), ElementsAre(1));
}

TEST(RoiPerspectiveTransform, AnUprightSquareStaysAsItIs) {
  const Tensors out = run_op({.type = "roi_perspective_transform",
                              .inputs = {{"X", {counted({1, 1, 3, 3})}},
                                         {"ROIs", {floats({1, 8}, {0, 0, 2, 0, 2, 2, 0, 2})}}},
                              .attrs = {{"transformed_height", 3}, {"transformed_width", 4}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0));
  EXPECT_THAT(numbers(out.at("Mask")[0]), ElementsAre(1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0));
}

TEST(PolygonBoxTransform, FromPlacesToPixels) {
  EXPECT_THAT(numbers(run_op("polygon_box_transform", {{"Input", all_of({1, 2, 2, 2}, 1)}})),
              ElementsAre(-1, 3, -1, 3, -1, -1, 3, 3));
}

TEST(SimilarityFocus, OneInARowAndOneInAColumn) {
  const Tensor x = floats({1, 2, 2, 2}, {9, 8, 7, 1, 0, 0, 0, 0});
  EXPECT_THAT(
      numbers(run_op("similarity_focus", {{"X", x}}, {{"axis", 1}, {"indexes", RegionInts{0}}})),
      ElementsAre(1, 0, 0, 1, 1, 0, 0, 1));
}

TEST(TrilinearInterp, MiddlesOfACube) {
  EXPECT_THAT(numbers(run_op("trilinear_interp", {{"X", counted({1, 1, 2, 2, 2})}},
                             {{"out_d", 3}, {"out_h", 1}, {"out_w", 2}})),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(MaxPool3dWithIndex, LargestAndItsPlace) {
  const Tensors out = run_op({.type = "max_pool3d_with_index",
                              .inputs = {{"X", {counted({1, 1, 2, 2, 4})}}},
                              .attrs = {{"ksize", RegionInts{1, 1, 2}}, {"adaptive", true}}});
  EXPECT_THAT(numbers(out.at("Out")[0]), ElementsAre(13, 15));
  EXPECT_THAT(numbers(out.at("Mask")[0]), ElementsAre(13, 15));
}

TEST(CropTensor, ExtentsAndOffsetsFromTensors) {
  const Tensor x = counted({3, 4});
  EXPECT_THAT(numbers(run_op("crop_tensor", {{"X", x}, {"Shape", narrow_longs({2}, {1, 2})}},
                             {{"offsets", RegionInts{2, 1}}})),
              ElementsAre(9, 10));
  const Tensors listed = run_op(
      {.type = "crop_tensor",
       .inputs = {{"X", {x}}, {"OffsetsTensor", {narrow_longs({1}, {1}), narrow_longs({1}, {3})}}},
       .attrs = {{"shape", RegionInts{-1, 1}}}});
  EXPECT_THAT(numbers(listed.at("Out")[0]), ElementsAre(7, 11));
}

TEST(Addmm, ARowAddedToAProduct) {
  const Tensor x = floats({2, 1}, {1, 2}), y = floats({1, 2}, {3, 4});
  EXPECT_THAT(numbers(run_op("addmm", {{"Input", floats({1, 2}, {10, 20})}, {"X", x}, {"Y", y}},
                             {{"Alpha", 2.0f}, {"Beta", .5f}})),
              ElementsAre(11, 18, 17, 26));
}

TEST(RandomCrop, APartOfEveryInstance) {
  const Tensors out = run_op({.type = "random_crop",
                              .inputs = {{"X", {counted({2, 3, 3})}}, {"Seed", {longs({1}, {7})}}},
                              .attrs = {{"shape", RegionInts{2, 2}}}});
  const std::vector<double> cut = numbers(out.at("Out")[0]);
  for (size_t n = 0; n < 2; ++n) {
    const double first = cut[4 * n];
    EXPECT_TRUE(first - 9.0 * static_cast<double>(n) >= 0 &&
                first - 9.0 * static_cast<double>(n) <= 4);
    EXPECT_EQ(cut[4 * n + 1], first + 1);
    EXPECT_EQ(cut[4 * n + 2], first + 3);
    EXPECT_EQ(cut[4 * n + 3], first + 4);
  }
  EXPECT_NE(numbers(out.at("SeedOut")[0])[0], 7);
}

TEST(Regions, WrongUsesAreNamed) {
  const Tensor flat = all_of({3, 3}, 1), five = all_of({1, 5}, 1);
  expect_refused({
      spoiled("roi_align", {{"ROIs", {five}}}, {}, "ROIs has shape [1, 5]"),
      spoiled("roi_pool", {{"X", {flat}}}, {}, "X has shape [3, 3]"),
      spoiled("psroi_pool", {}, {{"output_channels", 3}}, "output_channels is 3"),
      spoiled("prroi_pool", {{"ROIs", {five}}}, {}, "ROIs has shape [1, 5]"),
      spoiled("affine_grid", {}, {{"output_shape", RegionInts{1, 2}}}, "shape is [1, 2]"),
      spoiled("grid_sampler", {{"Grid", {flat}}}, {}, "Grid [3, 3]"),
      spoiled("deformable_conv", {}, {{"strides", RegionInts{0, 1}}}, "strides is [0, 1]"),
      spoiled("deformable_conv_v1", {{"Offset", {flat}}}, {}, "Offset [3, 3]"),
      spoiled("deformable_psroi_pooling", {}, {{"output_dim", 5}}, "output_dim is 5"),
      spoiled("roi_perspective_transform", {{"ROIs", {five}}}, {}, "ROIs has shape [1, 5]"),
      spoiled("polygon_box_transform", {{"Input", {flat}}}, {}, "Input has shape [3, 3]"),
      spoiled("similarity_focus", {}, {{"indexes", RegionInts{9}}}, "indexes has 9"),
      spoiled("trilinear_interp", {{"X", {flat}}}, {}, "X has shape [3, 3]"),
      spoiled("max_pool3d_with_index", {{"X", {flat}}}, {}, "X has 2 dimensions"),
      spoiled("crop_tensor", {}, {{"offsets", RegionInts{1}}}, "offsets has 1 numbers"),
      spoiled("addmm", {{"Input", {all_of({2, 4}, 1)}}}, {}, "Input has shape [2, 4]"),
      spoiled("random_crop", {}, {{"shape", RegionInts{9}}}, "shape is [9]"),
  });
}

TEST(Regions, ManyImagesNeedSequences) {
  const std::string what = error_of([] {
    run_op("roi_align", {{"X", all_of({2, 1, 2, 2}, 1)}, {"ROIs", all_of({1, 4}, 1)}});
  });
  EXPECT_THAT(what, ::testing::HasSubstr("ROIs has no sequences but X has 2 images"));
  EXPECT_THAT(what, ::testing::HasSubstr("or give RoisLod"));
}

}  // namespace
}  // namespace trireme::testing
