// Embedding tables on parameter servers: remote rows, tables by rows, sampled losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Two servers, two trainers.
std::string transpile_error_of(const FreshPrograms& fresh) {
  return error_of([&] {
    DistributeTranspiler().transpile({.program = fresh.main,
                                      .startup_program = fresh.startup,
                                      .pservers = kServers,
                                      .trainers = 2});
  });
}

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
  EXPECT_EQ(transpile_error_of(fresh), "no error");
  EXPECT_THAT(types_of(*fresh.main),
              HasSubstr("distributed_lookup_table top_k distributed_lookup_table elementwise_add"));
}

TEST(Sparse, ATableThatAnotherOpReadsIsReceivedWhole) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  Var& row = layers::embedding(ids, {.size = {1000, 64}, .is_sparse = true, .param_attr = "table"});
  Var& table = fresh.main->global_block().var("table");
  sgd(layers::mean(layers::matmul(row, table, {.transpose_y = true})));
  EXPECT_EQ(transpile_error_of(fresh), "no error");
  EXPECT_THAT(types_of(*fresh.main), HasSubstr("lookup_table"));
  EXPECT_THAT(types_of(*fresh.main), HasSubstr("recv fetch_barrier concat"));
}

TEST(Sparse, DistributedTablesAreFetchedByRowsAndTakeAnyOptimizer) {
  SparseNet net(true, adam);
  const DistributeTranspiler transpiler = net.transpile();
  const auto main = transpiler.get_trainer_program(false);
  EXPECT_THAT(types_of(*main), HasSubstr("distributed_lookup_table distributed_lookup_table "
                                         "sequence_pool"));
  EXPECT_EQ(types_of(*main).find(" lookup_table "), std::string::npos);
  EXPECT_THAT(main->distributed->tables, ElementsAre("other", "shared"));
  for (const std::string& endpoint : {kEp0, kEp1}) {
    EXPECT_EQ(blocks_of(*transpiler.get_pserver_program(endpoint)),
              "[listen_and_serv] [sum scale adam] [sum scale adam] [sum scale adam]");
  }
  EXPECT_THAT(types_of(*net.startup), HasSubstr("fetch_barrier fake_init fake_init"));
}

TEST(Sparse, ADistributedTableNeedsASparseGradient) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  sgd(layers::mean(
      layers::embedding(ids, {.size = {1000, 64}, .is_distributed = true, .param_attr = "table"})));
  EXPECT_THAT(transpile_error_of(fresh), HasSubstr("build the embedding with is_sparse=True"));
}

TEST(Sparse, LookupsWithDifferentPaddingAreNotMerged) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  layers::EmbeddingOptions table{.size = {1000, 64}, .is_sparse = true, .param_attr = "table"};
  Var& first = layers::embedding(ids, table);
  table.padding_idx = 3;
  Var& second = layers::embedding(ids, table);
  sgd(layers::mean(layers::elementwise_add(first, second)));
  EXPECT_EQ(transpile_error_of(fresh), "no error");
  EXPECT_EQ(nth(*fresh.main, "distributed_lookup_table", 0).attr<int64_t>("padding_idx") +
                nth(*fresh.main, "distributed_lookup_table", 1).attr<int64_t>("padding_idx"),
            2);  // 3 and -1
}

// nce and hierarchical_sigmoid are told where the rows of their weights are, and so are their
// gradients; the weights are not received.
TEST(Sparse, SampledLossesKnowWhereTheirRowsAre) {
  for (const bool by_tree : {false, true}) {
    FreshPrograms fresh;
    Var& x = layers::data("x", {32});
    Var& label = layers::data("label", {1}, {.dtype = DType::int64});
    sgd(layers::mean(
        by_tree
            ? layers::hsigmoid(x, label,
                               {.num_classes = 1001, .param_attr = "rows", .is_sparse = true})
            : layers::nce(x, label,
                          {.num_total_classes = 1000, .param_attr = "rows", .is_sparse = true})));
    EXPECT_EQ(transpile_error_of(fresh), "no error");
    const std::string type = by_tree ? "hierarchical_sigmoid" : "nce";
    for (const std::string& name : {type, type + "_grad"}) {
      const Op& op = nth(*fresh.main, name);
      EXPECT_THAT(strings(op, "table_names"), ElementsAre("rows.block0", "rows.block1"));
      EXPECT_THAT(strings(op, "epmap").size(), 2u);
      EXPECT_THAT(op.attr<std::vector<int64_t>>("height_sections"), ElementsAre(500, 500));
    }
    EXPECT_THAT(types_of(*fresh.main), HasSubstr("split_selected_rows send"));
    for (const Op* op : fresh.main->global_block().ops()) {
      if (op->type() == "recv") {
        EXPECT_NE(strings(*op, "op_role_var")[0], "rows");
      }
    }
    EXPECT_THAT(types_of(*fresh.startup), HasSubstr("fake_init"));
  }
}

TEST(Sparse, ATableHasOneInitialiser) {
  FreshPrograms fresh;
  Var& ids = layers::data("ids", {1}, {.dtype = DType::int64});
  sgd(layers::mean(
      layers::embedding(ids, {.size = {1000, 64}, .is_sparse = true, .param_attr = "table"})));
  Block& startup = fresh.startup->global_block();
  startup.append_op({"scale", {{"X", {"table"}}}, {{"Out", {"table"}}}, {}});
  EXPECT_THAT(transpile_error_of(fresh), HasSubstr("table table has 2 ops that initialise it"));
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
  EXPECT_THAT(transpile_error_of(fresh),
              HasSubstr("table table is looked up with is_distributed=True, and here it is not"));
}

}  // namespace
}  // namespace trireme::testing
