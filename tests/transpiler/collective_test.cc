// nccl2 and collective modes: what is inserted where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/distributed.h"
#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kForward = "mul elementwise_add elementwise_sub square mean ";

TranspileRequest ranks(const ClassicNet& net, int rank = 0) {
  TranspileRequest request = net.request(rank);
  request.trainers = std::string(kServers);
  request.current_endpoint = rank == 0 ? kEp0 : kEp1;
  return request;
}

TEST(Nccl2, AppendsTheIdToTheStartupProgram) {
  ClassicNet net;
  const std::string before = serialize(*net.main);
  DistributeTranspilerConfig config;
  config.mode = "nccl2";
  config.nccl_comm_num = 2;
  DistributeTranspiler transpiler(config);
  transpiler.transpile(ranks(net));
  EXPECT_EQ(serialize(*net.main), before);
  EXPECT_EQ(types_of(*net.startup), "fill_constant fill_constant uniform_random gen_nccl_id");
  const Op& gen = nth(*net.startup, "gen_nccl_id");
  EXPECT_THAT(gen.output("NCCLID"), ElementsAre("NCCLID"));
  EXPECT_THAT(strings(gen, "trainers"), ElementsAre(kEp0, kEp1));
  EXPECT_EQ(gen.attr<int32_t>("nccl_comm_num"), 2);
  EXPECT_FALSE(gen.attr<bool>("use_hierarchical_allreduce"));
  const Var& second = net.startup->global_block().var("NCCLID_1");
  EXPECT_EQ(second.type(), VarType::raw);
  EXPECT_TRUE(second.persistable());
  EXPECT_THAT(net.main->distributed->trainer_endpoints, ElementsAre(kEp0, kEp1));
  // The others listen while their startup program runs, not later.
  EXPECT_THAT(net.startup->distributed->wait_for, ElementsAre(kEp1));
  EXPECT_THAT(net.main->distributed->wait_for, ElementsAre());
}

TEST(Nccl2, HierarchicalHasIdsOfBothLevels) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.mode = "nccl2";
  config.use_hierarchical_allreduce = true;
  config.hierarchical_allreduce_inter_nranks = 2;
  config.wait_port = false;
  TranspileRequest request = ranks(net);
  request.trainers = std::string("a:1,a:2,b:1,b:2");
  request.current_endpoint = "a:1";
  DistributeTranspiler transpiler(config);
  transpiler.transpile(request);
  EXPECT_NE(net.startup->global_block().find_var("Hierarchical_inter_NCCLID_0"), nullptr);
  EXPECT_NE(net.startup->global_block().find_var("Hierarchical_exter_NCCLID_0"), nullptr);
  EXPECT_EQ(nth(*net.startup, "gen_nccl_id").attr<int32_t>("hierarchical_allreduce_inter_nranks"),
            2);
  EXPECT_TRUE(net.startup->distributed->wait_for.empty());
}

DistributeTranspilerConfig collective(const char* how, int rings = 1) {
  DistributeTranspilerConfig config;
  config.mode = "collective";
  config.collective_mode = how;
  config.nccl_comm_num = rings;
  return config;
}

TEST(Collective, GradAllreduceSumsGradientsAfterTheirOps) {
  ClassicNet net;
  DistributeTranspiler transpiler(collective("grad_allreduce"));
  transpiler.transpile(ranks(net, 1));
  EXPECT_EQ(types_of(*net.startup),
            "fill_constant fill_constant uniform_random c_gen_nccl_id c_comm_init c_broadcast "
            "c_broadcast c_sync_comm_stream");
  EXPECT_EQ(types_of(*net.main),
            kForward +
                "fill_constant scale mean_grad square_grad elementwise_sub_grad "
                "elementwise_add_grad c_sync_calc_stream c_allreduce_sum mul_grad "
                "c_sync_calc_stream c_allreduce_sum c_sync_comm_stream sgd sgd");
  EXPECT_FLOAT_EQ(nth(*net.main, "scale").attr<float>("scale"), 0.5f);
  EXPECT_THAT(nth(*net.main, "c_allreduce_sum").input("X"), ElementsAre("fc_b@GRAD"));
  const Op& gen = nth(*net.startup, "c_gen_nccl_id");
  EXPECT_EQ(gen.attr<int32_t>("rank"), 1);
  EXPECT_EQ(gen.attr<std::string>("endpoint"), kEp1);
  EXPECT_THAT(strings(gen, "other_endpoints"), ElementsAre(kEp0));
  EXPECT_EQ(nth(*net.startup, "c_comm_init").attr<int32_t>("nranks"), 2);
}

TEST(Collective, RingsTakeTurnsFromTheEnd) {
  ClassicNet net;
  DistributeTranspiler transpiler(collective("grad_allreduce", 2));
  transpiler.transpile(ranks(net));
  EXPECT_EQ(nth(*net.main, "c_allreduce_sum", 1).attr<int32_t>("ring_id"), 0);
  EXPECT_EQ(nth(*net.main, "c_allreduce_sum", 0).attr<int32_t>("ring_id"), 1);
  EXPECT_EQ(nth(*net.main, "c_sync_comm_stream", 1).attr<int32_t>("ring_id"), 1);
}

TEST(Collective, LocalSgdAveragesParameters) {
  ClassicNet net;
  DistributeTranspiler transpiler(collective("local_sgd"));
  transpiler.transpile(ranks(net));
  EXPECT_THAT(types_of(*net.startup), HasSubstr("c_sync_comm_stream assign assign"));
  EXPECT_THAT(
      types_of(*net.main),
      HasSubstr("sgd elementwise_sub c_sync_calc_stream c_allreduce_sum sgd elementwise_sub "
                "c_sync_calc_stream c_allreduce_sum c_sync_comm_stream scale "
                "elementwise_sub assign scale elementwise_sub assign"));
  EXPECT_THAT(nth(*net.main, "elementwise_sub", 1).input("X"), ElementsAre("fc_b@SNAPSHOT"));
}

TEST(Collective, MultiThreadTakesACount) {
  ClassicNet net;
  DistributeTranspiler transpiler(collective("single_process_multi_thread"));
  TranspileRequest request = net.request();
  request.trainers = 4;
  transpiler.transpile(request);
  EXPECT_EQ(types_of(*net.startup), "fill_constant fill_constant uniform_random c_comm_init_all");
  EXPECT_FLOAT_EQ(nth(*net.main, "scale").attr<float>("scale"), 0.25f);
}

}  // namespace
}  // namespace trireme::testing
