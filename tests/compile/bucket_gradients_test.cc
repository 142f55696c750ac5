// Which gradients are summed together, and when what goes to other processes leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/data_parallel.h"
#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

// Five layers with a megabyte of weights each.
std::unique_ptr<Plan> plan_of(bool others) {
  const auto main = Program::create(), startup = Program::create();
  {
    const ProgramGuard guard(main, startup);
    Var* hidden = &layers::data("x", {512});
    for (int i = 0; i < 5; ++i) hidden = &layers::fc(*hidden, {.size = 512, .act = "tanh"});
    optimizer::Sgd(0.1).minimize(layers::mean(*hidden));
  }
  Graph graph = lower(*main, {.feeds = {{"x", {.shape = {8, 512}}}}});
  make_replica(graph, LossGradient::weighted, others);
  run_passes(graph, cpu_target(), {});
  return make_plan(std::move(graph), cpu_target());
}

const Node& node_of(const Plan& plan, size_t instruction) {
  return plan.graph.nodes[static_cast<size_t>(plan.instructions[instruction].node)];
}

std::vector<size_t> sums_of(const Plan& plan) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Node& node = node_of(plan, i);
    if (node.schema->type() == "p.sum_gradients" && !node.ins.empty()) found.push_back(i);
  }
  return found;
}

int64_t bytes_of(const Plan& plan, size_t instruction) {
  int64_t bytes = 0;
  for (int value : node_of(plan, instruction).ins) {
    bytes += plan.graph.values[static_cast<size_t>(value)].info.shape.count() * 4;
  }
  return bytes;
}

TEST(BucketGradients, ReplicasOfOneProcessSumAllAtOnce) {
  const auto plan = plan_of(false);
  const auto sums = sums_of(*plan);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_FALSE(plan->instructions[sums[0]].goes_on);
  EXPECT_EQ(plan->buckets.size(), 1u);
}

TEST(BucketGradients, WhatGoesToOtherProcessesLeavesWhileTheBackwardPartRuns) {
  const auto plan = plan_of(true);
  const auto sums = sums_of(*plan);
  ASSERT_EQ(sums.size(), 2u);  // a megabyte, which comes first, and the other four
  EXPECT_LT(bytes_of(*plan, sums[0]), 2 << 20);
  EXPECT_GT(bytes_of(*plan, sums[1]), 4 << 20);
  EXPECT_EQ(plan->buckets.size(), 2u);
  size_t products = 0;  // that the first does not wait for
  for (size_t i = sums[0] + 1; i < sums[1]; ++i) {
    products += node_of(*plan, i).schema->type().find("mul") != std::string::npos;
    EXPECT_TRUE(plan->instructions[i].finishes.empty());
  }
  EXPECT_GE(products, 4u);
  for (const size_t sum : sums) EXPECT_TRUE(plan->instructions[sum].goes_on);
  std::vector<int> finished;
  for (const Instruction& each : plan->instructions) {
    finished.insert(finished.end(), each.finishes.begin(), each.finishes.end());
  }
  EXPECT_EQ(finished.size(), 2u);
}

TEST(BucketGradients, TheCheckerFindsWhoUsesWhatStillTravels) {
  const auto plan = plan_of(true);
  check_plan(*plan);
  for (Instruction& each : plan->instructions) each.finishes.clear();
  EXPECT_THAT(error_of([&] { check_plan(*plan); }), HasSubstr("still exchanges it"));
}

}  // namespace
}  // namespace trireme::testing
