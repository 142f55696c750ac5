// memory_optimize and release_memory: which names are shared, and that numbers never change.
#include "transpiler/memory_optimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/executor.h"
#include "tests/layers/build.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> a -> b -> c -> d ..., one op each, with these widths.
struct Chain {
  std::shared_ptr<Program> program = Program::create();
  explicit Chain(const std::vector<int64_t>& widths) {
    Block& block = program->global_block();
    block.create_var({.name = "x", .shape = {Dim(), 10}, .is_data = true});
    std::string from = "x";
    char name = 'a';
    for (const int64_t width : widths) {
      const std::string to(1, name++);
      block.create_var({.name = to, .shape = {Dim(), width}});
      block.insert_raw_op(block.size(), {"scale", {{"X", {from}}}, {{"Out", {to}}}, {}});
      from = to;
    }
  }
  std::string names() const {
    std::string text;
    for (const Op* op : program->global_block().ops()) text += op->output("Out").front();
    return text;
  }
};

TEST(MemoryOptimize, AChainTakesTwoNames) {
  Chain chain({10, 10, 10, 10});
  std::vector<std::string> log;
  memory_optimize(*chain.program, {.print_log = true,
                                   .print = [&](const std::string& line) { log.push_back(line); }});
  EXPECT_EQ(chain.names(), "abab");
  EXPECT_THAT(log, ElementsAre("!!! 0,  c[-1, 10] => a[-1, 10], cache idx 0, pool size 1",
                               "!!! 1,  d[-1, 10] => b[-1, 10], cache idx 0, pool size 1"));
  EXPECT_TRUE(chain.program->memory_optimized);
}

TEST(MemoryOptimize, SkippedNamesStay) {
  Chain chain({10, 10, 10, 10});
  memory_optimize(*chain.program, {.skip_opt_set = {"a"}});
  EXPECT_EQ(chain.names(), "abcb");
}

// All of one shape: what is fed, kept between runs, or read before this run writes it keeps its
// name and takes nobody else's.
TEST(MemoryOptimize, WhatOthersCountOnKeepsItsName) {
  Chain chain({10, 10, 10, 10, 10, 10});
  Block& block = chain.program->global_block();
  block.var("b").set_persistable(true);
  block.create_var({.name = "last", .shape = {Dim(), 10}});
  block.insert_raw_op(0, {"scale", {{"X", {"d"}}}, {{"Out", {"last"}}}, {}});
  memory_optimize(*chain.program, {.level = 1});
  const auto ops = block.ops();
  EXPECT_EQ(ops[1]->input("X").front(), "x");
  EXPECT_EQ(ops[2]->output("Out").front(), "b");
  EXPECT_EQ(ops[4]->output("Out").front(), "d");
  int others = 0;
  for (const Op* op : ops) {
    for (const auto& [now, own] : op->former_names) {
      EXPECT_THAT((std::set<std::string>{"x", "b", "d"}), ::testing::Not(::testing::Contains(now)));
      ++others;
    }
  }
  EXPECT_GT(others, 0);
}

TEST(MemoryOptimize, LevelOnePutsSmallIntoLarge) {
  Chain equal({40, 20, 5, 15, 30});
  memory_optimize(*equal.program);
  EXPECT_EQ(equal.names(), "abcde");
  Chain fitting({40, 20, 5, 15, 30});
  memory_optimize(*fitting.program, {.level = 1});
  EXPECT_EQ(fitting.names(), "ababa");
}

TEST(MemoryOptimize, OtherLevelsAreRefused) {
  Chain chain({10});
  EXPECT_THAT(error_of([&] { memory_optimize(*chain.program, {.level = 2}); }),
              HasSubstr("level is 2 but only 0 and 1 are allowed"));
}

TEST(ReleaseMemory, DeletesBehindTheLastUse) {
  auto program = Program::create();
  Block& block = program->global_block();
  for (const char* name : {"x", "a", "b", "c", "d"}) {
    block.create_var({.name = name, .shape = {4, 4}, .is_data = name == std::string("x")});
  }
  block.create_var({.name = "w", .shape = {4, 4}, .persistable = true});
  const auto add = [&](const char* x, const char* y, const char* out) {
    block.append_op({"elementwise_add", {{"X", {x}}, {"Y", {y}}}, {{"Out", {out}}}, {}});
  };
  add("x", "w", "a");
  block.append_op({"relu", {{"X", {"a"}}}, {{"Out", {"b"}}}, {}});
  add("a", "b", "c");
  block.append_op({"relu", {{"X", {"c"}}}, {{"Out", {"d"}}}, {}});
  release_memory(*program);
  EXPECT_EQ(ops_of(block),
            "elementwise_add(x, w) -> a; delete_var(x) -> ; relu(a) -> b; elementwise_add(a, b) -> "
            "c; delete_var(a, b) -> ; relu(c) -> d; delete_var(c) -> ");
}

TEST(ReleaseMemory, ReadingADeletedVariableIsAnErrorAndFetchingItIsNot) {
  Chain chain({10, 10});
  Block& block = chain.program->global_block();
  release_memory(*chain.program);
  Executor executor;
  Scope scope;
  const Tensor x = filled(DType::float32, {2, 10}, 3);
  const Tensor a = executor.run_one(*chain.program, {{"x", x}}, "a", {.scope = &scope});
  EXPECT_EQ(*a.data<float>(), 3.0f);
  block.create_var({.name = "late", .shape = {Dim(), 10}});
  block.append_op({"scale", {{"X", {"a"}}}, {{"Out", {"late"}}}, {}});
  EXPECT_THAT(error_of([&] {
                executor.run(*chain.program, {{"x", x}}, {"late"}, {.scope = &scope});
              }),
              HasSubstr("it reads a, which delete_var has ended"));
}

TEST(MemoryOptimize, AFetchWithPruneFindsARenamedVariable) {
  Chain chain({10, 10, 10, 10});
  Block& block = chain.program->global_block();
  for (size_t i = 0; i < block.size(); ++i) block.op(i).set_attr("scale", 2.0f);
  memory_optimize(*chain.program);
  Executor executor;
  Scope scope;
  const Feeds feeds = {{"x", filled(DType::float32, {1, 10}, 1)}};
  float expected = 2;
  for (const char* name : {"a", "b", "c", "d"}) {
    for (const bool prune : {false, true}) {
      RunOptions options{.scope = &scope};
      options.use_prune = prune;
      EXPECT_EQ(*executor.run_one(*chain.program, feeds, name, options).data<float>(), expected);
    }
    expected *= 2;
  }
}

TEST(MemoryOptimize, ASavedProgramStillKnowsItsVariables) {
  Chain chain({10, 10, 10, 10});
  Block& block = chain.program->global_block();
  for (size_t i = 0; i < block.size(); ++i) block.op(i).set_attr("scale", 2.0f);
  memory_optimize(*chain.program);
  const std::string bytes = serialize(*chain.program);
  const auto loaded = parse_program(bytes);
  EXPECT_EQ(serialize(*loaded), bytes);
  EXPECT_FALSE(loaded->global_block().op(3).has_attr("former_names"));
  loaded->global_block().var("x").set_is_data(true);
  Executor executor;
  Scope scope;
  float expected = 2;
  for (const char* name : {"a", "b", "c", "d"}) {
    const Feeds feeds = {{"x", filled(DType::float32, {1, 10}, 1)}};
    EXPECT_EQ(*executor.run_one(*loaded, feeds, name, {.scope = &scope}).data<float>(), expected);
    expected *= 2;
  }
}

}  // namespace
}  // namespace trireme::testing
