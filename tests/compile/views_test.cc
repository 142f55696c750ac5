// Results in the place of an operand: which take it, and that a wrong one is found.
#include "compile/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "compile/passes.h"
#include "core/text.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

// s = softmax(x); r = s as a row; t = tanh(relu(r)), one fused node; last = softmax(t).
struct PlacedChain {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  std::unique_ptr<Plan> plan;

  explicit PlacedChain(const std::vector<std::string>& fetches, const std::string& also_read = "") {
    block.create_var({.name = "x", .shape = {4, 3}, .is_data = true});
    add("softmax", "x", "s");
    add("reshape", "s", "r", {{"shape", std::vector<int32_t>{1, 12}}});
    add("relu", "r", "positive");
    add("tanh", "positive", "t");
    add("softmax", "t", "last");
    if (!also_read.empty()) add("softmax", also_read, "more");
    Graph graph = lower(*program, {.feeds = {{"x", {.shape = {4, 3}}}}, .fetches = fetches});
    prune_unobservable(graph, cpu_target());
    fuse_elementwise(graph, cpu_target());
    plan = make_plan(std::move(graph), cpu_target());
  }
  void add(const std::string& type, const std::string& in, const std::string& out,
           Attrs attrs = {}) {
    block.create_var({.name = out, .has_shape = false});
    block.append_op({type, {{"X", {in}}}, {{"Out", {out}}}, std::move(attrs)});
  }
  int slot(const std::string& name) const {
    for (size_t v = 0; v < plan->graph.values.size(); ++v) {
      if (plan->graph.values[v].info.name == name) return plan->slot_of[v];
    }
    throw InternalError(cat("no value ", name));
  }
  std::vector<int> roots() const {
    std::vector<ValueInfo> facts;
    for (const Value& value : plan->graph.values) facts.push_back(value.info);
    return alias_roots(*plan, {0, 1}, facts);
  }
};

TEST(Views, ARenamedResultAndThenAFusedOneStandWhereTheFirstStood) {
  const PlacedChain chain({"last"});
  const std::vector<int> roots = chain.roots();
  EXPECT_EQ(roots[chain.slot("r")], chain.slot("s"));
  EXPECT_EQ(roots[chain.slot("t")], chain.slot("s"));
  EXPECT_NO_THROW(check_aliases(*chain.plan, {0, 1}, roots));
}

TEST(Views, WhatIsReadLaterIsNotOverwritten) {
  // Under its own name and under the other.
  for (const char* name : {"s", "r"}) {
    const PlacedChain chain({"last", "more"}, name);
    const std::vector<int> roots = chain.roots();
    EXPECT_EQ(roots[chain.slot("r")], chain.slot("s"));
    EXPECT_EQ(roots[chain.slot("t")], chain.slot("t"));
    EXPECT_NO_THROW(check_aliases(*chain.plan, {0, 1}, roots));
  }
}

TEST(Views, TheCheckFindsAPlaceThatIsOverwrittenTooEarly) {
  const PlacedChain chain({"last", "more"}, "s");
  std::vector<int> roots = chain.roots();
  roots[chain.slot("t")] = chain.slot("s");
  EXPECT_THAT(error_of([&] {
                check_aliases(*chain.plan, {0, 1}, roots);
              }),
              HasSubstr("does not hold it any more"));
}

TEST(Views, TheCheckFindsAPlaceThatIsOverwrittenBeforeTheEnd) {
  const PlacedChain chain({"last"});
  const std::vector<int> roots = chain.roots();
  for (size_t v = 0; v < chain.plan->graph.values.size(); ++v) {
    if (chain.plan->graph.values[v].info.name == "s") {
      chain.plan->graph.kept.push_back(static_cast<int>(v));
    }
  }
  EXPECT_THAT(error_of([&] {
                check_aliases(*chain.plan, {0, 1}, roots);
              }),
              HasSubstr("does not hold it at the end"));
}

TEST(Views, GradientsOfRenamingOpsAreViewsToo) {
  const OpSchema& row = op_table().get("reshape2_grad");
  Node node{.schema = &row};
  for (const SlotSpec& slot : row.inputs()) {
    node.in_counts.push_back(1);
    node.ins.push_back(slot.name == "Out@GRAD" ? 7 : 6);
  }
  for (size_t i = 0; i < row.outputs().size(); ++i) {
    node.out_counts.push_back(1);
    node.outs.push_back(8);
  }
  const auto pair = renamed(node);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(node.ins[static_cast<size_t>(pair->first)], 7);
}

}  // namespace
}  // namespace trireme::testing
