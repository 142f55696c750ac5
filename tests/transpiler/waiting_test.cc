// Runs of transpiled programs wait for the other processes; transpiling never does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/flags.h"
#include "ir/distributed.h"
#include "runtime/executor.h"
#include "tests/support/listener.h"
#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

// How long runs wait, in milliseconds; 0: for ever.
class Waiting : public ::testing::Test {
 protected:
  static void limit(int64_t milliseconds) { set_flag("rpc_deadline", milliseconds); }
  ~Waiting() override { limit(180000); }

  static std::string run(const Program& program, Executor& executor, RunOptions options = {}) {
    Scope scope;
    options.scope = &scope;
    return error_of([&] { executor.run(program, {}, {}, options); });
  }
  static std::string run(const Program& program) {
    Executor executor;
    return run(program, executor);
  }

  // Waiting comes before the first op; what the ops ask of servers is another story.
  static Program& without_calls(Program& program) {
    Block& block = program.global_block();
    for (size_t i = block.size(); i-- > 0;) {
      const std::string& type = block.op(i).type();
      if (type == "recv" || type == "fetch_barrier") block.remove_ops(i, i + 1);
    }
    return program;
  }

  Listener up_;
  Listener down_{Listener::Start::later};
  std::string servers_ = up_.endpoint() + "," + down_.endpoint();
  ClassicNet net_{sgd, 16};
};

// What a run that does not wait any more ends with.
const auto kWentOn = Eq("no error");
const auto kNotFed = HasSubstr("it reads the data variable x, which is not fed");

TEST_F(Waiting, IsNoPartOfTranspiling) {
  limit(1);
  EXPECT_EQ(error_of([&] {
              DistributeTranspiler transpiler;
              transpiler.transpile(net_.request(0, 2, servers_));
              transpiler.get_trainer_program(true);
              transpiler.get_pserver_programs(down_.endpoint());
            }),
            "no error");
  for (const char* mode : {"nccl2", "collective"}) {
    ClassicNet net(sgd, 16);
    DistributeTranspilerConfig config;
    config.mode = mode;
    config.collective_mode = "grad_allreduce";
    TranspileRequest request = net.request();
    request.trainers = servers_;
    request.current_endpoint = up_.endpoint();
    EXPECT_EQ(error_of([&] { DistributeTranspiler(config).transpile(request); }), "no error");
  }
}

TEST_F(Waiting, EndsWithAListOfTheServersThatCannotBeReached) {
  limit(200);
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, servers_));
  const auto main = transpiler.get_trainer_program();
  for (const Program* program : {net_.startup.get(), main.get()}) {
    const std::string what = run(*program);
    EXPECT_THAT(what, AllOf(HasSubstr("after 0.2 s"), HasSubstr("connections: " + down_.endpoint()),
                            Not(HasSubstr(up_.endpoint())), Not(kWentOn)));
  }
}

TEST_F(Waiting, EndsWhenAllListen) {
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, servers_));
  transpiler.get_trainer_program(true);
  int tries = 0;
  Executor executor;
  const auto come = [&] {
    if (++tries == 3) down_.listen();
  };
  EXPECT_THAT(run(without_calls(*net_.startup), executor, {.poll = come}), kWentOn);
  EXPECT_GE(tries, 3);
}

TEST_F(Waiting, CanBeInterrupted) {
  limit(0);
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, servers_));
  Executor executor;
  EXPECT_THAT(run(*net_.startup, executor, {.poll = [] { throw Error("Ctrl-C"); }}),
              HasSubstr("Ctrl-C"));
}

// Who has answered once is not asked before every step.
TEST_F(Waiting, HappensOnce) {
  limit(200);
  auto gone = std::make_unique<Listener>();
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, gone->endpoint()));
  const auto main = transpiler.get_trainer_program();
  Executor executor;
  EXPECT_THAT(run(without_calls(*net_.startup), executor), kWentOn);
  const std::string endpoint = gone->endpoint();
  gone.reset();
  EXPECT_THAT(run(*net_.startup, executor), kWentOn);
  EXPECT_THAT(run(*main, executor), kNotFed);
  EXPECT_THAT(run(*main), HasSubstr("connections: " + endpoint));  // another executor
}

// It would wait for ever.
TEST_F(Waiting, IsNotDoneWithoutWaitPort) {
  limit(0);
  DistributeTranspiler asked;
  asked.transpile(net_.request(0, 2, servers_));
  const auto main = asked.get_trainer_program(false);
  EXPECT_THAT(run(without_calls(*net_.startup)), kWentOn);
  EXPECT_THAT(run(*main), kNotFed);

  ClassicNet net(sgd, 16);
  DistributeTranspilerConfig config;
  config.wait_port = false;
  DistributeTranspiler(config).transpile(net.request(0, 2, servers_));
  EXPECT_THAT(run(without_calls(*net.startup)), kWentOn);
}

TEST_F(Waiting, IsNothingForServers) {
  limit(1);
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, servers_));
  transpiler.get_trainer_program(true);
  const auto [main, startup] = transpiler.get_pserver_programs(down_.endpoint());
  EXPECT_EQ(run(*startup), "no error");
  EXPECT_THAT(run(*main), AnyOf(HasSubstr("cannot listen on " + down_.endpoint()),
                                HasSubstr("this build of Trireme has no gRPC")));
}

// The first rank gives the ids away while the startup program runs; the others listen then only.
TEST_F(Waiting, IsForTheFirstRanksStartup) {
  limit(100);
  for (const char* mode : {"nccl2", "collective"}) {
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(cat(mode, " rank ", rank));
      ClassicNet net(sgd, 16);
      DistributeTranspilerConfig config;
      config.mode = mode;
      config.collective_mode = "grad_allreduce";
      TranspileRequest request = net.request(rank);
      request.trainers = servers_;
      request.current_endpoint = rank == 0 ? up_.endpoint() : down_.endpoint();
      DistributeTranspiler(config).transpile(request);
      if (rank == 0) {
        EXPECT_THAT(run(*net.startup), HasSubstr("connections: " + down_.endpoint()));
      } else {
        EXPECT_THAT(run(*net.startup), HasSubstr("cannot listen on " + down_.endpoint()));
      }
      EXPECT_TRUE(net.main->distributed->wait_for.empty());
    }
  }
}

// ParallelExecutor's runs too.
TEST_F(Waiting, ComesBeforeRunsOnSeveralDevices) {
  limit(100);
  DistributeTranspiler transpiler;
  transpiler.transpile(net_.request(0, 2, servers_));
  Executor executor;
  EXPECT_THAT(error_of([&] { executor.run_parallel(*net_.main, std::vector<Feeds>(2), {}, {}); }),
              HasSubstr("connections: " + down_.endpoint()));
}

}  // namespace
}  // namespace trireme::testing
