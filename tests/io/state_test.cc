// save(program) and load(program), and the older files that load accepts.
#include "io/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"
#include "io/vars.h"
#include "tests/io/network.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::Network;
using trireme::testing::numbers;
using trireme::testing::TempDir;

void expect_loaded(const Network& net, const Scope& other) {
  for (const Var* var : select_vars(*net.main, is_persistable)) {
    ASSERT_NE(other.find(var->name()), nullptr) << var->name();
    EXPECT_EQ(numbers(other.find(var->name())->tensor()),
              numbers(net.scope.find(var->name())->tensor()))
        << var->name();
  }
}

TEST(SaveState, LoadsIntoAnEmptyScope) {
  for (const int protocol : {2, 3, 4}) {
    const TempDir dir;
    const Network net;
    save_state(*net.main, dir / "net", net.scope, {.protocol = protocol});
    for (const char* suffix : {".pdparams", ".pdopt", ".pdmodel"}) {
      EXPECT_TRUE(fs::is_regular_file(dir / ("net" + std::string(suffix))));
    }
    Scope other;
    load_state(*net.main, dir / "net.pdopt", other);
    expect_loaded(net, other);
    EXPECT_EQ(serialize(*parse_program(read_file(dir / "net.pdmodel", 1 << 20))),
              serialize(*net.main));
  }
}

TEST(SaveState, LargeArraysAreCutAndJoined) {
  const TempDir dir;
  const Network net;
  save_state(*net.main, dir / "net", net.scope, {.protocol = 2, .largest_array = 16});
  Scope other;
  load_state(*net.main, dir / "net", other);
  expect_loaded(net, other);
}

TEST(LoadState, TakesWhatSaveVarsWrote) {
  const TempDir dir;
  const Network net;
  save_persistables(net.scope, dir / "split", *net.main);
  save_persistables(net.scope, dir.path(), *net.main, "combined");
  Scope from_files, from_one;
  load_state(*net.main, dir / "split", from_files);
  expect_loaded(net, from_files);
  EXPECT_THAT(error_of([&] { load_state(*net.main, dir / "combined", from_one); }),
              HasSubstr("var_list is needed"));
  LoadStateOptions options;
  for (const Var* var : select_vars(*net.main, is_persistable)) {
    options.var_list.push_back(var->name());
  }
  load_state(*net.main, dir / "combined", from_one, options);
  expect_loaded(net, from_one);
  options.var_list.push_back("stranger");
  EXPECT_THAT(error_of([&] { load_state(*net.main, dir / "combined", from_one, options); }),
              HasSubstr("stranger of var_list is not in the program"));
}

TEST(LoadState, SaysWhatIsMissing) {
  const TempDir dir;
  const Network net;
  Scope other;
  EXPECT_THAT(error_of([&] { load_state(*net.main, dir / "none", other); }),
              HasSubstr("there is neither"));
  save_state(*net.main, dir / "net", net.scope);
  EXPECT_THAT(error_of([&] { load_state(*net.main, dir / "net", other, {.create = false}); }),
              HasSubstr("is not in the scope"));
  fs::remove(dir / "net.pdopt");
  EXPECT_THAT(error_of([&] { load_state(*net.main, dir / "net", other); }),
              HasSubstr("variables of the optimizer"));
}

TEST(ProgramState, IsReadWithoutAProgramAndSetWithOne) {
  const TempDir dir;
  Network net;
  save_state(*net.main, dir / "net", net.scope);
  const State state = load_program_state(dir / "net");
  EXPECT_TRUE(state.count("fc_0.w_0"));
  EXPECT_TRUE(state.count("learning_rate_0"));
  net.executor.run(*net.startup, {}, {}, {.scope = &net.scope});
  set_program_state(*net.main, state, net.scope);
  EXPECT_EQ(numbers(net.scope.find("fc_0.w_0")->tensor()), numbers(state.at("fc_0.w_0")));

  save_params(net.scope, dir / "split", *net.main);
  EXPECT_EQ(load_program_state(dir / "split").size(), 4u);
  EXPECT_EQ(load_program_state(dir / "split", {"fc_0.b_0"}).size(), 1u);
  const State wrong = {{"fc_0.w_0", trireme::testing::floats({1}, {0})}};
  EXPECT_THAT(error_of([&] { set_program_state(*net.main, wrong, net.scope); }),
              HasSubstr("but the given value is float32 [1]"));
}

}  // namespace
}  // namespace trireme
