// Ops of transpiled programs that run in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schema.h"
#include "ops/remote/row_init.h"
#include "runtime/executor.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One op on variables of a scope, several to a slot.
struct Bench {
  Scope scope;
  std::shared_ptr<Program> program = Program::create();
  Executor executor;

  void set(const std::string& name, Tensor tensor) { scope.var(name).tensor() = std::move(tensor); }
  void run(OpSpec spec) {
    Block& block = program->global_block();
    for (const Slots* slots : {&spec.inputs, &spec.outputs}) {
      for (const auto& [slot, names] : *slots) {
        for (const std::string& name : names) {
          const Variable* value = scope.find(name);
          const bool rows = value && value->kind() == Kind::rows;
          VarSpec var{.name = name,
                      .type = rows ? VarType::selected_rows : VarType::lod_tensor,
                      .persistable = true};
          if (value && value->kind() == Kind::dense) {
            var.dtype = value->tensor().dtype();
            var.shape = value->tensor().shape();
            var.lod_level = static_cast<int>(value->tensor().lod().size());
          }
          if (!block.find_var(name)) block.create_var(var);
        }
      }
    }
    block.append_op(std::move(spec));
    executor.run(*program, {}, {}, {.scope = &scope});
  }
  const Variable& at(const std::string& name) {
    note_result(*program, name, *scope.find(name));
    return *scope.find(name);
  }
};

TEST(SplitByref, CutsRows) {
  const Tensors outs = run_op({.type = "split_byref",
                               .inputs = {{"X", {floats({3, 2}, {1, 2, 3, 4, 5, 6})}}},
                               .attrs = {{"sections", std::vector<int32_t>{1, 2}}},
                               .out_counts = {{"Out", 2}}});
  EXPECT_THAT(numbers(outs.at("Out")[0]), ElementsAre(1, 2));
  EXPECT_THAT(numbers(outs.at("Out")[1]), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(error_of([] {
                run_op({.type = "split_byref",
                        .inputs = {{"X", {floats({3, 1}, {1, 2, 3})}}},
                        .attrs = {{"sections", std::vector<int32_t>{1, 1}}},
                        .out_counts = {{"Out", 2}}});
              }),
              HasSubstr("the sections have 2 rows but X is [3, 1]"));
}

TEST(SplitIds, MergesIdsAndCutsThemByRemainder) {
  Bench bench;
  bench.set("a", longs({3, 1}, {5, 2, 5}));
  bench.set("b", longs({2, 1}, {4, 2}));
  bench.run({"split_ids", {{"Ids", {"a", "b"}}}, {{"Out", {"even", "odd"}}}, {}});
  EXPECT_THAT(numbers(bench.at("even").tensor()), ElementsAre(2, 4));
  EXPECT_THAT(numbers(bench.at("odd").tensor()), ElementsAre(5));
}

TEST(SplitIds, RowsKeepTheirNumbers) {
  Bench bench;
  bench.scope.var("g").rows() = {{7, 4, 7}, 10, floats({3, 1}, {1, 2, 3})};
  bench.scope.var("even").rows();
  bench.scope.var("odd").rows();
  bench.run({"split_ids", {{"Ids", {"g"}}}, {{"Out", {"even", "odd"}}}, {}});
  EXPECT_THAT(bench.at("odd").rows().rows, ElementsAre(7, 7));
  EXPECT_THAT(numbers(bench.at("odd").rows().value), ElementsAre(1, 3));
  EXPECT_EQ(bench.at("even").rows().height, 10);
}

TEST(SplitIds, OneSelectedRowsComesAlone) {
  Bench bench;
  bench.scope.var("g").rows() = {{7}, 10, floats({1, 1}, {1})};
  EXPECT_THAT(error_of([&] {
                bench.run({"split_ids", {{"Ids", {"g", "g"}}}, {{"Out", {"even", "odd"}}}, {}});
              }),
              HasSubstr("SelectedRows come alone"));
}

TEST(MergeIds, AnIdThatNoPartHoldsIsNamed) {
  Bench bench;
  bench.set("ids", longs({1, 1}, {5}));
  bench.set("rows", longs({1, 1}, {2}));
  bench.set("x", floats({1, 1}, {20}));
  EXPECT_THAT(error_of([&] {
                bench.run({"merge_ids",
                           {{"Ids", {"ids"}}, {"Rows", {"rows"}}, {"X", {"x"}}},
                           {{"Out", {"out"}}},
                           {}});
              }),
              HasSubstr("Ids names 5, which no Rows holds"));
}

TEST(SplitSelectedRows, EachPartCountsItsRowsFromZero) {
  Bench bench;
  bench.scope.var("g").rows() = {{7, 1, 4}, 8, floats({3, 1}, {70, 10, 40})};
  bench.scope.var("low").rows();
  bench.scope.var("high").rows();
  const Attrs sections = {{"height_sections", std::vector<int64_t>{4, 4}}};
  bench.run({"split_selected_rows", {{"X", {"g"}}}, {{"Out", {"low", "high"}}}, sections});
  EXPECT_THAT(bench.at("low").rows().rows, ElementsAre(1));
  EXPECT_THAT(bench.at("high").rows().rows, ElementsAre(3, 0));
  EXPECT_THAT(numbers(bench.at("high").rows().value), ElementsAre(70, 40));
  EXPECT_THAT(error_of([&] {
                bench.run({"split_selected_rows", {{"X", {"g"}}}, {{"Out", {"low"}}}, sections});
              }),
              HasSubstr("height_sections has 2 entries but Out 1"));
}

TEST(MergeIds, RestoresOrderAndLod) {
  Bench bench;
  Tensor ids = longs({3, 1}, {5, 2, 5});
  ids.set_lod({{0, 1, 3}});
  bench.set("ids", ids);
  bench.set("r0", longs({1, 1}, {2}));
  bench.set("r1", longs({1, 1}, {5}));
  bench.set("x0", floats({1, 2}, {20, 21}));
  bench.set("x1", floats({1, 2}, {50, 51}));
  bench.run({"merge_ids",
             {{"Ids", {"ids"}}, {"Rows", {"r0", "r1"}}, {"X", {"x0", "x1"}}},
             {{"Out", {"out"}}},
             {}});
  EXPECT_THAT(numbers(bench.at("out").tensor()), ElementsAre(50, 51, 20, 21, 50, 51));
  EXPECT_EQ(bench.at("out").tensor().lod(), (Lod{{0, 1, 3}}));
}

TEST(LookupSparseTable, AnUnknownIdTakesAFreeRow) {
  Bench bench;
  bench.scope.var("w").rows() = {{9}, 100, floats({2, 1}, {1.5f, 2.5f})};
  bench.set("ids", longs({3, 1}, {40, 9, 40}));
  bench.run({"lookup_sparse_table", {{"W", {"w"}}, {"Ids", {"ids"}}}, {{"Out", {"out"}}}, {}});
  EXPECT_THAT(numbers(bench.at("out").tensor()), ElementsAre(2.5, 1.5, 2.5));
  EXPECT_THAT(bench.at("w").rows().rows, ElementsAre(9, 40));
  bench.set("ids", longs({1, 1}, {41}));
  EXPECT_THAT(
      error_of([&] { bench.executor.run(*bench.program, {}, {}, {.scope = &bench.scope}); }),
      HasSubstr("room for 2 ids and all are taken; id 41 is new"));
}

TEST(RefByTrainerId, GivesThatTrainersCopy) {
  Bench bench;
  bench.set("a", floats({1}, {1}));
  bench.set("b", floats({1}, {2}));
  bench.set("id", longs({1}, {1}));
  bench.run(
      {"ref_by_trainer_id", {{"X", {"a", "b"}}, {"TrainerId", {"id"}}}, {{"Out", {"out"}}}, {}});
  EXPECT_THAT(numbers(bench.at("out").tensor()), ElementsAre(2));
  bench.set("id", longs({1}, {2}));
  EXPECT_THAT(
      error_of([&] { bench.executor.run(*bench.program, {}, {}, {.scope = &bench.scope}); }),
      HasSubstr("TrainerId is 2 but there are 2 copies"));
}

TEST(FakeInit, GivesAShapeAndNoMemory) {
  Bench bench;
  const size_t before = allocated_bytes();
  bench.run({"fake_init", {}, {{"Out", {"w"}}}, {{"shape", std::vector<int64_t>{1000000, 64}}}});
  EXPECT_TRUE(shows("fake_init", bench.at("w").tensor().shape() == Shape{1000000, 64}));
  EXPECT_FALSE(bench.at("w").initialized());
  EXPECT_LT(allocated_bytes() - before, 1000u);
  EXPECT_THAT(
      error_of([&] {
        bench.run({"fake_init", {}, {{"Out", {"v"}}}, {{"shape", std::vector<int64_t>{-1, 64}}}});
      }),
      HasSubstr("shape is [-1, 64]"));
}

TEST(InitRows, SaysHowTheRowsOfATableBegin) {
  Bench bench;
  const auto init = [](const char* initializer) {
    return OpSpec{"init_rows",
                  {},
                  {{"Out", {"table"}}},
                  {{"shape", std::vector<int64_t>{1000000, 64}},
                   {"initializer", std::string(initializer)},
                   {"min", -0.5f},
                   {"max", 0.5f},
                   {"seed", int64_t{7}}}};
  };
  const size_t before = allocated_bytes();
  bench.run(init("uniform_random"));
  const auto rows = bench.at("table").host<RowInit>();
  ASSERT_TRUE(rows);
  EXPECT_TRUE(shows("init_rows", rows->height() == 1000000 && rows->width() == 64 &&
                                     rows->law == RowInit::Law::uniform && rows->first == -0.5 &&
                                     rows->second == 0.5 && rows->seed == 7));
  EXPECT_LT(allocated_bytes() - before, 1000u);
  EXPECT_THAT(error_of([&] { bench.run(init("assign_value")); }),
              HasSubstr("initializer is assign_value"));
}

TEST(DeleteVar, EmptiesAPersistableVariable) {
  Bench bench;
  bench.set("w", floats({1}, {1}));
  bench.run({"delete_var", {{"X", {"w"}}}, {}, {}});
  EXPECT_TRUE(shows("delete_var", !bench.at("w").initialized()));
}

// An op of the row with its operands and what it requires, whatever that is.
OpSpec least_use(const OpSchema& row) {
  OpSpec spec{.type = row.type(), .inputs = {}, .outputs = {}, .attrs = {}};
  for (const SlotSpec& slot : row.inputs()) {
    if (!slot.dispensable) spec.inputs[slot.name] = {"x"};
  }
  for (const SlotSpec& slot : row.outputs()) spec.outputs[slot.name] = {"out_" + slot.name};
  for (const AttrSpec& attr : row.attributes()) {
    if (attr.fallback) continue;
    spec.attrs[attr.name] = attr.type == AttrType::string   ? Attribute(std::string("a"))
                            : attr.type == AttrType::floats ? Attribute(std::vector<float>{0.5f})
                            : attr.type == AttrType::int32  ? Attribute(1)
                                                            : Attribute(1.0f);
  }
  return spec;
}

TEST(RemoteOps, SayWhatIsMissing) {
  for (const std::string type : {"dgc", "dgc_clip_by_norm", "dgc_momentum"}) {
    Bench bench;
    bench.set("x", floats({1}, {1}));
    const std::string what = error_of([&] { bench.run(least_use(op_table().get(type))); });
    EXPECT_THAT(what, HasSubstr(type + " belongs to deep gradient compression"));
    EXPECT_THAT(what, HasSubstr("train with Momentum"));
  }
}

TEST(RemoteOps, DevicesOfOneProcessAreNoRanks) {
  Bench bench;
  const std::string what =
      error_of([&] { bench.run(least_use(op_table().get("c_comm_init_all"))); });
  EXPECT_THAT(what, HasSubstr("with_data_parallel(loss_name) trains on all devices"));
}

TEST(SyncStreams, GiveTheirOperand) {
  for (const std::string type : {"c_sync_calc_stream", "c_sync_comm_stream"}) {
    EXPECT_THAT(numbers(run_op(type, {{"X", floats({2}, {1, 2})}})), ElementsAre(1, 2));
  }
}

}  // namespace
}  // namespace trireme::testing
