// The text of errors: what, where, what to do.
#include "core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Error, ShowsWhatWhereAndFixInOrder) {
  Error error("X has 784 columns but Y has 512 rows; they must be equal");
  error.in("mul")
      .operand("X   img_flat   float32 [64, 784]")
      .operand("Y   fc_0.w_0   float32 [512, 10]")
      .at({"train.py", 41, "build_net", "    logits = layers.fc(hidden, size=10)\n"})
      .note("while binding the plan to its feeds")
      .fix("give Y the shape [784, n], or pass the layer an input with 512 columns");
  EXPECT_STREQ(error.what(),
               "ValueError in mul: X has 784 columns but Y has 512 rows; they must be equal\n"
               "  X   img_flat   float32 [64, 784]\n"
               "  Y   fc_0.w_0   float32 [512, 10]\n"
               "  asked for at train.py:41 in build_net\n"
               "      logits = layers.fc(hidden, size=10)\n"
               "  while binding the plan to its feeds\n"
               "  fix: give Y the shape [784, n], or pass the layer an input with 512 columns");
}

TEST(Error, OrderOfCallsDoesNotChangeTheText) {
  Error error("bad axis");
  error.fix("choose 0").at({"a.py", 3, "", ""}).in("softmax");
  EXPECT_STREQ(error.what(),
               "ValueError in softmax: bad axis\n  asked for at a.py:3\n  fix: choose 0");
}

TEST(Error, WithoutAnOpIsOneShortLine) {
  EXPECT_STREQ(Error(ErrorKind::out_of_range, "row 7 of 5").what(), "IndexError: row 7 of 5");
}

TEST(Error, InnerContextWins) {
  Error error("bad");
  error.in("mul").at({"inner.py", 1, "f", ""}).fix("inner advice");
  error.in("while").at({"outer.py", 2, "g", ""}).fix("outer advice");
  EXPECT_STREQ(error.what(),
               "ValueError in mul: bad\n  asked for at inner.py:1 in f\n  fix: inner advice");
  EXPECT_EQ(error.line().file, "inner.py");
}

TEST(Error, AnUnknownLineLeavesRoomForAKnownOne) {
  Error error("bad");
  error.at({}).at({"train.py", 9, "f", ""});
  EXPECT_EQ(error.line().line, 9);
}

TEST(Error, KindsHaveTheirPythonNames) {
  EXPECT_EQ(name_of(ErrorKind::type_mismatch), "TypeError");
  EXPECT_EQ(name_of(ErrorKind::precondition), "RuntimeError");
  EXPECT_EQ(name_of(ErrorKind::resource_exhausted), "MemoryError");
  EXPECT_EQ(name_of(ErrorKind::unimplemented), "NotImplementedError");
  EXPECT_EQ(name_of(ErrorKind::end_of_data), "EOFException");
}

TEST(Error, SurvivesBeingThrownWithContextAdded) {
  try {
    throw Error(ErrorKind::timeout, "no answer").in("recv").fix("start the server");
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "RuntimeError in recv: no answer\n  fix: start the server");
  }
}

TEST(IoError, IsAnOsError) {
  EXPECT_STREQ(IoError("cannot open 'w'").what(), "OSError: cannot open 'w'");
}

TEST(InternalError, NamesOurFileAndAsksForAReport) {
  const InternalError error("lost a step");
  EXPECT_THAT(error.what(), StartsWith("SystemError: lost a step"));
  EXPECT_THAT(error.what(), HasSubstr("error_test.cc:"));
  EXPECT_THAT(error.what(), HasSubstr("please report"));
}

TEST(Promise, ThrowsOnlyWhenBroken) {
  EXPECT_NO_THROW(promise(true, "one is one"));
  EXPECT_THROW(promise(false, "one is two"), InternalError);
}

TEST(SourceLine, HereIsTheCallersLine) {
  const SourceLine line = SourceLine::here();
  EXPECT_THAT(line.file, HasSubstr("error_test.cc"));
  EXPECT_TRUE(line.known());
  EXPECT_FALSE(SourceLine{}.known());
}

}  // namespace
}  // namespace trireme
