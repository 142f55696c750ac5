// Bad arguments of the transpilers: each error names argument, value and what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/warning.h"
#include "layers/optimizer_wrapper.h"
#include "tests/transpiler/nets.h"
#include "transpiler/memory_optimize.h"

namespace trireme::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Call>
ErrorKind kind_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  throw InternalError("no error");
}

std::string config_error(const std::function<void(DistributeTranspilerConfig&)>& edit,
                         bool sync_argument = true) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  edit(config);
  return error_of([&] {
    DistributeTranspiler transpiler(config);
    TranspileRequest request = net.request();
    request.sync_mode = sync_argument;
    transpiler.transpile(request);
  });
}

TEST(Config, FieldsAreChecked) {
  EXPECT_THAT(config_error([](auto& c) { c.min_block_size = 100; }),
              HasSubstr("min_block_size is 100 but must be at least 8192"));
  EXPECT_THAT(config_error([](auto& c) { c.mode = "nccl3"; }),
              HasSubstr("mode is 'nccl3' but must be 'pserver', 'nccl2' or 'collective'"));
  EXPECT_THAT(config_error([](auto& c) { c.runtime_split_send_recv = true; }),
              HasSubstr("runtime_split_send_recv is True while sync_mode is True"));
  EXPECT_THAT(config_error([](auto& c) { c.enable_dc_asgd = true; }),
              HasSubstr("enable_dc_asgd is True while sync_mode is True"));
  EXPECT_THAT(config_error([](auto& c) { c.half_async = true; }, false),
              HasSubstr("half_async is True while runtime_split_send_recv is False"));
  EXPECT_THAT(config_error([](auto& c) { c.half_async = true; }),
              HasSubstr("half_async is True while sync_mode is True"));
  EXPECT_THAT(config_error([](auto& c) { c.completely_not_async = true; }, false),
              HasSubstr("completely_not_async is True while half_async is False"));
  EXPECT_THAT(config_error([](auto& c) {
                c.sync_mode = false;
                c.geo_sgd_mode = c.half_async = c.runtime_split_send_recv = true;
              }),
              HasSubstr("geo_sgd_mode and half_async are both True"));
  EXPECT_THAT(config_error([](auto& c) { c.geo_sgd_mode = c.enable_dc_asgd = true; }),
              HasSubstr("geo_sgd_mode and enable_dc_asgd are both True"));
  EXPECT_THAT(config_error([](auto& c) { c.geo_sgd_need_push_nums = 0; }),
              HasSubstr("geo_sgd_need_push_nums is 0 but must be at least 1"));
  EXPECT_EQ(kind_of([] {
              DistributeTranspilerConfig config;
              config.min_block_size = 1;
              DistributeTranspiler{config};
            }),
            ErrorKind::assertion);
}

// Which number a server is told, out of every choice that users have.
TEST(Config, OneModeComesOutOfAllFields) {
  const auto label = [](const std::function<void(DistributeTranspilerConfig&)>& edit,
                        bool sync_argument) {
    DistributeTranspilerConfig config;
    edit(config);
    return resolve_mode(config, sync_argument).label;
  };
  const auto background = [](auto& c) {
    c.sync_mode = false;
    c.runtime_split_send_recv = true;
  };
  EXPECT_EQ(label([](auto&) {}, true), DistributedMode::sync);
  EXPECT_EQ(label([](auto&) {}, false), DistributedMode::half_async);
  EXPECT_EQ(label([](auto& c) { c.sync_mode = false; }, true), DistributedMode::half_async);
  EXPECT_EQ(label([](auto& c) { c.sync_mode = false; }, false), DistributedMode::half_async);
  for (const bool sync_argument : {true, false}) {
    EXPECT_EQ(label(background, sync_argument), DistributedMode::async);
    EXPECT_EQ(label(
                  [&](auto& c) {
                    background(c);
                    c.half_async = true;
                  },
                  sync_argument),
              DistributedMode::async);
    EXPECT_EQ(label(
                  [&](auto& c) {
                    background(c);
                    c.half_async = c.completely_not_async = true;
                  },
                  sync_argument),
              DistributedMode::sync);
    EXPECT_EQ(label([](auto& c) { c.geo_sgd_mode = true; }, sync_argument), DistributedMode::geo);
  }
}

std::string request_error(const std::function<void(TranspileRequest&)>& edit,
                          const char* mode = "pserver") {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.mode = mode;
  config.collective_mode = "grad_allreduce";
  DistributeTranspiler transpiler(config);
  TranspileRequest request = net.request();
  if (config.mode != "pserver") {
    request.trainers = std::string(kServers);
    request.current_endpoint = kEp0;
  }
  edit(request);
  return error_of([&] { transpiler.transpile(request); });
}

TEST(Transpile, EndpointsAreChecked) {
  EXPECT_THAT(request_error([](auto& r) { r.pservers = ""; }), HasSubstr("blank"));
  EXPECT_THAT(request_error([](auto& r) { r.pservers = "127.0.0.1:1,,"; }), HasSubstr("blank"));
  EXPECT_THAT(request_error([](auto& r) { r.pservers = "127.0.0.1"; }),
              HasSubstr("'127.0.0.1' is not of the form ip:port"));
  EXPECT_THAT(request_error([](auto& r) { r.pservers = "a:99999"; }), HasSubstr("ip:port"));
  EXPECT_THAT(request_error([](auto& r) { r.pservers = "a:1,a:1"; }),
              HasSubstr("a:1 is there twice"));
  EXPECT_THAT(request_error([](auto& r) { r.pservers = " a:1 , b:1 "; }), HasSubstr("no error"));
}

TEST(Transpile, TrainersAreChecked) {
  EXPECT_THAT(request_error([](auto& r) { r.trainers = 0; }), HasSubstr("trainers is 0"));
  EXPECT_THAT(request_error([](auto& r) { r.trainers = std::string("a:1"); }),
              HasSubstr("in pserver mode must be a number"));
  EXPECT_THAT(request_error([](auto& r) { r.trainers = 2; }, "nccl2"),
              HasSubstr("must name the endpoints of all ranks"));
  EXPECT_THAT(request_error([](auto& r) { r.trainer_id = -1; }, "nccl2"),
              HasSubstr("trainer_id is -1 but must be from 0 to 1"));
  EXPECT_THAT(request_error([](auto& r) { r.trainer_id = 2; }, "collective"),
              HasSubstr("trainer_id is 2 but must be from 0 to 1"));
  EXPECT_THAT(request_error([](auto& r) { r.current_endpoint = "c:1"; }, "collective"),
              HasSubstr("current_endpoint is c:1, which is not among trainers"));
  EXPECT_THAT(request_error(
                  [](auto& r) {
                    r.trainers = std::string("a:1");
                    r.current_endpoint = "a:1";
                  },
                  "collective"),
              HasSubstr("needs at least two"));
}

TEST(Transpile, TrainerIdIsCheckedInEveryMode) {
  for (const int id : {-1, 2, 7}) {
    const std::string wanted = cat("trainer_id is ", id, " but must be from 0 to 1");
    for (const char* mode : {"pserver", "nccl2", "collective"}) {
      EXPECT_THAT(request_error([&](auto& r) { r.trainer_id = id; }, mode), HasSubstr(wanted))
          << mode;
    }
  }
}

TEST(Transpile, HierarchicalCountsAreChecked) {
  for (const int inter : {0, 2, 3}) {
    ClassicNet net;
    DistributeTranspilerConfig config;
    config.mode = "nccl2";
    config.use_hierarchical_allreduce = true;
    config.hierarchical_allreduce_inter_nranks = inter;
    TranspileRequest request = net.request();
    request.trainers = std::string(kServers);
    request.current_endpoint = kEp0;
    EXPECT_THAT(error_of([&] { DistributeTranspiler(config).transpile(request); }),
                HasSubstr(cat("hierarchical_allreduce_inter_nranks is ", inter)));
  }
}

TEST(Transpile, CollectiveModeIsChecked) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.mode = "collective";
  EXPECT_THAT(error_of([&] { DistributeTranspiler(config).transpile(net.request()); }),
              HasSubstr("collective_mode is None"));
  config.collective_mode = "magic";
  EXPECT_THAT(error_of([&] { DistributeTranspiler(config).transpile(net.request()); }),
              HasSubstr("collective_mode is 'magic'"));
}

DistributeTranspilerConfig config_of(const std::string& mode) {
  DistributeTranspilerConfig config;
  config.mode = mode == "pserver" || mode == "nccl2" ? mode : "collective";
  config.collective_mode = mode;
  return config;
}

TranspileRequest request_of(const ClassicNet& net, const std::string& mode) {
  TranspileRequest request = net.request();
  if (mode == "pserver") return request;
  request.trainers = std::string(kServers);
  request.current_endpoint = kEp0;
  return request;
}

// nccl2 leaves the main program as it is, so there it may be any.
TEST(Transpile, NeedsMinimizeFirst) {
  for (const char* mode : {"grad_allreduce", "local_sgd"}) {
    ClassicNet net([](Var&) {});
    EXPECT_THAT(
        error_of([&] { DistributeTranspiler(config_of(mode)).transpile(request_of(net, mode)); }),
        HasSubstr("call minimize first"))
        << mode;
  }
}

TEST(Transpile, ServersThatUpdateNothingAreWarnedOf) {
  std::string said;
  set_warning_sink([&](const std::string& text) { said += text; });
  ClassicNet net([](Var&) {});
  DistributeTranspiler transpiler(config_of("pserver"));
  transpiler.transpile(request_of(net, "pserver"));
  set_warning_sink({});
  EXPECT_THAT(said, HasSubstr("servers will update nothing: call minimize before transpile"));
  EXPECT_EQ(transpiler.get_pserver_programs(kEp0).first->global_block().ops().back()->type(),
            "listen_and_serv");
}

TEST(Transpile, ParametersAreWrittenByTheirOptimizersOnly) {
  const Minimize lookahead = [](Var& loss) {
    optimizer::Lookahead(std::make_shared<optimizer::Sgd>(0.1), 0.5, 2).minimize(loss);
  };
  ClassicNet net(lookahead);
  EXPECT_THAT(error_of([&] { DistributeTranspiler().transpile(net.request()); }),
              HasSubstr("on the trainer, but servers keep and update it"));
  // In geo mode trainers keep them.
  ClassicNet own(lookahead);
  DistributeTranspilerConfig geo;
  geo.geo_sgd_mode = true;
  EXPECT_EQ(error_of([&] { DistributeTranspiler(geo).transpile(own.request()); }), "no error");
}

TEST(Transpile, UpdatesInsideABranchAreRefused) {
  FreshPrograms fresh;
  Var& loss = layers::mean(layers::fc(layers::data("x", {16}), {.size = 1}));
  Var& zero = layers::fill_constant({1}, DType::float32, 0);
  layers::Switch branch;
  branch.when(layers::less_than(zero, layers::reduce_sum(loss)), [&] { sgd(loss); });
  EXPECT_THAT(error_of([&] {
                DistributeTranspiler().transpile({.program = fresh.main,
                                                  .startup_program = fresh.startup,
                                                  .pservers = kServers,
                                                  .trainers = 2});
              }),
              AllOf(HasSubstr("stands in a branch or loop"),
                    HasSubstr("call minimize outside of the branch")));
}

// Trainers and servers must mean the same by a gradient's name.
TEST(Transpile, GradientsMustHaveKeptTheirNames) {
  FreshPrograms fresh;
  // The bias and the loss have one element each.
  sgd(layers::mean(layers::fc(layers::data("x", {16}), {.size = 1})));
  memory_optimize(*fresh.main, {.level = 1});
  EXPECT_THAT(error_of([&] {
                DistributeTranspiler().transpile({.program = fresh.main,
                                                  .startup_program = fresh.startup,
                                                  .pservers = kServers,
                                                  .trainers = 2});
              }),
              AllOf(HasSubstr("is kept under the name"),
                    HasSubstr("call memory_optimize before transpile with skip_grads=True")));
}

TEST(Transpile, OnlyTensorsAndSelectedRowsCanBeSent) {
  ClassicNet net;
  net.main->global_block().var("fc_b@GRAD").set_type(VarType::lod_tensor_array);
  EXPECT_THAT(error_of([&] { DistributeTranspiler().transpile(net.request()); }),
              HasSubstr("the gradient fc_b@GRAD is LOD_TENSOR_ARRAY; only LOD_TENSOR and "
                        "SELECTED_ROWS can be sent"));
}

// Compressed gradients are exchanged between ranks; servers would have to take them apart again.
TEST(Transpile, DgcIsRefused) {
  for (const char* type : {"dgc_momentum", "dgc_clip_by_norm"}) {
    ClassicNet net([](Var& loss) { optimizer::Momentum(0.1, 0.9).minimize(loss); });
    Block& block = net.main->global_block();
    block.create_var({.name = "step", .shape = {1}, .persistable = true});
    for (Op* op : block.ops()) {
      if (op->type() != "momentum") continue;
      OpSpec spec = op->spec();
      spec.type = type;
      spec.inputs["current_step"] = {"step"};
      const auto index = static_cast<size_t>(op->index());
      block.insert_raw_op(index, spec, op->line());
      break;
    }
    EXPECT_THAT(error_of([&] { DistributeTranspiler().transpile(net.request()); }),
                AllOf(HasSubstr(cat(type, " works with collective training only")),
                      HasSubstr("use MomentumOptimizer with parameter servers")));
  }
}

TEST(Transpile, ASecondTimeNamesTheFirstMode) {
  for (const char* first : {"pserver", "nccl2", "grad_allreduce"}) {
    for (const char* second : {"pserver", "nccl2", "grad_allreduce"}) {
      ClassicNet net;
      const DistributeTranspilerConfig config = config_of(first);
      DistributeTranspiler(config).transpile(request_of(net, first));
      EXPECT_THAT(error_of([&] {
                    DistributeTranspiler(config_of(second)).transpile(request_of(net, second));
                  }),
                  HasSubstr(cat("was transpiled already, in mode '", config.mode, "'")));
    }
  }
}

TEST(Transpile, ARefusedRequestLeavesTheProgramsAlone) {
  ClassicNet net;
  const std::string main = serialize(*net.main), startup = serialize(*net.startup);
  TranspileRequest request = net.request();
  request.pservers = "nowhere";
  EXPECT_NE(error_of([&] { DistributeTranspiler().transpile(request); }), "no error");
  EXPECT_EQ(serialize(*net.main), main);
  EXPECT_EQ(serialize(*net.startup), startup);
}

TEST(Get, NeedsTranspileAndParameterServers) {
  DistributeTranspiler transpiler;
  EXPECT_THAT(error_of([&] { transpiler.get_trainer_program(false); }),
              HasSubstr("call transpile first"));
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.mode = "nccl2";
  DistributeTranspiler nccl2(config);
  TranspileRequest request = net.request();
  request.trainers = std::string(kServers);
  request.current_endpoint = kEp0;
  nccl2.transpile(request);
  EXPECT_THAT(error_of([&] { nccl2.get_pserver_program(kEp0); }),
              HasSubstr("mode is 'nccl2', which has no parameter servers"));
}

TEST(Get, UnknownEndpointsAndProgramsAreNamed) {
  ClassicNet net;
  DistributeTranspiler transpiler;
  transpiler.transpile(net.request());
  EXPECT_THAT(error_of([&] { transpiler.get_pserver_program("x:1"); }),
              AllOf(HasSubstr("endpoint is x:1"), HasSubstr(kEp0)));
  const auto server = transpiler.get_pserver_program(kEp0);
  EXPECT_EQ(error_of([&] { transpiler.get_startup_program(kEp0, server.get()); }), "no error");
  EXPECT_EQ(error_of([&] { transpiler.get_startup_program(kEp0); }), "no error");
  EXPECT_THAT(error_of([&] { transpiler.get_startup_program(kEp1, server.get()); }),
              HasSubstr("was not made by get_pserver_program for " + kEp1));
}

TEST(SplitMethod, ChoicesAreChecked) {
  struct Wrong : PsDispatcher {
    using PsDispatcher::PsDispatcher;
    Strings dispatch(const std::vector<PlacedVar>& vars) override {
      return Strings(vars.size(), "nowhere:1");
    }
  };
  EXPECT_THAT(config_error([](auto& c) {
                c.split_method = [](Strings eps) {
                  return std::make_unique<Wrong>(std::move(eps));
                };
              }),
              HasSubstr("split_method chose nowhere:1 for fc_b"));
}

}  // namespace
}  // namespace trireme::testing
