// Embedding tables and the ops on SelectedRows.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/schema.h"
#include "tests/support/op_runner.h"
#include "tests/support/scope_runner.h"

namespace trireme::testing {
namespace {

const Tensor& table() {
  static const Tensor value = doubles({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
  return value;
}

TEST(LookupTable, GivesTheRowsTheIdsName) {
  Tensor ids = longs({3, 1}, {2, 0, 2});
  ids.set_lod({{0, 1, 3}});
  const Tensor out = run_op("lookup_table", {{"W", table()}, {"Ids", ids}});
  EXPECT_EQ(out.shape(), (Shape{3, 2}));
  EXPECT_EQ(numbers(out), (std::vector<double>{20, 21, 0, 1, 20, 21}));
  EXPECT_EQ(out.lod(), ids.lod());
}

TEST(LookupTable, VersionTwoKeepsTheShapeOfTheIds) {
  const Tensor out = run_op("lookup_table_v2", {{"W", table()}, {"Ids", longs({1, 2}, {3, 1})}});
  EXPECT_EQ(out.shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(numbers(out), (std::vector<double>{30, 31, 10, 11}));
  const Tensor narrow = run_op(
      "lookup_table_v2", {{"W", table()}, {"Ids", cast(longs({1, 2}, {3, 1}), DType::int32)}});
  EXPECT_EQ(numbers(narrow), numbers(out));
}

TEST(LookupTable, PaddingGivesZeros) {
  const Tensor out = run_op("lookup_table_v2", {{"W", table()}, {"Ids", longs({3}, {1, 2, 1})}},
                            {{"padding_idx", int64_t{1}}});
  EXPECT_EQ(numbers(out), (std::vector<double>{0, 0, 20, 21, 0, 0}));
}

TEST(LookupTable, AnIdOutsideTheTableIsAnErrorThatNamesIt) {
  for (const int64_t bad : {int64_t{4}, int64_t{-1}}) {
    const std::string error = error_of([&] {
      run_op("lookup_table", {{"W", table()}, {"Ids", longs({2, 1}, {0, bad})}});
    });
    EXPECT_NE(error.find("id " + std::to_string(bad) + " at position 1"), std::string::npos)
        << error;
    EXPECT_NE(error.find("4 rows"), std::string::npos) << error;
  }
}

TEST(LookupTable, IdsMustEndInOne) {
  const std::string error = error_of([&] {
    run_op("lookup_table", {{"W", table()}, {"Ids", longs({2, 2}, {0, 1, 1, 0})}});
  });
  EXPECT_NE(error.find("last dimension must be 1"), std::string::npos) << error;
}

TEST(LookupTable, FloatIdsAreAnError) {
  const std::string error = error_of([&] {
    run_op("lookup_table_v2", {{"W", table()}, {"Ids", doubles({1}, {1})}});
  });
  EXPECT_NE(error.find("ids are int64 or int32"), std::string::npos) << error;
}

TEST(LookupTableGrad, SparseRowsAreTheIdsAndAddUpToTheDenseGradient) {
  for (const std::string type : {"lookup_table", "lookup_table_v2"}) {
    ScopeRunner runner;
    runner.set("W", table());
    runner.set("Ids",
               type == "lookup_table" ? longs({4, 1}, {2, 0, 2, 1}) : longs({4}, {2, 0, 2, 1}));
    runner.set("dOut", doubles({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
    const std::map<std::string, std::string> ins = {
        {"W", "W"}, {"Ids", "Ids"}, {"Out@GRAD", "dOut"}};
    runner.run(type + "_grad", ins, {{"W@GRAD", "dense"}}, {{"padding_idx", int64_t{1}}});
    EXPECT_EQ(numbers(runner.tensor("dense")), (std::vector<double>{3, 4, 0, 0, 6, 8, 0, 0}));
    runner.run(type + "_grad", ins, {{"W@GRAD", "sparse"}},
               {{"padding_idx", int64_t{1}}, {"is_sparse", true}});
    const SelectedRows& sparse = runner.rows("sparse");
    EXPECT_EQ(sparse.height, 4);
    EXPECT_EQ(sparse.rows, (std::vector<int64_t>{2, 0, 2, 1}));
    EXPECT_EQ(numbers(sparse.value), (std::vector<double>{1, 2, 3, 4, 5, 6, 0, 0}));
  }
}

SelectedRows some_rows() { return {{3, 1, 3}, 5, doubles({3, 2}, {1, 2, 3, 4, 5, 6})}; }

TEST(MergeSelectedRows, AddsUpRowsThatRepeat) {
  ScopeRunner runner;
  runner.set("X", some_rows());
  runner.run("merge_selected_rows", {{"X", "X"}}, {{"Out", "Out"}});
  EXPECT_EQ(runner.rows("Out").rows, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(runner.rows("Out").height, 5);
  EXPECT_EQ(numbers(runner.rows("Out").value), (std::vector<double>{3, 4, 6, 8}));
}

TEST(MergeSelectedRows, ATensorIsAnError) {
  ScopeRunner runner;
  runner.set("X", table());
  const std::string error = error_of([&] {
    runner.run("merge_selected_rows", {{"X", "X"}}, {{"Out", "Out"}});
  });
  EXPECT_NE(error.find("must be SELECTED_ROWS"), std::string::npos) << error;
}

TEST(SelectedRows, GoOnlyWhereTheyAreTaken) {
  ScopeRunner runner;
  runner.set("dense", table());
  runner.set("sparse", some_rows());
  const std::pair<const char*, const char*> uses[] = {{"fill_zeros_like", "X"},
                                                      {"is_empty", "X"},
                                                      {"rnn_memory_helper", "X"},
                                                      {"where_index", "Condition"}};
  for (const auto& [op, slot] : uses) {
    const std::string error = error_of([&, op = op, slot = slot] {
      runner.run(op, {{slot, "sparse"}}, {{"Out", "o"}});
    });
    EXPECT_NE(error.find("is a SELECTED_ROWS, but this op takes a tensor"), std::string::npos)
        << error;
  }
  const std::string error = error_of([&] {
    runner.run("get_tensor_from_selected_rows", {{"X", "dense"}}, {{"Out", "o"}});
  });
  EXPECT_NE(error.find("must be SELECTED_ROWS"), std::string::npos) << error;
}

TEST(GetTensorFromSelectedRows, IsTheValue) {
  ScopeRunner runner;
  runner.set("X", some_rows());
  runner.run("get_tensor_from_selected_rows", {{"X", "X"}}, {{"Out", "Out"}});
  EXPECT_EQ(runner.tensor("Out").shape(), (Shape{3, 2}));
  EXPECT_EQ(numbers(runner.tensor("Out")), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(ClipByNorm, ScalesLongTensorsAlone) {
  const Tensor x = doubles({2}, {3, 4});
  EXPECT_EQ(numbers(run_op("clip_by_norm", {{"X", x}}, {{"max_norm", 10.0f}})), numbers(x));
  EXPECT_LT(max_abs_diff(run_op("clip_by_norm", {{"X", x}}, {{"max_norm", 2.5f}}),
                         doubles({2}, {1.5, 2})),
            1e-12);
}

TEST(ClipByNorm, SparseRowsCountAsTheirSum) {
  ScopeRunner runner;
  runner.set("X", some_rows());
  runner.run("clip_by_norm", {{"X", "X"}}, {{"Out", "Out"}}, {{"max_norm", 1.0f}});
  const double norm = std::sqrt(9.0 + 16 + 36 + 64);  // of the merged rows
  EXPECT_EQ(runner.rows("Out").rows, some_rows().rows);
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(runner.rows("Out").value.data<double>()[i], (i + 1) / norm, 1e-12);
  }
}

TEST(ClipByNorm, ANormOfZeroIsAnError) {
  const std::string error = error_of([&] {
    run_op("clip_by_norm", {{"X", table()}}, {{"max_norm", 0.0f}});
  });
  EXPECT_NE(error.find("max_norm is 0"), std::string::npos) << error;
}

}  // namespace
}  // namespace trireme::testing
