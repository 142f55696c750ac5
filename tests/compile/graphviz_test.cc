// Drawings of programs and plans show what they should.
#include "compile/graphviz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compile/lower.h"
#include "core/file.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/compiled_program.h"
#include "tests/support/op_runner.h"
#include "tests/support/temp_dir.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Branching {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::string loss;

  Branching() {
    ProgramGuard guard(main, startup);
    Var& x = layers::data("x", {4});
    Var& yes = layers::fill_constant({1}, DType::boolean, 1);
    const auto same = [&] { return std::vector<Var*>{&layers::scale(x, {.scale = 1})}; };
    const auto twice = [&] { return std::vector<Var*>{&layers::scale(x, {.scale = 2})}; };
    Var& either = *layers::cond(yes, same, twice).at(0);
    Var& mean = layers::mean(layers::fc(either, {.size = 3}));
    loss = mean.name();
    optimizer::Sgd(0.1).minimize(mean);
  }
};

TEST(Graphviz, ShowsFeedsStatesLinesAndSubBlocks) {
  const Branching net;
  const Graph graph =
      lower(*net.main, {.feeds = {{"x", {.shape = {Dim(), 4}}}}, .fetches = {net.loss}});
  EXPECT_THAT(to_dot(graph, "net"),
              AllOf(HasSubstr("digraph \"net\""), HasSubstr("feed x"), HasSubstr("fc_0.w_0"),
                    HasSubstr("graphviz_test.cc:"), HasSubstr("subgraph \"cluster_"),
                    HasSubstr("fetch " + net.loss)));
}

TEST(Graphviz, ACompiledProgramDrawsItselfBeforeAndAfter) {
  const TempDir dir;
  const Branching net;
  BuildStrategy build;
  build.debug_graphviz_path = dir / "net";
  CompiledProgram compiled(net.main, build);
  Scope scope;
  Executor executor;
  executor.run(*net.startup, {}, {}, {.scope = &scope});
  compiled.run(executor, Feeds{{"x", floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}}, {net.loss},
               {.scope = &scope});
  const std::string before = read_file(dir / "net_before.dot", 1 << 20);
  const std::string after = read_file(dir / "net_after.dot", 1 << 20);
  EXPECT_NE(before, after);
  if (std::filesystem::exists("/usr/bin/dot")) {
    EXPECT_THAT(read_file(dir / "net_before.svg", 1 << 20), HasSubstr("</svg>"));
  }
  EXPECT_THAT(
      compiled.explain(&executor),
      AllOf(HasSubstr("merge_equal: "), HasSubstr("memory\n  arena "), HasSubstr("kernels\n"),
            HasSubstr("graphviz_test.cc:"), Not(HasSubstr("no plan yet"))));
  EXPECT_THAT(compiled.explain(), Not(HasSubstr("memory\n")));
}

}  // namespace
}  // namespace trireme::testing
