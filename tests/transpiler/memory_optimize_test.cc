// memory_optimize and release_memory: which names are shared, and that numbers never change.
#include "transpiler/memory_optimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "layers/optimizer.h"
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

// ---- stories: numbers are equal with and without, over several steps

struct Story {
  const char* name;
  std::function<Var&()> build;  // the loss
  std::function<Feeds(int step)> feed;
};

Tensor drawn(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Tensor tensor(DType::float32, shape);
  const Philox philox(seed, 1);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] =
        static_cast<float>(low + (high - low) * philox.uniform(static_cast<uint64_t>(i)));
  }
  return tensor;
}

Tensor classes(int64_t count, int64_t most, uint64_t seed) {
  Tensor tensor(DType::int64, {count, 1});
  const Philox philox(seed, 2);
  for (int64_t i = 0; i < count; ++i) {
    tensor.data<int64_t>()[i] =
        static_cast<int64_t>(philox.bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(most));
  }
  return tensor;
}

Story mlp() {
  return {"mlp",
          [&]() -> Var& {
            Var& x = layers::data("x", {16});
            Var& label = layers::data("label", {1}, {.dtype = DType::int64});
            Var* hidden = &x;
            for (int i = 0; i < 5; ++i) hidden = &layers::fc(*hidden, {.size = 32, .act = "relu"});
            hidden = &layers::dropout(*hidden, {.dropout_prob = 0.3, .seed = 5});
            Var& out = layers::fc(*hidden, {.size = 4});
            return layers::mean(layers::softmax_with_cross_entropy(out, label).loss);
          },
          [](int step) -> Feeds {
            return {{"x", drawn({8, 16}, 100 + static_cast<uint64_t>(step))},
                    {"label", classes(8, 4, static_cast<uint64_t>(step))}};
          }};
}

Story conv_net() {
  return {"conv net",
          [&]() -> Var& {
            Var& x = layers::data("x", {3, 12, 12});
            Var& label = layers::data("label", {1}, {.dtype = DType::int64});
            Var* hidden = &x;
            for (int i = 0; i < 3; ++i) {
              hidden = &layers::conv2d(*hidden, {.num_filters = 8, .filter_size = 3, .padding = 1});
              hidden = &layers::batch_norm(*hidden, {.act = "relu"});
            }
            hidden = &layers::pool2d(*hidden, {.pool_size = 2, .pool_stride = 2});
            Var& out = layers::fc(*hidden, {.size = 4});
            return layers::mean(layers::softmax_with_cross_entropy(out, label).loss);
          },
          [](int step) -> Feeds {
            return {{"x", drawn({4, 3, 12, 12}, 100 + static_cast<uint64_t>(step))},
                    {"label", classes(4, 4, static_cast<uint64_t>(step))}};
          }};
}

Story lstm() {
  return {"lstm",
          [&]() -> Var& {
            Var& ids = layers::data("ids", {1}, {.dtype = DType::int64, .lod_level = 1});
            Var& label = layers::data("label", {1}, {.dtype = DType::int64});
            Var& rows = layers::embedding(ids, {.size = {20, 8}});
            Var& gates = layers::fc(rows, {.size = 32});
            Var& hidden = layers::dynamic_lstm(gates, {.size = 32}).hidden;
            Var& last = layers::sequence_last_step(hidden);
            Var& out = layers::fc(last, {.size = 2});
            return layers::mean(layers::softmax_with_cross_entropy(out, label).loss);
          },
          [](int step) -> Feeds {
            Tensor ids = classes(9 + step, 20, 40 + static_cast<uint64_t>(step));
            ids.set_lod({{0, 4, 9 + step}});
            return {{"ids", ids}, {"label", classes(2, 2, static_cast<uint64_t>(step))}};
          }};
}

struct Outcome {
  std::vector<Tensor> losses;
  std::map<std::string, Tensor> params;
  int64_t temporaries = 0;
};

Outcome train(const Story& story, const std::function<void(Program&, Var&)>& edit, int steps = 4) {
  FreshPrograms fresh;
  fresh.main->set_seed(3);
  fresh.startup->set_seed(3);
  Var& loss = story.build();
  optimizer::Adam(0.01).minimize(loss);
  for (Op* op : fresh.startup->global_block().ops()) {
    if (op->has_attr("seed")) op->set_attr("seed", int32_t{9});
  }
  const std::string name = loss.name();
  edit(*fresh.main, loss);
  Executor executor;
  Scope scope;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  Outcome run;
  for (int step = 0; step < steps; ++step) {
    run.losses.push_back(
        executor.run_one(*fresh.main, story.feed(step), name, {.scope = &scope}).clone());
  }
  for (const Var* param : fresh.main->parameters()) {
    run.params[param->name()] = scope.find(param->name())->tensor().clone();
  }
  run.temporaries = temporary_bytes(*fresh.main, 32);
  return run;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.byte_size()) == 0;
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_TRUE(same_bits(a.losses[i], b.losses[i])) << what << " step " << i;
  }
  ASSERT_EQ(a.params.size(), b.params.size());
  for (const auto& [name, value] : a.params) {
    EXPECT_TRUE(same_bits(value, b.params.at(name))) << what << " " << name;
  }
}

TEST(Stories, NumbersAreTheSameAndNamesTakeFewerBytes) {
  for (const Story& story : {mlp(), conv_net(), lstm()}) {
    const Outcome plain = train(story, [](Program&, Var&) {});
    for (const int level : {0, 1}) {
      const Outcome shared =
          train(story, [&](Program& program, Var&) { memory_optimize(program, {.level = level}); });
      expect_same(plain, shared, story.name);
      EXPECT_LT(shared.temporaries, plain.temporaries);
      std::printf("%s, level %d: temporaries at batch 32: %lld -> %lld bytes (-%.0f%%)\n",
                  story.name, level, static_cast<long long>(plain.temporaries),
                  static_cast<long long>(shared.temporaries),
                  100.0 * static_cast<double>(plain.temporaries - shared.temporaries) /
                      static_cast<double>(plain.temporaries));
    }
    expect_same(plain, train(story, [](Program& program, Var&) { release_memory(program); }),
                story.name);
    expect_same(plain,
                train(story,
                      [](Program& program, Var&) {
                        memory_optimize(program, {.level = 1, .skip_grads = true});
                        release_memory(program);
                      }),
                story.name);
  }
}

TEST(Stories, EveryIntermediateCanStillBeFetched) {
  for (const Story& story : {mlp(), lstm()}) {
    FreshPrograms fresh;
    Var& loss = story.build();
    optimizer::Sgd(0.1).minimize(loss);
    for (Op* op : fresh.startup->global_block().ops()) {
      if (op->has_attr("seed")) op->set_attr("seed", int32_t{9});
    }
    const auto plain = clone(*fresh.main, false);
    memory_optimize(*fresh.main, {.level = 1});
    const auto copy = clone(*fresh.main, false);
    std::vector<std::string> names;
    for (const Var* var : plain->global_block().vars()) {
      bool written = false;
      for (const Op* op : plain->global_block().ops()) {
        for (const std::string& out : op->output_names()) written |= out == var->name();
      }
      if (written && !var->persistable() && var->type() == VarType::lod_tensor) {
        names.push_back(var->name());
      }
    }
    Executor executor;
    const auto values = [&](const Program& program, bool prune) {
      Scope scope;
      executor.run(*fresh.startup, {}, {}, {.scope = &scope});
      std::vector<Tensor> tensors;
      for (const std::string& name : names) {
        RunOptions options{.scope = &scope};
        options.use_prune = prune;
        if (!prune) {
          for (const Variable& value : executor.run(program, story.feed(0), names, options)) {
            tensors.push_back(value.kind() == Kind::dense ? value.tensor() : Tensor());
          }
          break;
        }
        tensors.push_back(executor.run_one(program, story.feed(0), name, options));
      }
      return tensors;
    };
    const std::vector<Tensor> expected = values(*plain, false);
    for (const Program* program : {fresh.main.get(), copy.get()}) {
      const std::vector<Tensor> got = values(*program, false);
      for (size_t i = 0; i < names.size(); ++i) {
        EXPECT_TRUE(same_bits(expected[i], got[i])) << story.name << " " << names[i];
      }
    }
  }
}

TEST(Stories, AFetchWithPruneFindsARenamedVariable) {
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

Var& tanh_chain(Var& from) {
  Var* value = &from;
  for (int i = 0; i < 6; ++i) value = &layers::tanh(*value);
  return *value;
}

int reused_inside(const Program& program) {
  int reused = 0;
  for (size_t b = 1; b < program.num_blocks(); ++b) {
    for (const Op* op : program.block(static_cast<int>(b)).ops()) {
      reused += static_cast<int>(op->former_names.size());
    }
  }
  return reused;
}

TEST(Stories, BranchesAreVisitedAndNumbersStay) {
  const Story story{
      "branches",
      []() -> Var& {
        Var& x = layers::data("x", {16});
        Var& kept = layers::create_global_var({16}, 0, DType::float32,
                                              {.persistable = true, .name = "kept"});
        Var& zero = layers::fill_constant({1}, DType::float32, 0);
        layers::Switch pick;
        pick.when(layers::less_than(zero, layers::reduce_sum(x)),
                  [&] { layers::assign(layers::reduce_mean(tanh_chain(x), {.dim = {0}}), &kept); });
        pick.otherwise([&] { layers::assign(layers::reduce_sum(x, {.dim = {0}}), &kept); });
        return layers::mean(layers::fc(layers::elementwise_add(x, kept), {.size = 4}));
      },
      [](int step) -> Feeds {
        return {{"x", drawn({4, 16}, 7 + static_cast<uint64_t>(step))}};
      }};
  const Outcome plain = train(story, [](Program&, Var&) {});
  int inside = 0;
  const Outcome shared = train(story, [&](Program& program, Var&) {
    memory_optimize(program);
    inside = reused_inside(program);
  });
  EXPECT_GT(inside, 0);
  expect_same(plain, shared, story.name);
  expect_same(plain, train(story, [](Program& program, Var&) { release_memory(program); }),
              story.name);
}

TEST(Stories, BlocksInsideBlocksAreVisited) {
  FreshPrograms fresh;
  Var& x = layers::data("x", {16});
  Var& out = layers::create_global_var({16}, 0, DType::float32, {.persistable = true});
  Var& flag =
      layers::less_than(layers::fill_constant({1}, DType::float32, 0), layers::reduce_sum(x));
  Var& outside = layers::tanh(x);  // read two blocks further in
  layers::Switch outer;
  outer.when(flag, [&] {
    layers::Switch inner;
    inner.when(flag, [&] {
      Var& deep = layers::elementwise_add(tanh_chain(x), outside);
      layers::assign(layers::reduce_mean(deep, {.dim = {0}}), &out);
    });
  });
  Var& later = tanh_chain(x);
  memory_optimize(*fresh.main);
  EXPECT_GT(reused_inside(*fresh.main), 0);
  // The name of `outside` is free only behind the op that owns the blocks which read it.
  bool behind = false;
  for (const Op* op : fresh.main->global_block().ops()) {
    behind |= op->type() == "conditional_block";
    for (const auto& [now, own] : op->former_names) EXPECT_TRUE(behind || now != outside.name());
  }
  EXPECT_NE(fresh.main->global_block().find_var(later.name()), nullptr);
}

TEST(Stories, GradientsKeepTheirNamesWhenAsked) {
  FreshPrograms fresh;
  Var& loss = mlp().build();
  const Minimized made = optimizer::Sgd(0.1).minimize(loss);
  memory_optimize(*fresh.main, {.level = 1, .skip_grads = true});
  for (const auto& [param, grad] : made.params_grads) {
    bool written = false;
    for (const Op* op : fresh.main->global_block().ops()) {
      for (const std::string& out : op->output_names()) written |= out == grad->name();
    }
    EXPECT_TRUE(written) << grad->name();
  }
}

// ---- the plan's memory

size_t arena(const Program& program, const Story& story, const std::string& loss, Scope& scope) {
  LowerRequest request;
  const Feeds feeds = story.feed(0);
  for (const auto& [name, tensor] : feeds) {
    request.feeds[name] = {.dtype = tensor.dtype(),
                           .shape = tensor.shape(),
                           .lod_level = static_cast<int>(tensor.lod().size())};
  }
  request.fetches = {loss};
  Graph graph = lower(program, request);
  run_passes(graph, {});
  const std::unique_ptr<Plan> plan = make_plan(std::move(graph));
  Frame frame(*plan);
  std::vector<Variable> inputs(plan->graph.feeds.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].tensor() = feeds.at(plan->graph.feeds[i].name);
  }
  frame.run(inputs, scope, {});
  return frame.arena_bytes();
}

TEST(Stories, ThePlanNeedsNoMoreMemory) {
  for (const Story& story : {mlp(), conv_net(), lstm()}) {
    FreshPrograms fresh;
    Var& loss = story.build();
    optimizer::Adam(0.01).minimize(loss);
    const auto plain = clone(*fresh.main, false);
    memory_optimize(*fresh.main, {.level = 1});
    const auto released = clone(*plain, false);
    release_memory(*released);
    Executor executor;
    Scope scope;
    executor.run(*fresh.startup, {}, {}, {.scope = &scope});
    const size_t before = arena(*plain, story, loss.name(), scope);
    EXPECT_LE(arena(*fresh.main, story, loss.name(), scope), before) << story.name;
    EXPECT_LE(arena(*released, story, loss.name(), scope), before) << story.name;
  }
}

}  // namespace
}  // namespace trireme::testing
