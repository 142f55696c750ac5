// Embedding tables on parameter servers: remote rows, tables by rows, sampled losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/warning.h"
#include "tests/transpiler/nets.h"
#include "transpiler/sliced_files.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tables 1000 x 64; the first is looked up twice.
struct SparseNet : FreshPrograms {
  SparseNet(bool is_distributed, const Minimize& minimize) {
    const auto ids = [](const char* name) -> Var& {
      return layers::data(name, {1}, {.dtype = DType::int64, .lod_level = 1});
    };
    const auto embed = [&](Var& id, const char* table) -> Var& {
      Var& rows = layers::embedding(id, {.size = {1000, 64},
                                         .is_sparse = true,
                                         .is_distributed = is_distributed,
                                         .param_attr = table});
      return layers::sequence_pool(rows, "sum");
    };
    Var& a = embed(ids("title"), "shared");
    Var& b = embed(ids("brand"), "shared");
    Var& c = embed(ids("user"), "other");
    Var& label = layers::data("label", {1}, {.dtype = DType::int64});
    Var& joined = layers::concat({a, b, c}, 1);
    Var& out =
        layers::fc(joined, {.size = 2, .param_attr = "fc_w", .bias_attr = "fc_b", .act = {}});
    minimize(layers::mean(layers::cross_entropy(out, label)));
  }
  DistributeTranspiler transpile(bool sync = true) {
    DistributeTranspiler transpiler;
    transpiler.transpile({.trainer_id = 0,
                          .program = main,
                          .startup_program = startup,
                          .pservers = kServers,
                          .trainers = 2,
                          .sync_mode = sync});
    return transpiler;
  }
};

void adam(Var& loss) { optimizer::Adam(0.1).minimize(loss); }

TEST(Sparse, RowsAreFetchedWhereTheyAreNeeded) {
  SparseNet net(false, adam);
  const DistributeTranspiler transpiler = net.transpile();
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_EQ(types_of(*main),
            "distributed_lookup_table distributed_lookup_table sequence_pool sequence_pool "
            "sequence_pool concat mul elementwise_add cross_entropy2 mean fill_constant mean_grad "
            "cross_entropy_grad2 elementwise_add_grad send mul_grad send concat_grad "
            "sequence_pool_grad lookup_table_grad split_selected_rows send sequence_pool_grad "
            "lookup_table_grad sequence_pool_grad lookup_table_grad sum split_selected_rows send "
            "send_barrier recv recv fetch_barrier");
  int lookups = 0;
  for (const Op* op : main->global_block().ops()) {
    if (op->type() != "distributed_lookup_table" || op->input("W").front() != "shared") continue;
    ++lookups;
    EXPECT_THAT(op->input("Ids"), ElementsAre("title", "brand"));
    EXPECT_EQ(op->output("Outputs").size(), 2u);
    EXPECT_THAT(strings(*op, "table_names"), ElementsAre("shared.block0", "shared.block1"));
    EXPECT_THAT(op->attr<std::vector<int64_t>>("height_sections"), ElementsAre(500, 500));
    EXPECT_EQ(strings(*op, "endpoints").size(), 2u);
    EXPECT_EQ(op->attr<std::string>("lookup_table_version"), "lookup_table");
  }
  EXPECT_EQ(lookups, 1);
  EXPECT_THAT(nth(*main, "split_selected_rows").attr<std::vector<int64_t>>("height_sections"),
              ElementsAre(500, 500));
  EXPECT_THAT(types_of(*net.startup), HasSubstr("fetch_barrier fake_init fake_init"));
  EXPECT_THAT(nth(*net.startup, "fake_init").attr<std::vector<int64_t>>("shape"),
              ElementsAre(1000, 64));
  for (const std::string& endpoint : {kEp0, kEp1}) {
    const auto server = transpiler.get_pserver_program(endpoint);
    EXPECT_EQ(blocks_of(*server),
              "[listen_and_serv] [sum scale adam] [sum scale adam] [sum scale adam]");
    EXPECT_EQ(strings(nth(*server, "listen_and_serv"), "sparse_grad_to_param").size(), 2u);
  }
  EXPECT_THAT(remote_names(*main), ::testing::Contains("shared"));
}

TEST(Sparse, IdsThatDependOnALookupGetAnOpOfTheirOwn) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  const layers::EmbeddingOptions table{
      .size = {1000, 64}, .is_sparse = true, .param_attr = "table"};
  Var& first = layers::embedding(ids, table);
  Var& next = layers::topk(first, 1).indices;
  Var& second = layers::embedding(next, table);
  sgd(layers::mean(layers::elementwise_add(first, second)));
  DistributeTranspiler transpiler;
  transpiler.transpile({.program = fresh.main,
                        .startup_program = fresh.startup,
                        .pservers = kServers,
                        .trainers = 2});
  EXPECT_THAT(types_of(*fresh.main),
              HasSubstr("distributed_lookup_table top_k distributed_lookup_table elementwise_add"));
}

TEST(Sparse, ATableThatAnotherOpReadsIsReceivedWhole) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  Var& row = layers::embedding(ids, {.size = {1000, 64}, .is_sparse = true, .param_attr = "table"});
  Var& table = fresh.main->global_block().var("table");
  sgd(layers::mean(layers::matmul(row, table, {.transpose_y = true})));
  DistributeTranspiler transpiler;
  transpiler.transpile({.program = fresh.main,
                        .startup_program = fresh.startup,
                        .pservers = kServers,
                        .trainers = 2});
  EXPECT_THAT(types_of(*fresh.main), HasSubstr("lookup_table"));
  EXPECT_THAT(types_of(*fresh.main), HasSubstr("recv fetch_barrier concat"));
}

TEST(Sparse, DistributedTablesAreCutById) {
  std::string said;
  set_warning_sink([&](const std::string& text) { said += text; });
  SparseNet net(true, adam);
  const DistributeTranspiler transpiler = net.transpile();
  set_warning_sink({});
  EXPECT_THAT(said, HasSubstr("updated by sgd, not by adam"));
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_THAT(types_of(*main), HasSubstr("split_ids prefetch merge_ids"));
  EXPECT_THAT(
      nth(*main, "prefetch").input("X"),
      ElementsAre("prefetch_compress_in_tmp_2", "prefetch_compress_in_tmp_3"));  // after "other"'s
  std::map<std::string, Strings> shards;
  for (const Op* op : main->global_block().ops()) {
    if (op->type() == "split_ids" && op->input("Ids").front().ends_with("@GRAD")) {
      shards[op->input("Ids").front()] = op->output("Out");
    }
  }
  EXPECT_THAT(shards["shared@GRAD"],
              ElementsAre("shared@GRAD.trainer_0.pserver_0", "shared@GRAD.trainer_0.pserver_1"));
  EXPECT_EQ(shards.size(), 2u);

  const auto [server, startup] = transpiler.get_pserver_programs(kEp0);
  EXPECT_EQ(blocks_of(*server),
            "[listen_and_serv] [sum scale adam] [sum scale sgd] [sum scale sgd] "
            "[lookup_sparse_table] [lookup_sparse_table] [save save]");
  const Op& serve = nth(*server, "listen_and_serv");
  EXPECT_EQ(serve.attr<int32_t>("checkpint_block_id"), 6);
  EXPECT_EQ(strings(serve, "prefetch_var_name_to_block_id").size(), 2u);
  EXPECT_EQ(server->global_block().var("shared").type(), VarType::selected_rows);
  for (const Op* op : startup->global_block().ops()) {
    if (op->output_names().front() != "shared") continue;
    EXPECT_THAT(op->attr<std::vector<int64_t>>("shape"), ElementsAre(500, 64));
  }
  SparseNet again(true, sgd);
  EXPECT_EQ(blocks_of(*again.transpile(false).get_pserver_program(kEp1)),
            "[listen_and_serv] [sgd] [sgd] [sgd] [lookup_sparse_table] [lookup_sparse_table] "
            "[save save]");
}

TEST(Sparse, OneTableUsedInTwoWaysIsRefused) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  layers::EmbeddingOptions table{
      .size = {1000, 64}, .is_sparse = true, .is_distributed = true, .param_attr = "table"};
  Var& first = layers::embedding(ids, table);
  table.is_distributed = false;
  Var& second = layers::embedding(ids, table);
  sgd(layers::mean(layers::elementwise_add(first, second)));
  EXPECT_THAT(error_of([&] {
                DistributeTranspiler().transpile({.program = fresh.main,
                                                  .startup_program = fresh.startup,
                                                  .pservers = kServers,
                                                  .trainers = 2});
              }),
              HasSubstr("table table is looked up with is_distributed=True, and here it is not"));
}

}  // namespace
}  // namespace trireme::testing
