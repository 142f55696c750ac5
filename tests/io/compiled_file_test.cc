// Compiled programs come back from files, and damaged files are refused.
#include "io/compiled_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/support/op_runner.h"
#include "tests/support/temp_dir.h"

namespace trireme::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Trained {
  std::shared_ptr<Program> main = Program::create(), startup = Program::create();
  std::string loss;
  Scope scope;
  Executor executor;
  std::unique_ptr<CompiledProgram> compiled;

  explicit Trained(int devices = 1, BuildStrategy build = {}) {
    {
      ProgramGuard guard(main, startup);
      Var& x = layers::data("x", {4});
      Var& value = layers::mean(layers::fc(layers::fc(x, {.size = 5, .act = "tanh"}), {.size = 1}));
      loss = value.name();
      optimizer::Adam(0.1).minimize(value);
    }
    executor.run(*startup, {}, {}, {.scope = &scope});
    compiled = std::make_unique<CompiledProgram>(main, build);
    if (devices > 1) {
      compiled->with_data_parallel(
          {.loss_name = loss, .places = std::vector<Place>(static_cast<size_t>(devices))});
    }
    for (int i = 0; i < 3; ++i) step(*compiled, executor, scope);
  }
  static Feeds feeds() { return {{"x", floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}}; }
  double step(CompiledProgram& program, Executor& exe, Scope& in) const {
    const auto results = program.run(exe, feeds(), {loss}, {.scope = &in});
    return element_as_double(results[0].by_device[0].tensor(), 0);
  }
};

TEST(CompiledFile, GoesOnWhereItWasSaved) {
  for (int devices : {1, 2}) {
    const TempDir dir;
    Trained net(devices);
    save_compiled(dir / "net", *net.compiled, net.scope, &net.executor,
                  {.proof_feeds = Trained::feeds(), .proof_fetches = {net.loss}});
    Scope scope;
    Executor executor;
    LoadedCompiled loaded = load_compiled(dir / "net", executor, scope);
    EXPECT_THAT(loaded.notes, IsEmpty()) << devices;
    EXPECT_EQ(loaded.compiled->is_data_parallel(), devices > 1);
    EXPECT_EQ(loaded.plans.size(), 1u);
    EXPECT_EQ(run_proof(loaded, scope), 0);
    const size_t compiles = executor.counters().compiles;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(net.step(*loaded.compiled, executor, scope),
                net.step(*net.compiled, net.executor, net.scope));
    }
    EXPECT_EQ(executor.counters().compiles, compiles) << "the plan was there before the first run";
  }
}

TEST(CompiledFile, StrategiesComeBack) {
  BuildStrategy build;
  build.sync_batch_norm = true;
  build.virtual_shards = 4;
  build.memory_optimize = false;
  build.mkldnn_enabled_op_types = {"conv2d", "relu"};
  ExecutionStrategy exec;
  exec.num_threads = 3;
  BuildStrategy build_again;
  ExecutionStrategy exec_again;
  read_text(to_text(build, exec), build_again, exec_again);
  EXPECT_EQ(to_text(build, exec), to_text(build_again, exec_again));
  EXPECT_EQ(build_again.virtual_shards, 4);
  EXPECT_EQ(build_again.memory_optimize, std::optional<bool>(false));
  EXPECT_THAT(error_of([&] { read_text("build.nonsense = 1\n", build, exec); }),
              HasSubstr("build.nonsense"));
}

TEST(CompiledFile, WithoutParametersTheirHashesAreCompared) {
  const TempDir dir;
  Trained net;
  save_compiled(dir / "net", *net.compiled, net.scope, &net.executor, {.parameters = false});
  Executor executor;
  Scope empty;
  EXPECT_THAT(load_compiled(dir / "net", executor, empty).notes,
              Contains(HasSubstr("is not in the file: load it before the first run")));
  EXPECT_THAT(load_compiled(dir / "net", executor, net.scope).notes, IsEmpty());
  net.step(*net.compiled, net.executor, net.scope);
  EXPECT_THAT(load_compiled(dir / "net", executor, net.scope).notes,
              Contains(HasSubstr("is not what it was when the program was saved")));
}

TEST(CompiledFile, EveryFlippedByteAndEveryCutIsFound) {
  const TempDir dir;
  Trained net;
  save_compiled(dir / "net", *net.compiled, net.scope, &net.executor);
  const std::string bytes = read_file(dir / "net", 1 << 24);
  size_t accepted = 0;
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    Scope scope;
    try {
      read_compiled(changed, "changed", scope);
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(accepted, 0u);
  for (size_t size = 0; size < bytes.size(); size += 101) {
    Scope scope;
    EXPECT_NE(error_of([&] { read_compiled(bytes.substr(0, size), "cut", scope); }), "no error");
  }
}

}  // namespace
}  // namespace trireme::testing
