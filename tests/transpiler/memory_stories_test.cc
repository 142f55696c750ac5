// Stories of memory_optimize and release_memory: programs that train give the same bits with and
// without, their names take fewer bytes, and the plan needs no more memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "core/random.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "tests/layers/build.h"
#include "transpiler/memory_optimize.h"

namespace trireme::testing {
namespace {

using Strings = std::vector<std::string>;

struct Story {
  const char* name;
  double saves;                              // this share of the bytes of temporary names, at least
  std::function<std::vector<Var*>()> build;  // what is fetched; the first is the loss
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

Feeds images_and_classes(const Shape& shape, int64_t most, int step) {
  return {{"x", drawn(shape, 100 + static_cast<uint64_t>(step))},
          {"label", classes(shape.at(0), most, static_cast<uint64_t>(step))}};
}

Var& mean_cross_entropy(Var& hidden, int64_t most) {
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  Var& out = layers::fc(hidden, {.size = most});
  return layers::mean(layers::softmax_with_cross_entropy(out, label).loss);
}

// Two of the chain of hidden layers, or none, are fetched with the loss.
Story mlp(bool fetch_hidden = false) {
  return {fetch_hidden ? "mlp, hidden layers fetched" : "mlp", 0.5,
          [=]() -> std::vector<Var*> {
            std::vector<Var*> chain = {&layers::data("x", {16})};
            for (int i = 0; i < 5; ++i) {
              chain.push_back(&layers::fc(*chain.back(), {.size = 32, .act = "relu"}));
            }
            Var& dropped = layers::dropout(*chain.back(), {.dropout_prob = 0.3, .seed = 5});
            Var& loss = mean_cross_entropy(dropped, 4);
            return fetch_hidden ? std::vector<Var*>{&loss, chain[1], chain[4]}
                                : std::vector<Var*>{&loss};
          },
          [](int step) {
            return images_and_classes({8, 16}, 4, step);
          }};
}

Story conv_net() {
  return {"conv net", 0.5,
          []() -> std::vector<Var*> {
            Var* hidden = &layers::data("x", {3, 12, 12});
            for (int i = 0; i < 3; ++i) {
              hidden = &layers::conv2d(*hidden, {.num_filters = 8, .filter_size = 3, .padding = 1});
              hidden = &layers::batch_norm(*hidden, {.act = "relu"});
            }
            hidden = &layers::pool2d(*hidden, {.pool_size = 2, .pool_stride = 2});
            return {&mean_cross_entropy(*hidden, 4)};
          },
          [](int step) {
            return images_and_classes({4, 3, 12, 12}, 4, step);
          }};
}

Story lstm() {
  return {"lstm with lod", 0.19,
          []() -> std::vector<Var*> {
            Var& ids = layers::data("ids", {1}, {.dtype = DType::int64, .lod_level = 1});
            Var& rows = layers::embedding(ids, {.size = {20, 8}});
            Var& gates = layers::fc(rows, {.size = 32});
            Var& hidden = layers::dynamic_lstm(gates, {.size = 32}).hidden;
            return {&mean_cross_entropy(layers::sequence_last_step(hidden), 2)};
          },
          [](int step) -> Feeds {
            Tensor ids = classes(9 + step, 20, 40 + static_cast<uint64_t>(step));
            ids.set_lod({{0, 4, 9 + step}});
            return {{"ids", ids}, {"label", classes(2, 2, static_cast<uint64_t>(step))}};
          }};
}

Var& tanh_chain(Var& from) {
  Var* value = &from;
  for (int i = 0; i < 6; ++i) value = &layers::tanh(*value);
  return *value;
}

// `hidden` goes `passes` times through `body`, which writes its next value.
void repeat(int64_t passes, const std::function<void(Var& pass)>& body) {
  Var& pass = layers::fill_constant({1}, DType::int64, 0);
  Var& last = layers::fill_constant({1}, DType::int64, passes);
  Var& more = layers::less_than(pass, last);
  layers::While loop(more);
  loop.run([&] {
    body(pass);
    layers::increment(pass);
    layers::less_than(pass, last, &more);
  });
}

// The same two layers three times over: their gradients come through while_grad.
Story while_loop() {
  return {"while loop", 0.25,
          []() -> std::vector<Var*> {
            Var& hidden = layers::fc(layers::data("x", {16}), {.size = 16});
            repeat(3, [&](Var&) {
              Var& inner = layers::fc(hidden, {.size = 24, .act = "tanh"});
              layers::assign(tanh_chain(layers::fc(inner, {.size = 16})), &hidden);
            });
            return {&mean_cross_entropy(tanh_chain(hidden), 4)};
          },
          [](int step) {
            return images_and_classes({8, 16}, 4, step);
          }};
}

// A branch in a loop: two blocks deep, with gradients through both.
Story nested() {
  return {"branch in a loop", 0.25,
          []() -> std::vector<Var*> {
            Var& hidden = layers::fc(layers::data("x", {16}), {.size = 16});
            Var& outside = layers::tanh(hidden);  // read two blocks further in
            Var& w = layers::create_parameter({16, 16});
            repeat(4, [&](Var& pass) {
              Var& two = layers::fill_constant({1}, DType::int64, 2);
              const auto next = layers::cond(
                  layers::less_than(pass, two),
                  [&] { return std::vector<Var*>{&tanh_chain(layers::mul(hidden, w))}; },
                  [&] { return std::vector<Var*>{&(tanh_chain(hidden) * outside)}; });
              layers::assign(*next[0], &hidden);
            });
            return {&mean_cross_entropy(tanh_chain(hidden), 4)};
          },
          [](int step) {
            return images_and_classes({8, 16}, 4, step);
          }};
}

std::vector<Story> stories() {
  return {mlp(), conv_net(), lstm(), while_loop(), nested(), mlp(true)};
}

struct Outcome {
  std::vector<Tensor> fetched;  // of all steps
  std::map<std::string, Tensor> params;
  int64_t temporaries = 0;
};

using Edit = std::function<void(Program&)>;

Strings build_to_train(const FreshPrograms& fresh, const Story& story) {
  fresh.main->set_seed(3);
  fresh.startup->set_seed(3);
  const std::vector<Var*> fetches = story.build();
  optimizer::Adam(0.01).minimize(*fetches.front());
  Strings names;
  for (const Var* var : fetches) names.push_back(var->name());
  return names;
}

Outcome train(const Story& story, const Edit& edit, int steps = 4) {
  FreshPrograms fresh;
  const Strings names = build_to_train(fresh, story);
  edit(*fresh.main);
  Executor executor;
  Scope scope;
  executor.run(*fresh.startup, {}, {}, {.scope = &scope});
  Outcome run;
  for (int step = 0; step < steps; ++step) {
    for (const Variable& value :
         executor.run(*fresh.main, story.feed(step), names, {.scope = &scope})) {
      run.fetched.push_back(value.tensor().clone());
    }
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

void expect_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.fetched.size(), b.fetched.size());
  for (size_t i = 0; i < a.fetched.size(); ++i) {
    EXPECT_TRUE(same_bits(a.fetched[i], b.fetched[i])) << "fetch " << i;
  }
  ASSERT_EQ(a.params.size(), b.params.size());
  for (const auto& [name, value] : a.params) {
    EXPECT_TRUE(same_bits(value, b.params.at(name))) << name;
  }
}

TEST(Stories, NumbersAreTheSameAndNamesTakeFewerBytes) {
  for (const Story& story : stories()) {
    SCOPED_TRACE(story.name);
    const Outcome plain = train(story, [](Program&) {});
    EXPECT_FALSE(same_bits(plain.fetched.front(), plain.fetched.back())) << "it does not learn";
    for (const int level : {0, 1}) {
      const Outcome shared =
          train(story, [&](Program& program) { memory_optimize(program, {.level = level}); });
      expect_same(plain, shared);
      const double saved =
          1 - static_cast<double>(shared.temporaries) / static_cast<double>(plain.temporaries);
      EXPECT_GE(saved, story.saves);
      std::printf("%s, level %d: temporaries at batch 32: %lld -> %lld bytes (-%.0f%%)\n",
                  story.name, level, static_cast<long long>(plain.temporaries),
                  static_cast<long long>(shared.temporaries), 100 * saved);
    }
    expect_same(plain, train(story, [](Program& program) { release_memory(program); }));
    expect_same(plain, train(story, [](Program& program) {
                  memory_optimize(program, {.level = 1, .skip_grads = true});
                  release_memory(program);
                }));
  }
}

// Dense variables of the global block that its ops write.
Strings intermediates(const Program& program) {
  std::set<std::string> written;
  for (const Op* op : program.global_block().ops()) {
    for (const std::string& name : op->output_names()) written.insert(name);
  }
  Strings names;
  for (const std::string& name : written) {
    const Var* var = program.global_block().find_var(name);
    if (var && !var->persistable() && var->type() == VarType::lod_tensor) names.push_back(name);
  }
  return names;
}

TEST(Stories, EveryIntermediateCanStillBeFetched) {
  for (const Story& story : stories()) {
    SCOPED_TRACE(story.name);
    FreshPrograms fresh;
    build_to_train(fresh, story);
    const auto plain = clone(*fresh.main, false);
    memory_optimize(*fresh.main, {.level = 1});
    const auto copy = clone(*fresh.main, false);
    const Strings names = intermediates(*plain);
    EXPECT_GT(names.size(), 10u);
    Executor executor;
    const auto values = [&](const Program& program) {
      Scope scope;
      executor.run(*fresh.startup, {}, {}, {.scope = &scope});
      return executor.run(program, story.feed(0), names, {.scope = &scope});
    };
    const std::vector<Variable> expected = values(*plain);
    for (const Program* program : {fresh.main.get(), copy.get()}) {
      const std::vector<Variable> got = values(*program);
      for (size_t i = 0; i < names.size(); ++i) {
        EXPECT_TRUE(same_bits(expected[i].tensor(), got[i].tensor())) << names[i];
      }
    }
  }
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

TEST(Stories, BlocksInsideBlocksAreVisited) {
  for (const Story& story : {while_loop(), nested()}) {
    FreshPrograms fresh;
    build_to_train(fresh, story);
    memory_optimize(*fresh.main);
    EXPECT_GT(reused_inside(*fresh.main), 0) << story.name;
  }
}

TEST(Stories, ANameThatAnInnerBlockReadsIsFreeOnlyBehindTheOpThatOwnsIt) {
  FreshPrograms fresh;
  Var& x = layers::data("x", {16});
  Var& out = layers::create_global_var({16}, 0, DType::float32, {.persistable = true});
  Var& flag =
      layers::less_than(layers::fill_constant({1}, DType::float32, 0), layers::reduce_sum(x));
  Var& outside = layers::tanh(x);
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
  bool behind = false;
  for (const Op* op : fresh.main->global_block().ops()) {
    behind |= op->type() == "conditional_block";
    for (const auto& [now, own] : op->former_names) EXPECT_TRUE(behind || now != outside.name());
  }
  EXPECT_NE(fresh.main->global_block().find_var(later.name()), nullptr);
}

TEST(Stories, GradientsKeepTheirNamesWhenAsked) {
  FreshPrograms fresh;
  Var& loss = *mlp().build().front();
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

size_t arena(const Program& program, const Story& story, const Strings& fetches, Scope& scope) {
  LowerRequest request;
  const Feeds feeds = story.feed(0);
  for (const auto& [name, tensor] : feeds) {
    request.feeds[name] = {.dtype = tensor.dtype(),
                           .shape = tensor.shape(),
                           .lod_level = static_cast<int>(tensor.lod().size())};
  }
  request.fetches = fetches;
  Graph graph = lower(program, request);
  run_passes(graph, cpu_target());
  const std::unique_ptr<Plan> plan = make_plan(std::move(graph), cpu_target());
  Frame frame(*plan);
  for (size_t i = 0; i < plan->graph.feeds.size(); ++i) {
    frame.feed(i, feeds.at(plan->graph.feeds[i].name));
  }
  frame.run(scope, {});
  return frame.arena_bytes();
}

TEST(Stories, ThePlanNeedsNoMoreMemory) {
  for (const Story& story : stories()) {
    FreshPrograms fresh;
    const Strings names = build_to_train(fresh, story);
    const auto plain = clone(*fresh.main, false);
    memory_optimize(*fresh.main, {.level = 1});
    const auto released = clone(*plain, false);
    release_memory(*released);
    Executor executor;
    Scope scope;
    executor.run(*fresh.startup, {}, {}, {.scope = &scope});
    const size_t before = arena(*plain, story, names, scope);
    const size_t shared = arena(*fresh.main, story, names, scope);
    EXPECT_GT(before, 0u) << story.name;
    EXPECT_LE(shared, before) << story.name;
    EXPECT_LE(arena(*released, story, names, scope), before) << story.name;
    std::printf("%s: arena %zu -> %zu bytes\n", story.name, before, shared);
  }
}

}  // namespace
}  // namespace trireme::testing
