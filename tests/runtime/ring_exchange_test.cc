// What ranks exchange by the rings of a program: numbers, errors, and how it stands in the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "layers/control_flow.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/layers/build.h"
#include "tests/support/op_runner.h"
#include "tests/support/ranks.h"
#include "transpiler/distribute.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using BuildExchange = std::function<std::vector<std::string>(Block&)>;  // returns what is fetched

// Runs the same program on every rank, x being {rank + 1, 10 * (rank + 1)}.
struct Exchange {
  std::vector<std::string> ended;
  std::vector<std::vector<Tensor>> results;  // by rank
};

Exchange run_exchange(int count, const BuildExchange& build, bool met = true) {
  const Ranks ranks = make_ranks(count);
  if (met) meet(ranks, ring_name(0));
  Exchange got{.ended = {}, .results = std::vector<std::vector<Tensor>>(ranks.size())};
  std::vector<std::vector<std::string>> fetches(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    FreshPrograms fresh;  // of the same names on every rank
    ranks[r]->main = fresh.main;
    layers::data("x", {2}, {.append_batch_size = false});
    fetches[r] = build(ranks[r]->main->global_block());
  }
  got.ended = on_each(ranks, [&](Rank& rank, int r) {
    const auto number = static_cast<float>(r + 1);
    for (const Variable& each :
         rank.executor.run(*rank.main, {{"x", floats({2}, {number, 10 * number})}},
                           fetches[static_cast<size_t>(r)], {.scope = &rank.scope})) {
      got.results[static_cast<size_t>(r)].push_back(each.tensor());
    }
  });
  return got;
}

std::string exchange(Block& block, const std::string& type, const std::string& x,
                     const std::string& out, Attrs attrs = {}) {
  if (!block.find_var(out)) block.create_var({.name = out});
  block.append_op({.type = type,
                   .inputs = {{"X", {x}}},
                   .outputs = {{"Out", {out}}},
                   .attrs = std::move(attrs)});
  return out;
}

TEST(Exchanges, EveryKindGivesItsNumbersOnAllRanks) {
  const Exchange got = run_exchange(3, [](Block& block) -> std::vector<std::string> {
    return {exchange(block, "c_allreduce_sum", "x", "sum"),
            exchange(block, "c_allreduce_max", "x", "max"),
            exchange(block, "c_allreduce_min", "x", "min"),
            exchange(block, "c_allreduce_prod", "x", "prod"),
            exchange(block, "c_broadcast", "x", "of_1", {{"root", int32_t{1}}}),
            exchange(block, "c_allgather", "x", "all", {{"nranks", int32_t{3}}}),
            exchange(block, "barrier", "x", "same")};
  });
  ASSERT_EQ(got.ended, std::vector<std::string>(3));
  for (size_t r = 0; r < 3; ++r) {
    const auto& of = got.results[r];
    EXPECT_EQ(numbers(of[0]), (std::vector<double>{6, 60}));
    EXPECT_EQ(numbers(of[1]), (std::vector<double>{3, 30}));
    EXPECT_EQ(numbers(of[2]), (std::vector<double>{1, 10}));
    EXPECT_EQ(numbers(of[3]), (std::vector<double>{6, 6000}));
    EXPECT_EQ(numbers(of[4]), (std::vector<double>{2, 20}));
    EXPECT_EQ(of[5].shape(), (Shape{6}));
    EXPECT_EQ(numbers(of[5]), (std::vector<double>{1, 10, 2, 20, 3, 30}));
    const double own = static_cast<double>(r + 1);
    EXPECT_EQ(numbers(of[6]), (std::vector<double>{own, 10 * own}));
  }
}

// What is read again keeps its value, however the sums go together.
TEST(Exchanges, WhatIsSummedMayBeReadBeforeAndAfter) {
  const Exchange got = run_exchange(2, [](Block& block) -> std::vector<std::string> {
    Var& x = block.var("x");
    Var& twice = layers::scale(x, {.scale = 2});
    Var& thrice = layers::scale(x, {.scale = 3});
    const std::string first = exchange(block, "c_allreduce_sum", twice.name(), "first");
    Var& kept = layers::elementwise_add(twice, x);             // reads what was summed
    Var& more = layers::elementwise_add(block.var(first), x);  // reads the sum
    const std::string second = exchange(block, "c_allreduce_sum", thrice.name(), thrice.name());
    const std::string again = exchange(block, "c_allreduce_sum", first, "again");
    return {first, kept.name(), more.name(), second, again};
  });
  ASSERT_EQ(got.ended, std::vector<std::string>(2));
  for (size_t r = 0; r < 2; ++r) {
    const double own = static_cast<double>(r + 1);
    const std::vector<double> firsts{6, 3 * own, 6 + own, 9, 12};
    for (size_t i = 0; i < firsts.size(); ++i) {
      EXPECT_EQ(numbers(got.results[r][i]), (std::vector<double>{firsts[i], 10 * firsts[i]}));
    }
  }
}

TEST(Exchanges, AnExchangeInABranchIsWaitedForThere) {
  const Exchange got = run_exchange(2, [](Block&) -> std::vector<std::string> {
    Var& yes = layers::fill_constant({1}, DType::boolean, 1);
    Var& x = default_main_program().global_block().var("x");
    Var& result = *layers::cond(
                       yes,
                       [&]() -> std::vector<Var*> {
                         Block& inner = default_main_program().current_block();
                         exchange(inner, "c_allreduce_sum", "x", "inner_sum");
                         return {&layers::scale(inner.var("inner_sum"), {.scale = 2})};
                       },
                       [&]() -> std::vector<Var*> { return {&layers::scale(x)}; })
                       .front();
    return {result.name()};
  });
  ASSERT_EQ(got.ended, std::vector<std::string>(2));
  for (const auto& of : got.results) EXPECT_EQ(numbers(of[0]), (std::vector<double>{6, 60}));
}

TEST(Exchanges, ARankThatHasNotMetAnOddRootAndAnotherCountAreErrors) {
  const auto first_error = [](const Exchange& got) { return got.ended.front(); };
  const BuildExchange sum = [](Block& block) -> std::vector<std::string> {
    return {exchange(block, "c_allreduce_sum", "x", "sum")};
  };
  EXPECT_THAT(first_error(run_exchange(1, sum, false)),
              AllOf(HasSubstr("the processes have not met"), HasSubstr("c_allreduce_sum")));
  EXPECT_THAT(first_error(run_exchange(
                  1,
                  [](Block& block) -> std::vector<std::string> {
                    return {exchange(block, "c_broadcast", "x", "of_2", {{"root", int32_t{2}}})};
                  })),
              HasSubstr("root is 2, but there are 1 ranks"));
  EXPECT_THAT(first_error(run_exchange(
                  1,
                  [](Block& block) -> std::vector<std::string> {
                    return {exchange(block, "c_allgather", "x", "all", {{"nranks", int32_t{2}}})};
                  })),
              HasSubstr("nranks is 2, but there are 1 ranks"));
}

// A second startup makes the ranks meet anew; the next run goes to those.
TEST(Exchanges, TheRingIsTheOneThatTheScopeHoldsNow) {
  const Ranks ranks = make_ranks(2);
  for (const auto& rank : ranks) {
    const ProgramGuard guard(rank->main, rank->startup);
    layers::data("x", {2}, {.append_batch_size = false});
    exchange(rank->main->global_block(), "c_allreduce_sum", "x", "sum");
  }
  const auto run_all = [&] {
    return on_each(ranks, [](Rank& rank, int) {
      const Tensor sum = rank.executor.run_one(*rank.main, {{"x", floats({2}, {1, 2})}}, "sum",
                                               {.scope = &rank.scope});
      EXPECT_EQ(numbers(sum), (std::vector<double>{2, 4}));
    });
  };
  meet(ranks, ring_name(0));
  EXPECT_EQ(run_all(), all_went_well(ranks));
  meet(ranks, ring_name(0));
  EXPECT_EQ(run_all(), all_went_well(ranks));
  EXPECT_EQ(ranks[0]->executor.counters().compiles, 1u);
}

TEST(Exchanges, ProgramsThatExchangeByThemselvesRunOnOneDeviceOfAProcess) {
  const Ranks ranks = make_ranks(1);
  const ProgramGuard guard(ranks[0]->main, ranks[0]->startup);
  layers::data("x", {2}, {.append_batch_size = false});
  exchange(ranks[0]->main->global_block(), "c_allreduce_sum", "x", "sum");
  const std::vector<Feeds> feeds(2, Feeds{{"x", floats({2}, {1, 2})}});
  EXPECT_THAT(error_of([&] {
                ranks[0]->executor.run_parallel(*ranks[0]->main, feeds, {"sum"}, {},
                                                {.scope = &ranks[0]->scope});
              }),
              AllOf(HasSubstr("c_allreduce_sum"), HasSubstr("several devices")));
}

// Five layers with a megabyte of weights each.
std::unique_ptr<Plan> plan_of_deep_net(const std::vector<std::string>& fetches) {
  FreshPrograms fresh;
  Var* hidden = &layers::data("x", {512});
  for (int i = 0; i < 5; ++i) hidden = &layers::fc(*hidden, {.size = 512, .act = "tanh"});
  optimizer::Sgd(0.1).minimize(layers::mean(*hidden));
  DistributeTranspilerConfig config;
  config.mode = "collective";
  config.collective_mode = "grad_allreduce";
  config.wait_port = false;
  DistributeTranspiler(config).transpile(
      {.program = fresh.main,
       .startup_program = fresh.startup,
       .trainers = std::vector<std::string>{"10.0.0.0:1", "10.0.0.1:1"},
       .current_endpoint = "10.0.0.0:1"});
  Graph graph = lower(*fresh.main, {.feeds = {{"x", {.shape = {8, 512}}}}, .fetches = fetches});
  run_passes(graph, cpu_target(), {});
  return make_plan(std::move(graph), cpu_target());
}

std::vector<size_t> exchanges_of(const Plan& plan) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].exchange) found.push_back(i);
  }
  return found;
}

TEST(Exchanges, GradientsGoTogetherWhileTheBackwardPartRuns) {
  const auto plan = plan_of_deep_net({});
  const auto sums = exchanges_of(*plan);
  ASSERT_EQ(sums.size(), 2u);  // a megabyte, which comes first, and the other four
  EXPECT_EQ(plan->segments.size(), 1u);
  EXPECT_EQ(plan->buckets.size(), 2u);
  size_t products = 0;  // that the first does not wait for
  for (size_t i = sums[0] + 1; i < sums[1]; ++i) {
    const Node& node = plan->graph.nodes[static_cast<size_t>(plan->instructions[i].node)];
    products += node.schema->type().find("mul") != std::string::npos;
    EXPECT_THAT(plan->instructions[i].finishes, IsEmpty());
  }
  EXPECT_GE(products, 4u);
  for (const size_t sum : sums) EXPECT_TRUE(plan->instructions[sum].goes_on);
}

// A rank that looks at a gradient exchanges what the others exchange.
TEST(Exchanges, WhatIsFetchedDoesNotChangeWhatGoesTogether) {
  const auto plan = plan_of_deep_net({}), looks = plan_of_deep_net({"fc_2.w_0@GRAD"});
  const auto sums = exchanges_of(*plan), same = exchanges_of(*looks);
  ASSERT_EQ(sums.size(), same.size());
  ASSERT_EQ(plan->buckets.size(), looks->buckets.size());
  for (size_t b = 0; b < plan->buckets.size(); ++b) {
    EXPECT_EQ(plan->buckets[b].elements, looks->buckets[b].elements);
  }
}

}  // namespace
}  // namespace trireme::testing
