// Tests ir/schema.cc, ir/check.cc and ir/grad_row.cc on rows of a private table.
#include "ir/schema.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Registry small_table() {
  Registry ops;
  ops.op("blend")
      .in("X", "what is blended")
      .in_list("Parts", "what it is blended with")
      .in_optional("Mask", "where")
      .out("Out", "the blend")
      .out_intermediate("Saved", "kept for the gradient")
      .attr("axis", -1, "the axis")
      .between(-4, 3)
      .attr("alpha", 0.5f, "how much")
      .at_least(0)
      .attr("mode", "linear", "how")
      .one_of({"linear", "cubic"})
      .required_attr<int32_t>("size", "how many")
      .shape(same_as("X"))
      .grad({"X", "Saved"})
      .no_grad({"Mask"});
  ops.finish();
  return ops;
}

OpSpec good() {
  return {.type = "blend",
          .inputs = {{"X", {"x"}}, {"Parts", {"a", "b"}}},
          .outputs = {{"Out", {"y"}}, {"Saved", {"s"}}},
          .attrs = {{"size", 2}}};
}

std::string schema_error(const std::function<void(OpSpec&)>& spoil) {
  const Registry ops = small_table();
  OpSpec spec = good();
  spoil(spec);
  try {
    check_and_fill(ops.get("blend"), spec);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(CheckAndFill, FillsDefaultsAndEmptyInputSlots) {
  const Registry ops = small_table();
  OpSpec spec = good();
  check_and_fill(ops.get("blend"), spec);
  EXPECT_EQ(spec.attrs.at("axis"), Attribute(-1));
  EXPECT_EQ(spec.attrs.at("mode"), Attribute(std::string("linear")));
  EXPECT_EQ(spec.attrs.size(), 4u);
  EXPECT_TRUE(spec.inputs.at("Mask").empty());
}

TEST(CheckAndFill, ConvertsNumbersToTheDeclaredType) {
  const Registry ops = small_table();
  OpSpec spec = good();
  spec.attrs["alpha"] = 1;
  spec.attrs["size"] = int64_t{3};
  check_and_fill(ops.get("blend"), spec);
  EXPECT_EQ(spec.attrs.at("alpha"), Attribute(1.0f));
  EXPECT_EQ(spec.attrs.at("size"), Attribute(3));
}

TEST(CheckAndFill, AcceptsCommonAndIgnoredAttributes) {
  const Registry ops = small_table();
  OpSpec spec = good();
  spec.attrs["op_role"] = 1;
  spec.attrs["use_cudnn"] = true;
  spec.attrs["Scale_in"] = 1.0f;
  check_and_fill(ops.get("blend"), spec);
  EXPECT_EQ(spec.attrs.at("use_cudnn"), Attribute(true));
}

TEST(CheckAndFill, WrongSlotSuggestsTheRightOne) {
  const std::string what = schema_error([](OpSpec& s) { s.inputs["Part"] = {"c"}; });
  EXPECT_THAT(what, HasSubstr("input slot Part does not exist"));
  EXPECT_THAT(what, HasSubstr("did you mean Parts?"));
  EXPECT_THAT(schema_error([](OpSpec& s) { s.outputs["Weights"] = {"c"}; }),
              HasSubstr("its outputs are Out, Saved"));
}

TEST(CheckAndFill, MissingInputIsAnAssertionThatNamesTheSlot) {
  const Registry ops = small_table();
  OpSpec spec = good();
  spec.inputs["X"].clear();
  try {
    check_and_fill(ops.get("blend"), spec);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::assertion);
    EXPECT_THAT(e.what(), HasSubstr("input X is missing"));
    EXPECT_THAT(e.what(), HasSubstr("what is blended"));
  }
}

TEST(CheckAndFill, MissingOutputAndTooManyVariablesAreErrors) {
  EXPECT_THAT(schema_error([](OpSpec& s) { s.outputs.clear(); }),
              HasSubstr("output Out is missing"));
  EXPECT_THAT(schema_error([](OpSpec& s) {
                s.inputs["X"] = {"a", "b"};
              }),
              HasSubstr("input slot X takes one variable but 2 are given: a, b"));
}

TEST(CheckAndFill, AttributesAreCheckedByTypeRangeAndChoice) {
  EXPECT_THAT(schema_error([](OpSpec& s) { s.attrs["axis"] = 7; }),
              HasSubstr("attribute axis is 7; it must be from -4 to 3"));
  EXPECT_THAT(schema_error([](OpSpec& s) { s.attrs["alpha"] = -1.0f; }),
              HasSubstr("it must be at least 0"));
  EXPECT_THAT(schema_error([](OpSpec& s) { s.attrs["mode"] = std::string("cubik"); }),
              HasSubstr("did you mean 'cubic'?"));
  const std::string what = schema_error([](OpSpec& s) { s.attrs["size"] = std::string("two"); });
  EXPECT_THAT(what, HasSubstr("size"));
  EXPECT_THAT(what, HasSubstr("give size as int"));
}

TEST(CheckAndFill, UnknownAndMissingAttributesAreNamed) {
  const std::string what = schema_error([](OpSpec& s) { s.attrs["axes"] = 1; });
  EXPECT_THAT(what, HasSubstr("attribute axes does not exist"));
  EXPECT_THAT(what, HasSubstr("did you mean axis?"));
  EXPECT_THAT(schema_error([](OpSpec& s) { s.attrs.clear(); }),
              HasSubstr("set size (int): how many"));
}

TEST(Registry, UnknownOpNamesNearOnes) {
  const Registry ops = small_table();
  try {
    ops.get("blent");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unimplemented);
    EXPECT_THAT(e.what(), HasSubstr("there is no operator 'blent'"));
    EXPECT_THAT(e.what(), HasSubstr("did you mean blend"));
  }
}

TEST(Registry, SecondRowOfOneNameIsOurBug) {
  Registry ops;
  ops.op("a");
  EXPECT_THROW(ops.op("a"), InternalError);
  EXPECT_THROW(ops.primitive("add"), InternalError);
}

TEST(Registry, GradientUsingAnUnknownSlotIsOurBug) {
  Registry ops;
  ops.op("a").in("X", "").out("Out", "").grad({"Z"});
  EXPECT_THROW(ops.finish(), InternalError);
}

std::vector<std::string> names(const std::vector<SlotSpec>& slots) {
  std::vector<std::string> all;
  for (const SlotSpec& slot : slots) all.push_back(slot.name);
  return all;
}

TEST(GradRow, ReadsWhatTheForwardRowSaysAndWritesGradients) {
  const Registry ops = small_table();
  const OpSchema& row = ops.get("blend_grad");
  EXPECT_EQ(row.forward(), ops.find("blend"));
  EXPECT_THAT(names(row.inputs()), ElementsAre("X", "Saved", "Out@GRAD"));
  EXPECT_THAT(names(row.outputs()), ElementsAre("X@GRAD", "Parts@GRAD"));
  EXPECT_TRUE(row.find_output("Parts@GRAD")->duplicable);
  EXPECT_TRUE(row.find_output("X@GRAD")->dispensable);
  EXPECT_TRUE(row.find_input("Out@GRAD")->dispensable);
  EXPECT_EQ(row.attributes().size(), 4u);
}

TEST(GradRow, HandWrittenRowWins) {
  Registry ops;
  ops.op("a").in("X", "").out("Out", "").grad({});
  ops.op("a_grad").doc("own").in("Out@GRAD", "").out("X@GRAD", "");
  ops.finish();
  EXPECT_EQ(ops.get("a_grad").documentation(), "own");
}

}  // namespace
}  // namespace trireme
