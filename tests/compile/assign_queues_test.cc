// Queues of a plan with two memories: who waits, and how long memory is kept for a late reader.
#include "compile/assign_queues.h"

#include <gmock/gmock.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// a = -x and b = exp(x) on the host; both go up; the device adds them; the sum comes down.
struct TwoMemories {
  std::unique_ptr<Plan> plan;
  int a = 0, b = 0;

  explicit TwoMemories(bool copy_queues = true) {
    Graph graph;
    ValueInfo info;
    info.name = "x";
    info.shape = {64};
    const int x = graph.add_value(info);
    graph.feeds.push_back({"x", x});
    a = graph.emit("p.neg", {x}, {}).front();
    const int up_a = graph.emit("p.upload", {a}, {}).front();
    b = graph.emit("p.exp", {x}, {}).front();
    const int up_b = graph.emit("p.upload", {b}, {}).front();
    const int sum = graph.emit("p.add", {up_a, up_b}, {}).front();
    const int down = graph.emit("p.download", {sum}, {}).front();
    graph.fetches.push_back({"sum", down});
    for (int value : {up_a, up_b, sum}) graph.values[value].on_device = true;
    graph.nodes[graph.values[sum].node].on_device = true;
    Target target = cpu_target();
    target.copy_queues = copy_queues;
    plan = make_plan(std::move(graph), target);
  }
  Lifetime& life(int value) { return plan->lifetimes[plan->slot_of[value]]; }
};

TEST(AssignQueues, QueuesWaitForEachOther) {
  const TwoMemories made;
  const auto& list = made.plan->instructions;
  EXPECT_EQ(list[0].runner, Runner::host);
  EXPECT_EQ(list[1].runner, Runner::upload);
  EXPECT_EQ(list[4].runner, Runner::compute);
  EXPECT_EQ(list[5].runner, Runner::download);
  EXPECT_THAT(list[1].waits, ElementsAre());   // the host was done before it came
  EXPECT_THAT(list[4].waits, ElementsAre(3));  // behind the second upload it is behind the first
  EXPECT_THAT(list[5].waits, ElementsAre(4));
}

TEST(AssignQueues, CopiesWithoutQueuesOfTheirOwnGoWithTheKernels) {
  const TwoMemories made(/*copy_queues=*/false);
  for (size_t i : {size_t{1}, size_t{3}, size_t{4}, size_t{5}}) {
    EXPECT_EQ(made.plan->instructions[i].runner, Runner::compute) << i;
    EXPECT_THAT(made.plan->instructions[i].waits, ElementsAre()) << i;
  }
  check_order(*made.plan);
}

// The host writes b while a may still be on its way up.
TEST(AssignQueues, WhatIsReadLaterLivesUntilItIsRead) {
  TwoMemories made;
  EXPECT_GE(made.life(made.a).last, 2);
  const Lifetime right = made.life(made.a);
  made.life(made.a).last = 1;  // its last use in the order of the list
  EXPECT_THAT(error_of([&] { check_order(*made.plan); }), HasSubstr("may take its memory"));
  made.life(made.a) = right;
  check_order(*made.plan);
}

TEST(AssignQueues, AMissingWaitIsFound) {
  TwoMemories made;
  made.plan->instructions[4].waits.clear();
  EXPECT_THAT(error_of([&] { check_order(*made.plan); }), HasSubstr("no wait orders them"));
}

TEST(AssignQueues, AWaitForSomebodyWhoDoesNotSignalIsFound) {
  TwoMemories made;
  made.plan->instructions[3].signals = false;
  EXPECT_THAT(error_of([&] { check_order(*made.plan); }), HasSubstr("never signals"));
}

}  // namespace
}  // namespace trireme::testing
