// Tests ir/op_view.cc, ir/kernel.cc and the shape rules of ir/infer.cc.
#include "ir/op_view.h"

#include <gmock/gmock.h>

#include "ir/schema.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// Row: X, Parts*, Mask? -> Out, More*.
const OpSchema& row() {
  static const OpSchema made = OpSchema("view")
                                   .in("X", "")
                                   .in_list("Parts", "")
                                   .in_optional("Mask", "")
                                   .out("Out", "")
                                   .out_list("More", "")
                                   .attr("axis", -1, "");
  return made;
}

struct Fixture : ::testing::Test {
  Attrs attrs;
  ValueInfo x{.dtype = DType::float64, .shape = {2, 3}, .lod_level = 1, .lod = {{0, 1, 2}}};
  ValueInfo part{.dtype = DType::int64, .shape = {4}};
  ValueInfo out, more;
  OpView view{row(), attrs};

  Fixture() {
    out.name = "out.subprog_0";
    view.add_in("X", {&x});
    view.add_in("Parts", {&part, &part});
    view.add_out("Out", {&out});
    view.add_out("More", {nullptr, &more});
    view.seal();
  }
};

TEST_F(Fixture, SingleSlotsTakeOnePositionAlsoWhenAbsent) {
  EXPECT_EQ(view.in_size(), 4u);
  EXPECT_EQ(view.position("X"), 0);
  EXPECT_EQ(view.position("Parts", 1), 2);
  EXPECT_EQ(view.position("Parts", 2), -1);
  EXPECT_EQ(view.position("Mask"), -1);
  EXPECT_EQ(view.in_at(3), nullptr);
  EXPECT_FALSE(view.has("Mask"));
  EXPECT_EQ(view.count("Mask"), 0u);
  EXPECT_EQ(view.count("Parts"), 2u);
}

TEST_F(Fixture, ListsMayHoldUnwantedOutputs) {
  EXPECT_TRUE(view.wants("More"));
  EXPECT_EQ(view.out_count("More"), 2u);
  EXPECT_EQ(view.out_position("More", 0), -1);
  EXPECT_EQ(view.out_position("More", 1), 2);
  view.set_out("More", DType::int32, {7});
  EXPECT_EQ(more.shape, Shape({7}));
}

TEST_F(Fixture, UnknownSlotsAndAbsentOperandsAreOurBugs) {
  EXPECT_THROW(view.in("Y"), InternalError);
  EXPECT_THROW(view.in("Mask"), InternalError);
  EXPECT_THROW(view.attr<int>("nothing"), InternalError);
}

TEST_F(Fixture, AttributesFallBackToTheRow) {
  EXPECT_EQ(view.attr<int>("axis"), -1);
  attrs["axis"] = 1;
  EXPECT_EQ(view.attr<int>("axis"), 1);
}

TEST_F(Fixture, SameAsCopiesFactsAndLod) {
  same_as("X")(view);
  EXPECT_EQ(out.shape, x.shape);
  EXPECT_EQ(out.dtype, DType::float64);
  EXPECT_EQ(out.lod, x.lod);
  EXPECT_EQ(out.lod_level, 1);
  EXPECT_EQ(out.name, "out.subprog_0");
}

TEST_F(Fixture, KernelTypeIsThatOfTheFirstFloatingInput) {
  EXPECT_EQ(kernel_dtype(view), DType::float64);
  x.dtype = DType::int32;
  EXPECT_EQ(kernel_dtype(view), DType::int32);
}

TEST_F(Fixture, AStreamHangsOnThePositionAndOnNoName) {
  const uint64_t first = random_stream(view);
  out.name = "another";
  EXPECT_EQ(random_stream(view), first);
  attrs["random_position"] = 1;
  EXPECT_NE(random_stream(view), first);
}

TEST_F(Fixture, BroadcastAlignsAtTheRightOrAtAxis) {
  EXPECT_EQ(broadcast_shapes(view, {2, 3, 4}, {3, 4}, -1), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes(view, {2, 3, 4}, {2}, 0), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes(view, {2, 3, 4}, {3}, 1), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes(view, {2, 3}, {2, 3, 1, 1}, 0), Shape({2, 3}));
  EXPECT_EQ(broadcast_shapes(view, {2, 1, 4}, {3, 1}, -1), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes(view, {4}, {2, 3, 4}, -1), Shape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes(view, {2, 3}, {}, -1), Shape({2, 3}));
}

TEST_F(Fixture, BroadcastKeepsWhatItKnowsOfUnknownExtents) {
  EXPECT_EQ(broadcast_shapes(view, {-1, 3}, {-1, 3}, -1), Shape({-1, 3}));
  EXPECT_EQ(broadcast_shapes(view, {-1, 3}, {5, 3}, -1), Shape({5, 3}));
  EXPECT_EQ(broadcast_shapes(view, {-1, 3}, {1, 3}, -1), Shape({-1, 3}));
}

TEST_F(Fixture, BroadcastErrorsShowBothShapes) {
  try {
    broadcast_shapes(view, {2, 3}, {2}, -1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("X [2, 3] and Y [2] do not fit at axis -1"));
    EXPECT_THAT(e.what(), HasSubstr("dimension 1 is 3 against 2"));
  }
  EXPECT_THROW(broadcast_shapes(view, {2, 3}, {3}, 2), Error);
}

TEST_F(Fixture, NormalAxisCountsFromTheEnd) {
  EXPECT_EQ(normal_axis(view, -1, 3), 2);
  EXPECT_EQ(normal_axis(view, 0, 3), 0);
  try {
    normal_axis(view, 3, 3, "dim");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("dim is 3 but there are 3 dimensions"));
  }
}

TEST(Draw, RepeatsItselfAndStaysInRange) {
  Draw a(7), b(7);
  for (int i = 0; i < 100; ++i) {
    const int64_t n = a.size(2, 4);
    EXPECT_EQ(n, b.size(2, 4));
    EXPECT_GE(n, 2);
    EXPECT_LE(n, 4);
  }
  const Shape shape = a.shape(1, 3);
  EXPECT_GE(shape.rank(), 1);
  EXPECT_LE(shape.rank(), 3);
}

TEST(Draw, DistinctValuesAreApart) {
  Draw draw(3);
  const Tensor t = draw.distinct({5, 6});
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_GE(std::abs(element_as_double(t, i)), 0.05);
    for (int64_t j = 0; j < i; ++j) {
      EXPECT_GE(std::abs(element_as_double(t, i) - element_as_double(t, j)), 0.05);
    }
  }
}

TEST(Draw, LodHasTheAskedSequences) {
  Draw draw(3);
  const Lod lod = draw.lod(4, 3);
  ASSERT_EQ(lod[0].size(), 5u);
  EXPECT_EQ(lod_problem(lod, lod[0].back()), "");
}

}  // namespace
}  // namespace trireme
