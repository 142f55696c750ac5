// The graph checker passes sound graphs and names what is wrong with others.
#include "compile/graph_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "layers/layers.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

Graph small() {
  const auto main = Program::create(), startup = Program::create();
  ProgramGuard guard(main, startup);
  Var& y = layers::mean(layers::relu(layers::data("x", {4})));
  return lower(*main, {.feeds = {{"x", {.shape = {Dim(), 4}}}}, .fetches = {y.name()}});
}

TEST(GraphCheck, ASoundGraphPasses) { EXPECT_NO_THROW(check_graph(small(), "here")); }

TEST(GraphCheck, AValueReadTooEarlyIsFound) {
  Graph graph = small();
  std::swap(graph.nodes.front(), graph.nodes.back());
  EXPECT_THAT(error_of([&] { check_graph(graph, "some pass"); }), HasSubstr("some pass: "));
}

TEST(GraphCheck, AValueThatNobodyWritesIsFound) {
  Graph graph = small();
  graph.nodes.pop_back();
  EXPECT_THAT(error_of([&] { check_graph(graph, "here"); }), HasSubstr("which nobody writes"));
}

TEST(GraphCheck, AShapeThatTheRowWouldNotGiveIsFound) {
  Graph graph = small();
  graph.values[graph.nodes.back().outs[0]].info.shape = Shape{7};
  EXPECT_THAT(error_of([&] { check_graph(graph, "here"); }), HasSubstr("the shape"));
}

}  // namespace
}  // namespace trireme::testing
