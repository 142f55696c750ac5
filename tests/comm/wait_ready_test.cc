// Waiting for other processes: who is not there is named.
#include "comm/wait_ready.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/layers/build.h"
#include "tests/support/listener.h"

namespace trireme::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WaitServerReady, ReturnsWhenAllListenAndNamesThoseThatDoNot) {
  const Listener up, down(Listener::Start::later);
  EXPECT_EQ(error_of([&] { wait_server_ready({up.endpoint()}); }), "no error");
  const std::string what = error_of([&] {
    wait_server_ready({up.endpoint(), down.endpoint()}, milliseconds(300));
  });
  EXPECT_THAT(what, AllOf(HasSubstr("after 0.3 s"), HasSubstr("connections: " + down.endpoint()),
                          HasSubstr("wait_port=False"), HasSubstr("FLAGS_rpc_deadline")));
  EXPECT_THAT(what, Not(HasSubstr(up.endpoint())));
}

TEST(WaitServerReady, NamesAllThatAreMissing) {
  const Listener one(Listener::Start::later), two(Listener::Start::later);
  EXPECT_THAT(error_of([&] {
                wait_server_ready({one.endpoint(), two.endpoint()}, milliseconds(1));
              }),
              HasSubstr(one.endpoint() + ", " + two.endpoint()));
}

TEST(WaitServerReady, SeesWhoComesLate) {
  Listener late(Listener::Start::later);
  int tries = 0;
  wait_server_ready({late.endpoint()}, kReadyLimit, [&] {
    if (++tries == 2) late.listen();
  });
  EXPECT_GE(tries, 2);
}

TEST(WaitServerReady, CanBeEnded) {
  const Listener down(Listener::Start::later);
  EXPECT_THAT(error_of([&] {
                wait_server_ready({down.endpoint()}, kNoReadyLimit,
                                  [] { throw Error("that is enough"); });
              }),
              HasSubstr("that is enough"));
}

TEST(WaitServerReady, TakesEndpointsOnly) {
  EXPECT_THAT(error_of([] { wait_server_ready({"nowhere"}); }),
              HasSubstr("'nowhere' is not of the form ip:port"));
  EXPECT_THAT(error_of([] { wait_server_ready({}); }), HasSubstr("it names no endpoint"));
}

// What documents say.
static_assert(kReadyLimit == std::chrono::seconds(180));

}  // namespace
}  // namespace trireme::testing
