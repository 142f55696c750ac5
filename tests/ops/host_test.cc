// Ops that read and write files, ops that mark what is fed and fetched, and loss scaling.
#include <gmock/gmock.h>

#include <fstream>

#include "runtime/executor.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"
#include "tests/support/temp_dir.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Persistable variables, and ops one after another on them.
struct Store {
  Scope scope;
  Executor executor;

  void set(const std::string& name, const Tensor& value) { scope.var(name).tensor() = value; }
  void run(const std::string& type, const Slots& ins, const Slots& outs, const Attrs& attrs) {
    const std::shared_ptr<Program> program = Program::create();
    for (const Slots* slots : {&ins, &outs}) {
      for (const auto& [slot, names] : *slots) {
        for (const std::string& name : names) {
          program->global_block().create_var(
              {.name = name, .persistable = true, .has_shape = false});
        }
      }
    }
    program->global_block().append_op({type, ins, outs, attrs});
    executor.run(*program, {}, {}, {.scope = &scope});
    for (const auto& [slot, names] : outs) {
      for (const std::string& name : names) note_result(*program, name, *scope.find(name));
    }
  }
  std::vector<double> at(const std::string& name) { return numbers(scope.find(name)->tensor()); }
};

TEST(Files, WhatIsSavedIsLoaded) {
  const TempDir dir;
  Store store;
  store.set("a", floats({2}, {1, 2}));
  store.set("b", longs({1}, {7}));
  store.run("save", {{"X", {"a"}}}, {}, {{"file_path", dir / "a"}});
  store.run("save_combine", {{"X", {"b", "a"}}}, {}, {{"file_path", dir / "both"}});
  store.run("load", {}, {{"Out", {"c"}}}, {{"file_path", dir / "a"}});
  EXPECT_THAT(store.at("c"), ElementsAre(1, 2));
  EXPECT_TRUE(shows("save", store.at("c") == std::vector<double>{1, 2}));
  store.run("load_combine", {}, {{"Out", {"d", "e"}}}, {{"file_path", dir / "both"}});
  EXPECT_THAT(store.at("d"), ElementsAre(7));
  EXPECT_THAT(store.at("e"), ElementsAre(1, 2));
  EXPECT_TRUE(shows("save_combine", store.at("d") == std::vector<double>{7}));
}

TEST(Files, WrongUsesNameTheFile) {
  const TempDir dir;
  Store store;
  store.set("a", floats({2}, {1, 2}));
  store.run("save", {{"X", {"a"}}}, {}, {{"file_path", dir / "a"}});
  const auto fails = [&](const char* type, const Slots& ins, const Slots& outs, Attrs attrs) {
    return error_of([&] { store.run(type, ins, outs, attrs); });
  };
  const Attrs keep = {{"file_path", dir / "a"}, {"overwrite", false}};
  EXPECT_THAT(fails("save", {{"X", {"a"}}}, {}, keep), HasSubstr("exists already and overwrite"));
  EXPECT_THAT(fails("save_combine", {{"X", {"a"}}}, {}, keep),
              HasSubstr("exists already and overwrite is False"));
  const Attrs absent = {{"file_path", dir / "absent"}};
  EXPECT_THAT(fails("load", {}, {{"Out", {"b"}}}, absent), HasSubstr("absent"));
  const Attrs present = {{"file_path", dir / "a"}};
  EXPECT_THAT(fails("load_combine", {}, {{"Out", {"b", "c"}}}, present), HasSubstr(dir / "a"));
}

TEST(FeedAndFetch, MarkWhatTheCallerGivesAndTakes) {
  const std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  block.create_var({.name = "feed", .type = VarType::feed_minibatch, .persistable = true});
  block.create_var({.name = "fetch", .type = VarType::fetch_list, .persistable = true});
  block.create_var({.name = "x", .shape = {2}, .is_data = true});
  block.create_var({.name = "y", .has_shape = false});
  block.append_op({"feed", {{"X", {"feed"}}}, {{"Out", {"x"}}}, {{"col", 0}}});
  block.append_op({"scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {{"scale", 3.0f}}});
  block.append_op({"fetch", {{"X", {"y"}}}, {{"Out", {"fetch"}}}, {{"col", 0}}});
  Executor executor;
  Scope scope;
  const Feeds feeds = {{"x", floats({2}, {1, 2})}};
  const auto tripled = numbers(executor.run_one(*program, feeds, "y", {.scope = &scope}));
  EXPECT_TRUE(shows("feed", tripled == std::vector<double>{3, 6}));
  EXPECT_TRUE(shows("fetch", tripled == std::vector<double>{3, 6}));
  EXPECT_THAT(error_of([&] { executor.run_one(*program, {}, "y", {.scope = &scope}); }),
              HasSubstr("x"));
}

// ---- loss scaling

TEST(LossScaling, UnscalesAndFindsWhatIsNotFinite) {
  const auto run = [](float last) {
    return run_op({.type = "check_finite_and_unscale",
                   .inputs = {{"X", {floats({2}, {8, last}), floats({1}, {2})}},
                              {"Scale", {floats({1}, {4})}}},
                   .out_counts = {{"Out", 2}}});
  };
  const Tensors fine = run(-4);
  EXPECT_THAT(numbers(fine.at("Out")[0]), ElementsAre(2, -1));
  EXPECT_THAT(numbers(fine.at("Out")[1]), ElementsAre(0.5));
  EXPECT_THAT(numbers(fine.at("FoundInfinite")[0]), ElementsAre(0));
  EXPECT_THAT(numbers(run(INFINITY).at("FoundInfinite")[0]), ElementsAre(1));
}

TEST(LossScaling, GrowsAfterGoodStepsAndShrinksAfterBadOnes) {
  const auto run = [](bool infinite, int64_t good, int64_t bad) {
    return run_op({.type = "update_loss_scaling",
                   .inputs = {{"X", {floats({1}, {5})}},
                              {"FoundInfinite", {cast(longs({1}, {infinite}), DType::boolean)}},
                              {"PrevLossScaling", {floats({1}, {16})}},
                              {"InGoodSteps", {cast(longs({1}, {good}), DType::int32)}},
                              {"InBadSteps", {cast(longs({1}, {bad}), DType::int32)}}},
                   .attrs = {{"incr_every_n_steps", 3},
                             {"decr_every_n_nan_or_inf", 2},
                             {"incr_ratio", 2.0f},
                             {"decr_ratio", 0.5f}}});
  };
  const Tensors grown = run(false, 2, 0), waits = run(true, 2, 0), shrunk = run(true, 0, 1);
  EXPECT_THAT(numbers(grown.at("LossScaling")[0]), ElementsAre(32));
  EXPECT_THAT(numbers(grown.at("Out")[0]), ElementsAre(5));
  EXPECT_THAT(numbers(waits.at("LossScaling")[0]), ElementsAre(16));
  EXPECT_THAT(numbers(waits.at("Out")[0]), ElementsAre(0)) << "gradients that are not finite";
  EXPECT_THAT(numbers(waits.at("OutBadSteps")[0]), ElementsAre(1));
  EXPECT_THAT(numbers(shrunk.at("LossScaling")[0]), ElementsAre(8));
}

}  // namespace
}  // namespace trireme::testing
