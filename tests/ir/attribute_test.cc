// Attributes: printing in Python's notation and lossless conversion.
#include "ir/attribute.h"

#include <gmock/gmock.h>

#include <limits>

#include "ir/python_text.h"
#include "tests/support/op_runner.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using trireme::testing::error_of;

TEST(PythonText, FloatsAreTheShortestThatReadBack) {
  EXPECT_EQ(python_text(1.0), "1.0");
  EXPECT_EQ(python_text(-0.0), "-0.0");
  EXPECT_EQ(python_text(0.1), "0.1");
  EXPECT_EQ(python_text(0.1f), "0.10000000149011612");
  EXPECT_EQ(python_text(1e-4), "0.0001");
  EXPECT_EQ(python_text(1e-5), "1e-05");
  EXPECT_EQ(python_text(1.5e-5), "1.5e-05");
  EXPECT_EQ(python_text(123456.75), "123456.75");
  EXPECT_EQ(python_text(1e15), "1000000000000000.0");
  EXPECT_EQ(python_text(1e16), "1e+16");
  EXPECT_EQ(python_text(1e300), "1e+300");
  EXPECT_EQ(python_text(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(PythonText, StringsTakeTheQuoteTheyDoNotHold) {
  EXPECT_EQ(python_quoted("a"), "'a'");
  EXPECT_EQ(python_quoted("it's"), "\"it's\"");
  EXPECT_EQ(python_quoted("'\""), "'\\'\"'");
  EXPECT_EQ(python_quoted("a\n\x01\\"), "'a\\n\\x01\\\\'");
}

TEST(PythonText, TuplesOfOneHaveAComma) {
  EXPECT_EQ(python_tuple({}), "()");
  EXPECT_EQ(python_tuple({3}), "(3,)");
  EXPECT_EQ(python_tuple({-1, 784}), "(-1, 784)");
}

TEST(Attribute, PrintsAsProgramsPrint) {
  EXPECT_EQ(to_string(Attribute(true)), "True");
  EXPECT_EQ(to_string(Attribute(std::string("SAME"))), "SAME");
  EXPECT_EQ(to_string(Attribute(std::vector<bool>{true, false})), "[True, False]");
  EXPECT_EQ(to_string(Attribute(std::vector<std::string>{"a", "b"})), "['a', 'b']");
  EXPECT_EQ(to_string(Attribute(std::vector<float>{1, 0.5f})), "[1.0, 0.5]");
  EXPECT_EQ(to_string(Attribute(BlockRef{2})), "block[2]");
  EXPECT_EQ(to_string(Attribute(BlockRefs{{1, 2}})), "blocks[1, 2]");
  EXPECT_EQ(to_string(Attribute(VarRef{"v"})), "Var['v']");
  EXPECT_EQ(to_string(Attribute(VarRefs{{"v", "w"}})), "Vars['v','w']");
}

TEST(Attribute, TypesHaveTheFormatsNumbers) {
  EXPECT_EQ(type_of(Attribute(int64_t{1})), AttrType::int64);
  EXPECT_EQ(Attribute(int64_t{1}).index(), 9u);
  EXPECT_EQ(Attribute(2.0).index(), 15u);
  EXPECT_EQ(name_of(AttrType::longs), "longs");
}

TEST(Attribute, ConvertsNumbersThatFit) {
  EXPECT_EQ(attr_as<int64_t>(Attribute(3), "a"), 3);
  EXPECT_EQ(attr_as<int32_t>(Attribute(int64_t{3}), "a"), 3);
  EXPECT_EQ(attr_as<float>(Attribute(3), "a"), 3.0f);
  EXPECT_EQ(attr_as<float>(Attribute(0.1), "a"), 0.1f);
  EXPECT_EQ(attr_as<int32_t>(Attribute(4.0f), "a"), 4);
  EXPECT_EQ(attr_as<bool>(Attribute(1), "a"), true);
  EXPECT_EQ(attr_as<int32_t>(Attribute(true), "a"), 1);
  EXPECT_EQ(attr_as<std::vector<int64_t>>(Attribute(std::vector<int32_t>{1, 2}), "a"),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(attr_as<std::vector<float>>(Attribute(std::vector<int32_t>{1, 2}), "a"),
            (std::vector<float>{1, 2}));
  EXPECT_EQ(attr_as<std::vector<std::string>>(Attribute(std::vector<int32_t>{}), "a"),
            std::vector<std::string>{});
}

TEST(Attribute, RefusesToLoseInformation) {
  EXPECT_THROW(attr_as<int32_t>(Attribute(int64_t{1} << 40), "a"), Error);
  EXPECT_THROW(attr_as<int32_t>(Attribute(0.5f), "a"), Error);
  EXPECT_THROW(attr_as<int32_t>(Attribute(2147483648.0), "a"), Error);
  EXPECT_THROW(attr_as<int64_t>(Attribute(9223372036854775808.0), "a"), Error);
  EXPECT_THROW(attr_as<float>(Attribute((int32_t{1} << 24) + 1), "a"), Error);
  EXPECT_THROW(attr_as<float>(Attribute(1e300), "a"), Error);
  EXPECT_THROW(attr_as<bool>(Attribute(2), "a"), Error);
  EXPECT_THROW(attr_as<std::string>(Attribute(2), "a"), Error);
  EXPECT_THAT(error_of([] { attr_as<int32_t>(Attribute(0.5f), "axis"); }),
              HasSubstr("attribute axis must be int but got float 0.5"));
}

}  // namespace
}  // namespace trireme
