// Twice the ops take twice the work: building, gradients, compiling and the first step, by the
// names that they look up.
#include <vector>

#include "core/lookups.h"
#include "layers/optimizer.h"
#include "tests/layers/loop_net.h"
#include "tests/support/sanitized.h"

namespace trireme {
namespace {

// The look-ups of everything from the first layer to the first step, for a program of `count`
// parts.
template <class BuildPart>
double lookups_of(int count, const BuildPart& build) {
  const size_t before = name_lookups();
  build(count);
  return static_cast<double>(name_lookups() - before);
}

// What doubling costs, beyond small counts where constants show.
template <class BuildPart>
double growth(int count, const BuildPart& build) {
  build(4);  // what happens once per process
  const double once = lookups_of(count, build), twice = lookups_of(2 * count, build);
  return twice / once;
}

void train_chain(int layers_in_chain) {
  Net net;
  Var* x = &net.data("x", {2, 3});
  for (int i = 0; i < layers_in_chain; ++i) x = &layers::fc(*x, {.size = 3});
  Var& loss = layers::mean(*x);
  optimizer::Sgd(0.1).minimize(loss);
  Executor executor;
  Scope scope;
  executor.run(default_startup_program(), {}, {}, {.scope = &scope});
  executor.run(default_main_program(), {{"x", doubles({2, 3}, {1, 2, 3, 4, 5, 6})}}, {},
               {.scope = &scope});
}

void join_branches(int branches) {
  Net net;
  Var& x = net.data("x", {2});
  std::vector<Var*> parts;
  for (int i = 0; i < branches; ++i) parts.push_back(&layers::scale(x, {.scale = 1.0f / (1 + i)}));
  Var& total = layers::sums(parts);
  gradients({&total}, {&x}, {}, {});
  net.run({{"x", doubles({2}, {1, 2})}}, total);
}

void chain_conditions(int conditions) {
  Net net;
  Var* x = &net.data("x", {1});
  Var& yes = layers::less_than(layers::fill_constant({1}, DType::float64, 0), *x);
  for (int i = 0; i < conditions; ++i) {
    x = layers::cond(
        yes, [&] { return std::vector<Var*>{&layers::scale(*x, {.scale = 2})}; },
        [&] { return std::vector<Var*>{&layers::square(*x)}; })[0];
  }
  net.run({{"x", doubles({1}, {1})}}, *x);
}

Var* nest(Var& x, Var& yes, int depth) {
  if (depth == 0) return &layers::scale(x, {.scale = 3});
  return layers::cond(
      yes, [&] { return std::vector<Var*>{nest(x, yes, depth - 1)}; },
      [&] { return std::vector<Var*>{&layers::square(x)}; })[0];
}

TEST(LinearBuilding, OfAChainOfLayersToTheFirstStep) { EXPECT_LT(growth(60, train_chain), 2.1); }

TEST(LinearBuilding, OfManyBranchesIntoOneSum) { EXPECT_LT(growth(60, join_branches), 2.1); }

TEST(LinearBuilding, OfConditionsOneAfterAnother) { EXPECT_LT(growth(40, chain_conditions), 2.1); }

// A name that is found outside is looked for in every block on the way: depth times depth, and with
// what a block is asked about blocks inside it no more than that.
TEST(LinearBuilding, OfConditionsInsideEachOther) {
  const auto nested = [](int depth) {
    Net net;
    Var& x = net.data("x", {1});
    Var& yes = layers::less_than(layers::fill_constant({1}, DType::float64, 0), x);
    EXPECT_EQ(net.run({{"x", doubles({1}, {2})}}, *nest(x, yes, depth)).data<double>()[0], 6);
  };
  EXPECT_LT(growth(60, nested), 4.1);
}

// The builder's own functions call each other: a sanitizer's frames of 2,000 levels fit no stack.
TEST(Cond, NestsTwoThousandTimes) {
  const int depth = testing::kSanitized ? 200 : 2000;
  Net net;
  Var& x = net.data("x", {1});
  Var& yes = layers::less_than(layers::fill_constant({1}, DType::float64, 0), x);
  Var& out = *nest(x, yes, depth);
  EXPECT_EQ(net.run({{"x", doubles({1}, {2})}}, out).data<double>()[0], 6);
  EXPECT_EQ(net.run({{"x", doubles({1}, {-2})}}, out).data<double>()[0], 4);
}

}  // namespace
}  // namespace trireme
