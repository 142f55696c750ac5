// What passes make of a graph, as differences.
#include "compile/graph_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/graph_check.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// x -> neg -> neg -> add with x.
Graph chain() {
  Graph graph;
  const int x = graph.add_value({.shape = {Dim(), 3}, .name = "x"});
  graph.feeds = {{"x", x}};
  const int twice = graph.emit("p.neg", {graph.emit("p.neg", {x}, {})[0]}, {})[0];
  graph.fetches = {{"sum", graph.emit("p.add", {twice, x}, {})[0]}};
  return graph;
}

std::string written(const GraphSteps& steps) {
  JsonWriter out;
  steps.write(out);
  return out.text();
}

TEST(GraphSteps, ANodeThatStaysKeepsItsNumber) {
  Graph graph = chain();
  LineTable lines;
  GraphSteps steps(lines);
  steps.take("lowered", graph);
  EXPECT_EQ(steps.id(0, 2), 2);
  graph.keep_nodes({true, false, true});
  steps.take("dropped", graph);
  ASSERT_EQ(steps.size(0), 2u);
  EXPECT_EQ(steps.id(0, 0), 0);
  EXPECT_EQ(steps.id(0, 1), 2);
  EXPECT_THAT(written(steps), HasSubstr(R"("order":[[0,1],[2,1]])"));
}

TEST(GraphSteps, ANodeThatIsChangedIsAnother) {
  Graph graph = chain();
  LineTable lines;
  GraphSteps steps(lines);
  steps.take("lowered", graph);
  graph.nodes[2].ins = {graph.feeds[0].value, graph.feeds[0].value};
  steps.take("changed", graph);
  EXPECT_EQ(steps.id(0, 1), 1);
  EXPECT_EQ(steps.id(0, 2), 3);
}

TEST(GraphSteps, AStepThatChangesNothingIsSmall) {
  Graph graph = chain();
  LineTable lines;
  GraphSteps steps(lines);
  steps.take("lowered", graph);
  const size_t before = written(steps).size();
  steps.take("idle", graph);
  EXPECT_THAT(written(steps), HasSubstr(R"("name":"idle","nodes":3)"));
  EXPECT_LT(written(steps).size(), before + 100);
}

TEST(GraphSteps, EqualNodesAreTwo) {
  Graph graph = chain();
  graph.nodes[1].ins = graph.nodes[0].ins;
  graph.nodes[1].outs = graph.nodes[0].outs;
  LineTable lines;
  GraphSteps steps(lines);
  steps.take("lowered", graph);
  steps.take("again", graph);
  EXPECT_NE(steps.id(0, 0), steps.id(0, 1));
  EXPECT_THAT(written(steps), Not(HasSubstr(R"([3,)")));  // nothing is new
}

}  // namespace
}  // namespace trireme
