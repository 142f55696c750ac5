// JSON that may stand inside a page.
#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace trireme {
namespace {

TEST(Json, PutsCommasWhereTheyBelong) {
  JsonWriter out;
  out.object().field("a", 1).field("b", true).key("c").array().value(0.5).null().end_array();
  out.key("d").object().end_object().list("e", std::vector<int>{1, 2}).field("f", "text");
  EXPECT_EQ(out.end_object().text(),
            R"({"a":1,"b":true,"c":[0.5,null],"d":{},"e":[1,2],"f":"text"})");
}

TEST(Json, WritesNothingThatEndsAScript) {
  JsonWriter out;
  out.value("</script> & \"\\\n\x01");
  EXPECT_EQ(out.text(), R"("\u003c/script> \u0026 \"\\\u000a\u0001")");
}

TEST(Json, KeepsUtf8AndReplacesWhatIsNone) {
  JsonWriter out;
  const std::string bad = std::string("\xff") + "a\xc3" + "\xed\xa0\x80" + "\xc0\xaf";
  out.array().value("\xc3\xa9\xf0\x9f\x9a\xa3").value(bad).end_array();
  EXPECT_EQ(out.text(),
            "[\"\xc3\xa9\xf0\x9f\x9a\xa3\",\"\\ufffda\\ufffd\\ufffd\\ufffd\\ufffd"
            "\\ufffd\\ufffd\"]");
}

TEST(Json, HasNoNumberForWhatIsNone) {
  JsonWriter out;
  out.array().value(NAN).value(INFINITY).value(-1.5e300).end_array();
  EXPECT_EQ(out.text(), "[null,null,-1.5e+300]");
}

}  // namespace
}  // namespace trireme
