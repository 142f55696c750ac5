// Arithmetic that also takes SelectedRows: sum, scale, clip, elementwise_mul, assign, isfinite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SelectedRows sparse(std::vector<int64_t> rows, const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(rows.size());
  return {.rows = std::move(rows), .height = 4, .value = floats({n, 2}, values)};
}

struct Operand {
  std::string slot;
  std::variant<Tensor, SelectedRows> value;
};

// Runs one op on variables that lie in the scope and gives back Out as it is.
Variable run(const std::string& type, const std::vector<Operand>& operands, Attrs attrs = {}) {
  const auto program = Program::create();
  Block& block = program->global_block();
  Scope scope;
  OpSpec spec{.type = type, .inputs = {}, .outputs = {{"Out", {"out"}}}, .attrs = std::move(attrs)};
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = cat("in_", i);
    const bool is_dense = std::holds_alternative<Tensor>(operands[i].value);
    const Tensor& tensor = is_dense ? std::get<Tensor>(operands[i].value)
                                    : std::get<SelectedRows>(operands[i].value).value;
    block.create_var({.name = name,
                      .type = is_dense ? VarType::lod_tensor : VarType::selected_rows,
                      .dtype = tensor.dtype(),
                      .shape = is_dense ? tensor.shape() : Shape{4, 2},
                      .persistable = true});
    if (is_dense) {
      scope.var(name).tensor() = tensor;
    } else {
      scope.var(name).rows() = std::get<SelectedRows>(operands[i].value);
    }
    spec.inputs[operands[i].slot].push_back(name);
  }
  block.create_var({.name = "out", .has_shape = false});
  block.append_op(spec);
  return std::move(Executor().run(*program, {}, {"out"}, {.scope = &scope}).at(0));
}

TEST(SelectedRowsMath, SumOfSparseOnesPutsTheirRowsOneAfterAnother) {
  const Variable out =
      run("sum", {{"X", sparse({3, 1}, {1, 2, 3, 4})}, {"X", sparse({1}, {5, 6})}});
  ASSERT_EQ(out.kind(), Kind::rows);
  EXPECT_THAT(out.rows().rows, ElementsAre(3, 1, 1));
  EXPECT_EQ(out.rows().height, 4);
  EXPECT_THAT(numbers(out.rows().value), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(SelectedRowsMath, SumWithADenseOneIsDense) {
  const Tensor dense = floats({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
  const Variable out = run("sum", {{"X", dense}, {"X", sparse({1, 1}, {1, 2, 3, 4})}});
  EXPECT_THAT(numbers(out.tensor()), ElementsAre(1, 1, 5, 7, 1, 1, 1, 1));
}

TEST(SelectedRowsMath, ScaleKeepsTheRows) {
  const Variable out = run("scale", {{"X", sparse({2}, {1, 2})}}, {{"scale", 3.f}});
  EXPECT_THAT(out.rows().rows, ElementsAre(2));
  EXPECT_THAT(numbers(out.rows().value), ElementsAre(3, 6));
}

TEST(SelectedRowsMath, ClipTakesARowNamedTwiceAsItsSum) {
  const Variable out =
      run("clip", {{"X", sparse({2, 2}, {1, -3, 1, 1})}}, {{"min", -1.f}, {"max", 1.5f}});
  const SelectedRows merged = merge_rows(out.rows());
  EXPECT_THAT(merged.rows, ElementsAre(2));
  EXPECT_THAT(numbers(merged.value), ElementsAre(1.5, -1));
}

TEST(SelectedRowsMath, MultipliesByOneNumber) {
  const Variable out =
      run("elementwise_mul", {{"X", sparse({2}, {1, 2})}, {"Y", floats({1}, {4})}});
  EXPECT_THAT(numbers(out.rows().value), ElementsAre(4, 8));
}

TEST(SelectedRowsMath, MultiplyingByMoreIsRefused) {
  const std::string what = error_of([] {
    run("elementwise_mul", {{"X", sparse({2}, {1, 2})}, {"Y", floats({2}, {4, 4})}});
  });
  EXPECT_THAT(what, HasSubstr("multiply SelectedRows by a Y of one element"));
}

TEST(SelectedRowsMath, AssignCopiesAndIsfiniteLooksAtTheValues) {
  const Variable copy = run("assign", {{"X", sparse({3}, {1, 2})}});
  EXPECT_THAT(copy.rows().rows, ElementsAre(3));
  EXPECT_THAT(numbers(copy.rows().value), ElementsAre(1, 2));
  const Variable finite = run("isfinite", {{"X", sparse({3}, {1, std::nanf("")})}});
  EXPECT_THAT(numbers(finite.tensor()), ElementsAre(0));
}

}  // namespace
}  // namespace trireme::testing
