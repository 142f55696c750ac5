// fuse_elementwise: what it makes one node of, and that no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "compile/lower.h"
#include "compile/passes.h"
#include "compile/pipeline.h"
#include "core/flags.h"
#include "core/random.h"
#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

struct Chain {
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  int made = 0;

  explicit Chain(const std::vector<std::pair<std::string, Shape>>& feeds) {
    for (const auto& [name, shape] : feeds) {
      block.create_var({.name = name, .shape = shape, .is_data = true});
    }
  }
  std::string op(const std::string& type, const std::vector<std::string>& operands,
                 Attrs attrs = {}) {
    const std::string out = cat("t", made++);
    block.create_var({.name = out, .has_shape = false});
    Slots ins{{"X", {operands[0]}}};
    if (operands.size() > 1) ins["Y"] = {operands[1]};
    block.append_op({type, ins, {{"Out", {out}}}, std::move(attrs)});
    return out;
  }
  Graph lowered(const std::vector<std::string>& fetches) {
    LowerRequest request{.fetches = fetches};
    for (const auto& var : block.vars()) {
      if (var->is_data()) request.feeds[var->name()] = {.shape = var->shape()};
    }
    Graph graph = lower(*program, request);
    prune_unobservable(graph, cpu_target());
    return graph;
  }
};

size_t count_of(const Graph& graph, std::string_view type) {
  size_t found = 0;
  for (const Node& node : graph.nodes) found += node.schema->type() == type;
  return found;
}

TEST(FuseElementwise, AChainBecomesOneNode) {
  Chain chain({{"x", {4, 3}}, {"y", {4, 3}}});
  const std::string sum = chain.op("elementwise_add", {"x", "y"});
  const std::string last = chain.op("square", {chain.op("tanh", {chain.op("relu", {sum})})});
  Graph graph = chain.lowered({last});
  EXPECT_TRUE(fuse_elementwise(graph, cpu_target()));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].parts.size(), 4u);
  EXPECT_EQ(graph.nodes[0].outs.size(), 1u);
  EXPECT_EQ(graph.nodes[0].origin->op_type, "elementwise_add+relu+tanh+square");
}

TEST(FuseElementwise, WhatOthersReadIsAResult) {
  Chain chain({{"x", {4, 3}}});
  const std::string first = chain.op("relu", {"x"});
  const std::string second = chain.op("tanh", {first});
  Graph graph = chain.lowered({first, second});
  EXPECT_TRUE(fuse_elementwise(graph, cpu_target()));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].outs.size(), 2u);
}

TEST(FuseElementwise, LeavesAChainThatWouldWaitForItself) {
  Chain chain({{"x", {4, 4}}});
  const std::string first = chain.op("relu", {"x"});
  const std::string product = chain.op("mul", {first, first});
  const std::string last = chain.op("elementwise_add", {first, product});
  Graph graph = chain.lowered({last});
  EXPECT_FALSE(fuse_elementwise(graph, cpu_target()));
}

TEST(FuseElementwise, JoinsAroundAProductThatIsNotBetween) {
  Chain chain({{"x", {4, 4}}});
  const std::string first = chain.op("relu", {"x"});
  const std::string product = chain.op("mul", {first, first});
  const std::string beside = chain.op("tanh", {first});
  const std::string last = chain.op("square", {product});
  Graph graph = chain.lowered({last, beside});
  EXPECT_TRUE(fuse_elementwise(graph, cpu_target()));
  EXPECT_EQ(count_of(graph, "p.fused"), 1u);
  EXPECT_EQ(graph.nodes.size(), 3u);
}

// An emitter as a device would have one: it reads the program and nothing else.
std::string emitted(const Node& node) {
  static const std::map<TileOp, std::string> kNames = {{TileOp::add, "add"},
                                                       {TileOp::max, "max"},
                                                       {TileOp::tanh, "tanh"},
                                                       {TileOp::square, "square"}};
  const TileProgram& program = *node.decided.program;
  const size_t operands = node.ins.size(), constants = program.constants.size();
  std::string code;
  for (size_t c = 0; c < constants; ++c) {
    code += cat("r", operands + c, " = ", program.constants[c], "; ");
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const TileProgram::Step& step = program.steps[s];
    code += cat("r", operands + constants + s, " = ", kNames.at(step.op));
    for (int i = 0; i < tile_operands(step.op); ++i) code += cat(" r", step.in[i]);
    code += "; ";
  }
  for (int result : program.results) code += result < 0 ? "out sum" : cat("out r", result);
  if (program.sum.reg >= 0) code += cat(" of r", program.sum.reg);
  return code;
}

TEST(FuseElementwise, WritesAProgramThatADeviceCanEmit) {
  Chain chain({{"x", {4, 3}}, {"y", {4, 3}}});
  const std::string sum = chain.op("elementwise_add", {"x", "y"});
  const std::string last = chain.op("square", {chain.op("tanh", {chain.op("relu", {sum})})});
  Graph graph = chain.lowered({last});
  fuse_elementwise(graph, cpu_target());
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_TRUE(graph.nodes[0].attrs->empty()) << "the program is a field of the node";
  EXPECT_EQ(emitted(graph.nodes[0]),
            "r2 = 0; r3 = add r0 r1; r4 = max r3 r2; r5 = tanh r4; r6 = square r5; out r6");
}

TEST(FuseElementwise, AWrongFeedIsExplainedByTheOpThatMinds) {
  Chain chain({{"x", {-1, 3}}, {"y", {-1, 3}}});
  const std::string r = chain.op("relu", {"x"});
  const std::string sum = chain.op("elementwise_add", {r, chain.op("tanh", {"y"})});
  Executor exe;
  const std::string text = error_of([&] {
    exe.run(*chain.program,
            {{"x", filled(DType::float32, {4, 3}, 1)}, {"y", filled(DType::float32, {5, 3}, 1)}},
            {sum});
  });
  EXPECT_THAT(text, HasSubstr("elementwise_add"));
  EXPECT_THAT(text, HasSubstr("[5, 3]"));
}

// relu makes a zero of what is no number: fused, the sum would not be looked at.
TEST(FuseElementwise, IsLeftOutWhereEveryResultIsChecked) {
  Chain chain({{"x", {3}}, {"y", {3}}});
  const std::string last = chain.op("relu", {chain.op("elementwise_div", {"x", "y"})});
  const Feeds feeds{{"x", floats({3}, {0, 1, 2})}, {"y", floats({3}, {0, 1, 2})}};
  Executor exe;
  exe.run(*chain.program, feeds, {last});
  set_flag("check_nan_inf", true);
  const std::string text = error_of([&] { exe.run(*chain.program, feeds, {last}); });
  set_flag("check_nan_inf", false);
  EXPECT_THAT(text, HasSubstr("elementwise_div"));
  EXPECT_THAT(text, HasSubstr("holds nan or inf"));
}

TEST(FuseElementwise, AnUpdateIsWrittenOverItsParameter) {
  const auto program = Program::create();
  Block& block = program->global_block();
  for (const char* name : {"w", "g", "lr"}) {
    const Shape shape = std::string(name) == "lr" ? Shape{1} : Shape{5};
    block.create_var({.name = name, .shape = shape, .persistable = true});
  }
  block.append_op({"sgd",
                   {{"Param", {"w"}}, {"Grad", {"g"}}, {"LearningRate", {"lr"}}},
                   {{"ParamOut", {"w"}}},
                   {}});
  Graph graph = lower(*program, {});
  run_passes(graph, cpu_target());
  const auto plan = make_plan(std::move(graph), cpu_target());
  EXPECT_EQ(plan->instructions.size(), 1u);
  EXPECT_TRUE(plan->write_backs.empty());
}

Tensor noise(const Shape& shape, uint64_t stream) {
  const Philox random(5, stream);
  Tensor made(DType::float32, shape);
  for (int64_t i = 0; i < made.numel(); ++i) {
    made.data<float>()[i] = static_cast<float>(4 * random.uniform(static_cast<uint64_t>(i)) - 2);
  }
  return made;
}

void expect_equal_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.byte_size()), 0) << what;
}

TEST(FuseElementwise, ASumJoinsWhatItAddsUp) {
  Chain chain({{"a", {-1, 8}}, {"b", {-1, 8}}});
  const std::string loss =
      chain.op("mean", {chain.op("square", {chain.op("elementwise_sub", {"a", "b"})})});
  Graph graph = chain.lowered({loss});
  EXPECT_TRUE(fuse_elementwise(graph, cpu_target()));
  EXPECT_EQ(count_of(graph, "p.mean"), 0u);
  EXPECT_EQ(count_of(graph, "p.fused"), 1u);
}

TEST(FuseElementwise, NobodyWaitsForASumOfTheSameNode) {
  Chain chain({{"a", {6, 8}}});
  const std::string squares = chain.op("square", {"a"});
  const std::string norm = chain.op("reduce_sum", {squares}, {{"reduce_all", true}});
  const std::string share = chain.op("elementwise_div", {squares, norm});
  Graph graph = chain.lowered({share});
  fuse_elementwise(graph, cpu_target());
  for (const Node& node : graph.nodes) {
    for (int in : node.ins) {
      EXPECT_EQ(std::count(node.outs.begin(), node.outs.end(), in), 0) << graph.to_text();
    }
  }
  EXPECT_GE(graph.nodes.size(), 2u);
}

// Means and sums along each kind of axes, of chains that somebody else reads and of such that
// nobody does.
TEST(FuseElementwise, ChangesNoBitOfSums) {
  const Shape shape{9, 20, 7, 16};
  const std::vector<std::vector<int>> folds = {{0},       {3},    {0, 2},      {1, 3},
                                               {0, 2, 3}, {1, 2}, {0, 1, 2, 3}};
  for (const auto& dims : folds) {
    for (const char* type : {"reduce_sum", "reduce_mean"}) {
      for (const bool read : {false, true}) {
        Chain chain({{"a", shape}, {"b", shape}, {"row", {16}}});
        const std::string made =
            chain.op("elementwise_mul",
                     {chain.op("tanh", {chain.op("elementwise_sub", {"a", "b"})}), "row"});
        std::vector<std::string> fetches{chain.op(type, {made}, {{"dim", dims}})};
        if (read) fetches.push_back(made);
        const Feeds feeds{{"a", noise(shape, 1)}, {"b", noise(shape, 2)}, {"row", noise({16}, 3)}};
        std::vector<std::vector<Variable>> results;
        for (const int threads : {1, 2, 3}) {
          for (const bool fused : {true, false}) {
            Executor executor;
            RunOptions options{.threads = threads, .cut_bytes = 0};
            if (!fused) options.passes_off = {"fuse_elementwise"};
            results.push_back(executor.run(*chain.program, feeds, fetches, options));
          }
        }
        for (size_t i = 1; i < results.size(); ++i) {
          for (size_t f = 0; f < fetches.size(); ++f) {
            expect_equal_bits(results[0][f].tensor(), results[i][f].tensor(),
                              cat(type, ", run ", i, ", fetch ", f));
          }
        }
      }
    }
  }
}

// Programs of random ops over operands of several shapes, every result fetched or not by chance.
TEST(FuseElementwise, ChangesNoBitOfRandomPrograms) {
  const std::vector<std::string> unary = {"relu",  "tanh",  "sigmoid",  "square",
                                          "abs",   "exp",   "softsign", "leaky_relu",
                                          "floor", "relu6", "sqrt"};
  const std::vector<std::string> binary = {"elementwise_add", "elementwise_sub", "elementwise_mul",
                                           "elementwise_div", "elementwise_max", "elementwise_min"};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Philox random(seed, 1);
    uint64_t drawn = 0;
    const auto below = [&](size_t n) {
      return static_cast<size_t>(random.uniform(drawn++) * static_cast<double>(n));
    };
    const Shape wide = seed % 3 == 0 ? Shape{700, 3} : Shape{3, 5, 7};
    const Shape row = seed % 3 == 0 ? Shape{3} : Shape{5, 7};
    Chain chain({{"a", wide}, {"b", wide}, {"row", row}, {"one", {1}}});
    const Feeds feeds{{"a", noise(wide, 1)},
                      {"b", noise(wide, 2)},
                      {"row", noise(row, 3)},
                      {"one", noise({1}, 4)}};
    std::vector<std::string> wides{"a", "b"};
    std::vector<std::string> fetches;
    for (int i = 0; i < 14; ++i) {
      std::string made;
      switch (below(4)) {
        case 0:
          made = chain.op(unary[below(unary.size())], {wides[below(wides.size())]});
          break;
        case 1:
          made = chain.op(binary[below(binary.size())],
                          {wides[below(wides.size())], wides[below(wides.size())]});
          break;
        case 2:
          made = chain.op(binary[below(binary.size())],
                          {wides[below(wides.size())], below(2) ? "row" : "one"});
          break;
        default:
          made =
              chain.op("scale", {wides[below(wides.size())]}, {{"scale", 0.5f}, {"bias", 0.25f}});
      }
      wides.push_back(made);
      if (below(3) == 0) fetches.push_back(made);
    }
    fetches.push_back(wides.back());
    Executor exe;
    for (const int threads : {1, 3}) {
      const RunOptions on{.threads = threads, .cut_bytes = 0};
      const RunOptions off{.threads = 1, .passes_off = {"fuse_elementwise"}};
      const auto fused = exe.run(*chain.program, feeds, fetches, on);
      const auto plain = exe.run(*chain.program, feeds, fetches, off);
      for (size_t i = 0; i < fetches.size(); ++i) {
        expect_equal_bits(fused[i].tensor(), plain[i].tensor(),
                          cat("seed ", seed, " ", fetches[i]));
      }
    }
  }
}

// Every optimizer's update, three steps long, with and without the pass.
TEST(FuseElementwise, ChangesNoBitOfTraining) {
  using Minimize = std::function<void(Var&)>;
  const std::vector<std::pair<std::string, Minimize>> optimizers = {
      {"sgd", [](Var& loss) { optimizer::Sgd(0.1).minimize(loss); }},
      {"momentum", [](Var& loss) { optimizer::Momentum(0.1, 0.9).minimize(loss); }},
      {"adam", [](Var& loss) { optimizer::Adam(0.01).minimize(loss); }},
      {"adagrad", [](Var& loss) { optimizer::Adagrad(0.1).minimize(loss); }},
  };
  for (const auto& [name, minimize] : optimizers) {
    const UniqueNameGuard own_names;
    const auto main = Program::create(), startup = Program::create();
    const ProgramGuard guard(main, startup);
    startup->set_seed(7);
    Var& x = layers::data("x", {6});
    Var& hidden = layers::fc(layers::fc(x, {.size = 300, .act = "relu"}), {.size = 9});
    Var& loss = layers::mean(layers::square(layers::tanh(hidden)));
    minimize(loss);
    std::vector<std::vector<Tensor>> losses;
    for (const bool on : {true, false}) {
      Scope scope;
      Executor exe;
      RunOptions options{.scope = &scope, .threads = 2, .cut_bytes = 0};
      if (!on) options.passes_off = {"fuse_elementwise"};
      exe.run(*startup, {}, {}, options);
      losses.emplace_back();
      for (int step = 0; step < 3; ++step) {
        losses.back().push_back(
            exe.run_one(*main, {{"x", noise({40, 6}, 9)}}, loss.name(), options).clone());
      }
    }
    for (size_t i = 0; i < 3; ++i)
      expect_equal_bits(losses[0][i], losses[1][i], cat(name, ", step ", i));
  }
}

}  // namespace
}  // namespace trireme::testing
