// Known values and wrong uses of the ops on arrays, rank tables and masks.
#include <gmock/gmock.h>

#include "core/text.h"
#include "ir/program.h"
#include "ops/control/rank_table.h"
#include "runtime/executor.h"
#include "tests/support/op_record.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ops one after another; variables are made as they are named.
struct Chain {
  std::shared_ptr<Program> program = Program::create();
  Feeds feeds;
  Scope scope;
  Executor executor;

  Chain& feed(const std::string& name, const Tensor& value) {
    program->global_block().create_var({.name = name,
                                        .dtype = value.dtype(),
                                        .shape = value.shape(),
                                        .lod_level = static_cast<int>(value.lod().size()),
                                        .is_data = true});
    feeds[name] = value;
    return *this;
  }
  Chain& op(const std::string& type, const Slots& ins, const Slots& outs, Attrs attrs = {},
            VarType made = VarType::lod_tensor) {
    Block& block = program->global_block();
    for (const auto& [slot, names] : outs) {
      for (const std::string& name : names) {
        if (!block.find_var(name)) block.create_var({.name = name, .type = made});
      }
    }
    block.append_op({type, ins, outs, std::move(attrs)});
    return *this;
  }
  Chain& table(const std::string& x) {
    return op("lod_rank_table", {{"X", {x}}}, {{"Out", {"table"}}}, {}, VarType::lod_rank_table);
  }
  Variable run(const std::string& name) {
    Variable found = executor.run(*program, feeds, {name}, {.scope = &scope}).front();
    note_result(*program, name, found);
    return found;
  }
};

// Sequences of 1, 3, 0 and 3 rows.
Tensor sequences() {
  Tensor x = doubles({7, 1}, {10, 20, 21, 22, 40, 41, 42});
  x.set_lod({{0, 1, 4, 4, 7}});
  return x;
}

TEST(RankTable, OrdersSequencesByLengthAndKeepsTies) {
  Chain chain;
  chain.feed("x", sequences()).table("x");
  const auto table = chain.run("table").host<RankTable>();
  ASSERT_TRUE(table);
  std::vector<std::string> items;
  for (const auto& item : table->items) items.push_back(cat(item.index, ":", item.length));
  const std::vector<std::string> longest_first = {"1:3", "3:3", "0:1", "2:0"};
  EXPECT_TRUE(shows("lod_rank_table", items == longest_first)) << join(items);
  chain.op("max_sequence_len", {{"RankTable", {"table"}}}, {{"Out", {"n"}}});
  EXPECT_THAT(numbers(chain.run("n").tensor()), ElementsAre(3));
}

TEST(RankTable, NeedsLod) {
  Chain chain;
  chain.feed("x", doubles({2, 1}, {1, 2})).table("x");
  EXPECT_THAT(error_of([&] { chain.run("table"); }),
              HasSubstr("level is 0 but X has 0 levels of sequences"));
}

TEST(LodTensorToArray, CutsIntoStepsAndBack) {
  Chain chain;
  chain.feed("x", sequences()).table("x");
  chain.op("lod_tensor_to_array", {{"X", {"x"}}, {"RankTable", {"table"}}}, {{"Out", {"steps"}}},
           {}, VarType::lod_tensor_array);
  const Variable steps = chain.run("steps");
  ASSERT_EQ(steps.array().size(), 3u);
  EXPECT_THAT(numbers(steps.array()[0]), ElementsAre(20, 40, 10));
  EXPECT_THAT(numbers(steps.array()[1]), ElementsAre(21, 41));
  EXPECT_THAT(numbers(steps.array()[2]), ElementsAre(22, 42));
  chain.op("array_to_lod_tensor", {{"X", {"steps"}}, {"RankTable", {"table"}}},
           {{"Out", {"back"}}});
  const Variable back = chain.run("back");
  EXPECT_EQ(max_abs_diff(back.tensor(), sequences()), 0);
  EXPECT_EQ(back.tensor().lod(), sequences().lod());
}

TEST(LodTensorToArray, StepsOfTwoLevelsAreSequences) {
  Tensor x = doubles({5, 1}, {1, 2, 3, 4, 5});
  x.set_lod({{0, 1, 3}, {0, 2, 3, 5}});
  Chain chain;
  chain.feed("x", x).table("x");
  chain.op("lod_tensor_to_array", {{"X", {"x"}}, {"RankTable", {"table"}}}, {{"Out", {"steps"}}},
           {}, VarType::lod_tensor_array);
  const Variable steps = chain.run("steps");
  ASSERT_EQ(steps.array().size(), 2u);
  EXPECT_THAT(numbers(steps.array()[0]), ElementsAre(3, 1, 2));
  EXPECT_EQ(steps.array()[0].lod(), (Lod{{0, 1, 3}}));
  EXPECT_THAT(numbers(steps.array()[1]), ElementsAre(4, 5));
  chain.op("array_to_lod_tensor", {{"X", {"steps"}}, {"RankTable", {"table"}}},
           {{"Out", {"back"}}});
  EXPECT_EQ(max_abs_diff(chain.run("back").tensor(), x), 0);
  EXPECT_EQ(chain.run("back").tensor().lod(), x.lod());
}

TEST(LodTensorToArray, OtherSequencesThanTheTablesAreAnError) {
  Tensor other = doubles({4, 1}, {1, 2, 3, 4});
  other.set_lod({{0, 2, 4}});
  Chain chain;
  chain.feed("x", sequences()).feed("y", other).table("x");
  chain.op("lod_tensor_to_array", {{"X", {"y"}}, {"RankTable", {"table"}}}, {{"Out", {"steps"}}},
           {}, VarType::lod_tensor_array);
  EXPECT_THAT(error_of([&] { chain.run("steps"); }),
              HasSubstr("other sequences than the rank table"));
}

TEST(ReorderByRank, MovesRowsAndSequences) {
  Chain chain;
  chain.feed("x", sequences()).feed("rows", doubles({4, 1}, {0, 1, 2, 3})).table("x");
  chain.op("reorder_lod_tensor_by_rank", {{"X", {"rows"}}, {"RankTable", {"table"}}},
           {{"Out", {"a"}}});
  chain.op("reorder_lod_tensor_by_rank", {{"X", {"x"}}, {"RankTable", {"table"}}},
           {{"Out", {"b"}}});
  EXPECT_THAT(numbers(chain.run("a").tensor()), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(numbers(chain.run("b").tensor()), ElementsAre(20, 21, 22, 40, 41, 42, 10));
  EXPECT_EQ(chain.run("b").tensor().lod(), (Lod{{0, 3, 6, 7, 7}}));
  chain.op("reorder_lod_tensor_by_rank_grad", {{"X", {"b"}}, {"RankTable", {"table"}}},
           {{"Out", {"c"}}});
  EXPECT_EQ(max_abs_diff(chain.run("c").tensor(), sequences()), 0);
}

TEST(ShrinkMemory, KeepsTheRowsOfLongSequences) {
  Chain chain;
  chain.feed("x", sequences())
      .feed("memory", doubles({4, 1}, {1, 2, 3, 4}))
      .feed("i", longs({1}, {1}));
  chain.table("x").op("shrink_rnn_memory",
                      {{"X", {"memory"}}, {"RankTable", {"table"}}, {"I", {"i"}}},
                      {{"Out", {"out"}}});
  EXPECT_THAT(numbers(chain.run("out").tensor()), ElementsAre(1, 2));
}

TEST(SplitLodTensor, PartsSequencesByAMask) {
  Tensor mask(DType::boolean, {4, 1});
  for (int i = 0; i < 4; ++i) mask.data<bool>()[i] = i % 2 == 1;
  Chain chain;
  chain.feed("x", sequences()).feed("mask", mask);
  chain.op("split_lod_tensor", {{"X", {"x"}}, {"Mask", {"mask"}}},
           {{"OutTrue", {"t"}}, {"OutFalse", {"f"}}});
  EXPECT_THAT(numbers(chain.run("t").tensor()), ElementsAre(20, 21, 22, 40, 41, 42));
  EXPECT_EQ(chain.run("f").tensor().lod(), (Lod{{0, 1, 1}}));
  chain.op("merge_lod_tensor",
           {{"X", {"x"}}, {"Mask", {"mask"}}, {"InTrue", {"t"}}, {"InFalse", {"f"}}},
           {{"Out", {"m"}}});
  EXPECT_EQ(max_abs_diff(chain.run("m").tensor(), sequences()), 0);
  EXPECT_EQ(chain.run("m").tensor().lod(), sequences().lod());
}

TEST(SplitLodTensor, MaskSpeaksAboutEachRow) {
  Chain chain;
  chain.feed("x", doubles({3, 1}, {1, 2, 3})).feed("mask", filled(DType::boolean, {2, 1}, 0));
  chain.op("split_lod_tensor", {{"X", {"x"}}, {"Mask", {"mask"}}},
           {{"OutTrue", {"t"}}, {"OutFalse", {"f"}}});
  EXPECT_THAT(error_of([&] { chain.run("t"); }), HasSubstr("Mask has 2 elements"));
}

constexpr VarType kArray = VarType::lod_tensor_array;

TEST(Arrays, ElementsAreWrittenReadCountedAndJoined) {
  Chain chain;
  chain.feed("a", doubles({2, 1}, {1, 2})).feed("b", doubles({1, 1}, {3}));
  chain.feed("zero", longs({1}, {0})).feed("one", longs({1}, {1}));
  chain.op("write_to_array", {{"X", {"a"}}, {"I", {"zero"}}}, {{"Out", {"array"}}}, {}, kArray);
  chain.op("write_to_array", {{"X", {"b"}}, {"I", {"one"}}}, {{"Out", {"array"}}}, {}, kArray);
  const Variable array = chain.run("array");
  ASSERT_EQ(array.array().size(), 2u);
  EXPECT_THAT(numbers(array.array()[0]), ElementsAre(1, 2));
  chain.op("read_from_array", {{"X", {"array"}}, {"I", {"one"}}}, {{"Out", {"read"}}});
  EXPECT_THAT(numbers(chain.run("read").tensor()), ElementsAre(3));
  chain.op("lod_array_length", {{"X", {"array"}}}, {{"Out", {"length"}}});
  EXPECT_THAT(numbers(chain.run("length").tensor()), ElementsAre(2));
  chain.op("tensor_array_to_tensor", {{"X", {"array"}}},
           {{"Out", {"joined"}}, {"OutIndex", {"sizes"}}}, {{"axis", 0}});
  EXPECT_THAT(numbers(chain.run("joined").tensor()), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers(chain.run("sizes").tensor()), ElementsAre(2, 1));
}

TEST(Arrays, WrongUsesNameTheElement) {
  const auto fails = [](const std::string& type, int64_t index, const Slots& outs,
                        const Attrs& attrs = {}) {
    Chain chain;
    chain.feed("a", doubles({2, 1}, {1, 2})).feed("zero", longs({1}, {0}));
    chain.feed("i", longs({1}, {index}));
    chain.op("write_to_array", {{"X", {"a"}}, {"I", {"zero"}}}, {{"Out", {"array"}}}, {}, kArray);
    const bool writes = type == "write_to_array";
    Slots ins = {{"X", {writes ? "a" : "array"}}};
    if (type != "tensor_array_to_tensor") ins["I"] = {"i"};
    return error_of([&] {
      chain.op(type, ins, outs, attrs);
      chain.run(outs.at("Out").at(0));
    });
  };
  EXPECT_THAT(fails("read_from_array", 1, {{"Out", {"read"}}}),
              HasSubstr("element 1 is read, but the array has 1 elements"));
  EXPECT_THAT(fails("write_to_array", -1, {{"Out", {"array"}}}), HasSubstr("the index is -1"));
  EXPECT_THAT(
      fails("tensor_array_to_tensor", 0, {{"Out", {"all"}}, {"OutIndex", {"n"}}}, {{"axis", 2}}),
      HasSubstr("axis is 2 but there are 2 dimensions"));
  Chain chain;
  chain.feed("a", doubles({1}, {1}));
  EXPECT_THAT(error_of([&] {
                chain.op("lod_array_length", {{"X", {"a"}}}, {{"Out", {"n"}}}).run("n");
              }),
              HasSubstr("X is a LOD_TENSOR, not an array of tensors"));
}

TEST(RankTable, WrongUsesNameTheSequences) {
  const auto fails = [](const std::string& type, const Tensor& x, Slots more = {}) {
    Chain chain;
    chain.feed("x", sequences()).feed("other", x).feed("i", longs({1}, {0})).table("x");
    Slots ins = {{"X", {"other"}}, {"RankTable", {"table"}}};
    for (const auto& [slot, names] : more) ins[slot] = names;
    return error_of([&] { chain.op(type, ins, {{"Out", {"out"}}}).run("out"); });
  };
  const Tensor two = doubles({2, 1}, {1, 2});
  EXPECT_THAT(fails("reorder_lod_tensor_by_rank", two),
              HasSubstr("but the rank table orders 4 sequences"));
  EXPECT_THAT(fails("shrink_rnn_memory", two, {{"I", {"i"}}}),
              HasSubstr("but 3 sequences have a step 0"));
  EXPECT_THAT(fails("array_to_lod_tensor", two), HasSubstr("X is a LOD_TENSOR, not an array"));
  Chain chain;
  chain.feed("x", two);
  EXPECT_THAT(error_of([&] {
                chain.op("max_sequence_len", {{"RankTable", {"x"}}}, {{"Out", {"n"}}}).run("n");
              }),
              HasSubstr("RankTable holds no rank table"));
}

TEST(MergeLodTensor, AsksForNoMoreThanThereIs) {
  Chain chain;
  chain.feed("mask", filled(DType::boolean, {3, 1}, 1)).feed("t", doubles({2, 1}, {1, 2}));
  chain.op("merge_lod_tensor",
           {{"X", {"mask"}}, {"Mask", {"mask"}}, {"InTrue", {"t"}}, {"InFalse", {"t"}}},
           {{"Out", {"m"}}});
  EXPECT_THAT(error_of([&] { chain.run("m"); }), HasSubstr("Mask asks for 3 items of InTrue"));
}

TEST(SelectOutput, TheOthersAreZero) {
  Chain chain;
  chain.feed("x", doubles({2}, {1, 2})).feed("way", longs({1}, {1}));
  chain.op("select_output", {{"X", {"x"}}, {"Mask", {"way"}}}, {{"Out", {"a", "b"}}});
  EXPECT_THAT(numbers(chain.run("a").tensor()), ElementsAre(0, 0));
  EXPECT_THAT(numbers(chain.run("b").tensor()), ElementsAre(1, 2));
  chain.feeds["way"] = longs({1}, {2});
  EXPECT_THAT(error_of([&] { chain.run("a"); }), HasSubstr("Mask is 2 but there are 2 ways"));
}

TEST(SelectInput, TakesOneOfThem) {
  Chain chain;
  chain.feed("a", doubles({2}, {1, 2})).feed("b", doubles({1}, {3})).feed("way", longs({1}, {1}));
  chain.op("select_input", {{"X", {"a", "b"}}, {"Mask", {"way"}}}, {{"Out", {"out"}}});
  EXPECT_THAT(numbers(chain.run("out").tensor()), ElementsAre(3));
  chain.feeds["way"] = longs({1}, {0});
  EXPECT_THAT(numbers(chain.run("out").tensor()), ElementsAre(1, 2));
  chain.feeds["way"] = longs({1}, {2});
  EXPECT_THAT(error_of([&] { chain.run("out"); }), HasSubstr("Mask is 2 but there are 2 ways"));
}

}  // namespace
}  // namespace trireme::testing
