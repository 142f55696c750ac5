// What may be left out of a plan and what may be done once: ops that complain about their data run
// although nobody reads their result, and ops that draw never stand for each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "compile/passes.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

struct Ops {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();

  void add(const std::string& type, const Slots& ins, const std::string& slot,
           const std::string& out, Attrs attrs = {}) {
    block.create_var({.name = out, .has_shape = false});
    block.append_op({type, ins, {{slot, {out}}}, std::move(attrs)});
  }
  int count(const Graph& graph, const std::string& type) const {
    int found = 0;
    for (const Node& node : graph.nodes) found += node.schema->type() == type;
    return found;
  }
};

// p = softmax(x), which is fetched, and a loss that is not; beside it a sum that nobody needs.
struct UnfetchedLoss : Ops {
  UnfetchedLoss() {
    block.create_var({.name = "x", .shape = {2, 3}, .is_data = true});
    block.create_var({.name = "label", .dtype = DType::int64, .shape = {2, 1}, .is_data = true});
    add("softmax", {{"X", {"x"}}}, "Out", "p");
    add("cross_entropy", {{"X", {"p"}}, {"Label", {"label"}}}, "Y", "loss");
    add("reduce_sum", {{"X", {"p"}}}, "Out", "sum");
  }
};

TEST(PruneUnobservable, KeepsWhatMayFailAndNothingElseThatIsUnread) {
  UnfetchedLoss ops;
  Graph graph = lower(*ops.program, {.feeds = {{"x", {.shape = {2, 3}}},
                                               {"label", {.dtype = DType::int64, .shape = {2, 1}}}},
                                     .fetches = {"p"}});
  prune_unobservable(graph, cpu_target());
  EXPECT_EQ(ops.count(graph, "cross_entropy"), 1);
  EXPECT_EQ(ops.count(graph, "reduce_sum"), 0);
}

TEST(PruneUnobservable, ABadLabelIsAnErrorAlthoughItsLossIsNotFetched) {
  UnfetchedLoss ops;
  Executor executor;
  Scope scope;
  const auto run = [&](int64_t label) {
    executor.run(*ops.program,
                 {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"label", longs({2, 1}, {0, label})}},
                 {"p"}, {.scope = &scope});
  };
  EXPECT_NO_THROW(run(2));
  EXPECT_THAT(error_of([&] { run(7); }), HasSubstr("7"));
}

TEST(MergeEqual, DoesTheSameOnceButDrawsAsOftenAsItIsAsked) {
  Ops ops;
  ops.block.create_var({.name = "x", .shape = {4, 50}, .is_data = true});
  const Attrs shape = {{"shape", std::vector<int64_t>{4, 50}}};
  const Attrs half = {{"dropout_prob", 0.5f}};
  for (const char* suffix : {"1", "2"}) {
    const std::string n = suffix;
    ops.add("softmax", {{"X", {"x"}}}, "Out", "softmax" + n);
    ops.add("uniform_random", {}, "Out", "uniform" + n, shape);
    ops.block.create_var({.name = "mask" + n, .has_shape = false});
    ops.block.create_var({.name = "dropped" + n, .has_shape = false});
    ops.block.append_op(
        {"dropout", {{"X", {"x"}}}, {{"Out", {"dropped" + n}}, {"Mask", {"mask" + n}}}, half});
  }
  const std::vector<std::string> fetches = {"softmax1", "softmax2", "uniform1",
                                            "uniform2", "dropped1", "dropped2"};
  Graph graph = lower(*ops.program, {.feeds = {{"x", {.shape = {4, 50}}}}, .fetches = fetches});
  merge_equal(graph, cpu_target());
  EXPECT_EQ(ops.count(graph, "softmax"), 1);
  EXPECT_EQ(ops.count(graph, "uniform_random"), 2);
  EXPECT_EQ(ops.count(graph, "dropout"), 2);

  Executor executor;
  Scope scope;
  const auto found = executor.run(*ops.program, {{"x", filled(DType::float32, {4, 50}, 1)}},
                                  fetches, {.scope = &scope});
  EXPECT_EQ(numbers(found[0].tensor()), numbers(found[1].tensor()));
  EXPECT_NE(numbers(found[2].tensor()), numbers(found[3].tensor()));
  EXPECT_NE(numbers(found[4].tensor()), numbers(found[5].tensor()));
}

}  // namespace
}  // namespace trireme::testing
