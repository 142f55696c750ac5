// Folded constants are the bits that a step would compute.
#include <gtest/gtest.h>

#include <cmath>

#include "compile/graph_check.h"
#include "compile/passes.h"

namespace trireme::testing {
namespace {

int constant_of(Graph& graph, double value, DType dtype) {
  return graph.emit("p.constant", {},
                    {{"value", value}, {"dtype", static_cast<int32_t>(dtype)}})[0];
}

const Node& maker(const Graph& graph, int value) { return graph.nodes[graph.values[value].node]; }

TEST(FoldConstants, DoesWhatAStepWouldDoToTheBit) {
  Graph graph;
  const int one = constant_of(graph, 1, DType::float32),
            beta = constant_of(graph, 0.999, DType::float32);
  const int rest = graph.emit("p.sub", {one, beta}, {})[0];
  const int root = graph.emit("p.sqrt", {rest}, {})[0];
  graph.fetches = {{"root", root}};
  EXPECT_TRUE(fold_constants(graph, cpu_target()));
  check_graph(graph, "fold_constants");
  ASSERT_EQ(maker(graph, root).schema->type(), "p.constant");
  EXPECT_EQ(attr_as<double>(maker(graph, root).attrs->at("value"), "value"),
            static_cast<double>(std::sqrt(1.0f - 0.999f)));
  EXPECT_TRUE(prune_unobservable(graph, cpu_target()));
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_FALSE(fold_constants(graph, cpu_target()));
}

TEST(FoldConstants, LeavesWhatIsFedAndWhatIsNotFloat32) {
  Graph graph;
  const int fed = graph.add_value({.shape = {Dim(), 3}});
  graph.feeds = {{"x", fed}};
  const int one = constant_of(graph, 1, DType::float32),
            wide = constant_of(graph, 1, DType::float64);
  const int sum = graph.emit("p.add", {fed, one}, {})[0];
  const int twice = graph.emit("p.add", {wide, wide}, {})[0];
  graph.fetches = {{"sum", sum}, {"twice", twice}};
  EXPECT_FALSE(fold_constants(graph, cpu_target()));
  EXPECT_EQ(maker(graph, sum).schema->type(), "p.add");
  EXPECT_EQ(maker(graph, twice).schema->type(), "p.add");
}

}  // namespace
}  // namespace trireme::testing
