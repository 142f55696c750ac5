// Rows with several kernels: each one agrees with the last, the reference, forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

// Makes one kernel of a row by hand and runs it, in one piece or in the parts it asks for.
Tensors run_kernel(const OpSchema& row, const Kernel& kernel, const Tensors& inputs,
                   const Attrs& attrs, bool in_parts = true, int* parts = nullptr) {
  KernelRunner runner(row, kernel, inputs, attrs);
  if (parts) *parts = runner.parts();
  runner.run(in_parts);
  return runner.results();
}

// Runs every kernel of `row` and returns the reference's results.
Tensors compare_kernels(const OpSchema& row, const Tensors& inputs, const Attrs& attrs) {
  const Tensors expected = run_kernel(row, row.kernels().back(), inputs, attrs);
  for (const Kernel& kernel : row.kernels()) {
    for (const auto& [slot, tensors] : run_kernel(row, kernel, inputs, attrs)) {
      EXPECT_LT(max_abs_diff(tensors.front(), expected.at(slot).front()), 1e-10)
          << row.type() << " " << kernel.name << ", " << slot;
    }
  }
  return expected;
}

// What a row says may be written over an operand is the same there, bit by bit.
TEST(Kernels, ResultsWrittenOverOperandsAreTheSame) {
  int compared = 0;
  for (const OpSchema* row : op_table().rows()) {
    if (row->body_rule()) continue;  // its kernels take what is no tensor
    for (const auto& [operand, result] : row->inplace_pairs()) {
      for (size_t rule = 0; rule < row->samples().size(); ++rule) {
        Draw draw(rule + 1);
        const OpSample sample = row->samples()[rule](draw);
        const bool single = std::all_of(sample.inputs.begin(), sample.inputs.end(),
                                        [](const auto& slot) { return slot.second.size() == 1; });
        for (const Kernel& kernel : row->kernels()) {
          if (!single || row->trait().host) continue;
          SCOPED_TRACE(cat(row->type(), " sample ", rule, ", ", kernel.name, ": ", operand));
          KernelRunner apart(*row, kernel, sample.inputs, sample.attrs);
          KernelRunner over(*row, kernel, sample.inputs, sample.attrs);
          if (apart.declined() || !over.put_over(operand, result)) continue;
          ASSERT_NO_THROW(apart.run());
          ASSERT_NO_THROW(over.run());
          const Tensors expected = apart.results();
          for (const auto& [slot, tensors] : over.results()) {
            EXPECT_EQ(max_abs_diff(tensors.front(), expected.at(slot).front()), 0) << slot;
          }
          ++compared;
        }
      }
    }
  }
  std::printf("results over their operands: %d runs\n", compared);
  EXPECT_GT(compared, 20);
}

TEST(Kernels, EveryKernelAgreesWithTheReference) {
  int compared = 0;
  for (const OpSchema* row : op_table().rows()) {
    if (row->kernels().size() < 2 || row->forward()) continue;
    for (size_t rule = 0; rule < row->samples().size(); ++rule) {
      SCOPED_TRACE(cat(row->type(), " sample ", rule));
      Draw draw(rule + 1);
      const OpSample sample = row->samples()[rule](draw);
      const Tensors outputs = compare_kernels(*row, sample.inputs, sample.attrs);
      ++compared;
      if (!row->differentiable()) continue;
      const OpSchema* gradient = op_table().find(row->grad_op_type());
      ASSERT_NE(gradient, nullptr);
      Tensors inputs = sample.inputs;
      for (const auto& [slot, tensors] : outputs) {
        inputs[slot] = tensors;
        inputs[grad_name(slot)] = {draw.uniform(tensors.front().shape())};
      }
      compare_kernels(*gradient, inputs, sample.attrs);
    }
  }
  EXPECT_GT(compared, 0);
}

// What an op's library kernels leave, relative to the largest number of the reference's result.
// Each kernel also gives the same bits whether its parts run one by one or not at all cut.
void compare_in_float32(const char* type, const Tensors& operands, const Attrs& attrs,
                        double tolerance) {
  const OpSchema& row = op_table().get(type);
  const Tensors exact = run_kernel(row, row.kernels().back(), operands, attrs);
  const Tensors single = in_float32(operands);
  int found = 0;
  for (const Kernel& kernel : row.kernels()) {
    const Tensors cut = run_kernel(row, kernel, single, attrs);
    const Tensors whole = run_kernel(row, kernel, single, attrs, false);
    for (const auto& [slot, tensors] : cut) {
      const Tensor& expected = exact.at(slot).front();
      double largest = 0;
      for (const double number : numbers(expected)) largest = std::max(largest, std::abs(number));
      EXPECT_LE(max_abs_diff(tensors.front(), expected), tolerance * largest)
          << type << " " << kernel.name << ", " << slot;
      EXPECT_EQ(numbers(tensors.front()), numbers(whole.at(slot).front()))
          << type << " " << kernel.name << ", " << slot;
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Kernels, Float32SamplesAgreeWithTheReference) {
  for (const OpSchema* row : op_table().rows()) {
    if (row->kernels().size() < 2 || row->forward()) continue;
    for (size_t rule = 0; rule < row->samples().size(); ++rule) {
      SCOPED_TRACE(cat(row->type(), " sample ", rule));
      Draw draw(rule + 1);
      const OpSample sample = row->samples()[rule](draw);
      compare_in_float32(row->type().c_str(), sample.inputs, sample.attrs, 1e-4);
      if (!row->differentiable()) continue;
      const Tensors outputs = run_kernel(*row, row->kernels().back(), sample.inputs, sample.attrs);
      Tensors inputs = sample.inputs;
      for (const auto& [slot, tensors] : outputs) {
        inputs[slot] = tensors;
        inputs[grad_name(slot)] = {draw.uniform(tensors.front().shape())};
      }
      compare_in_float32(row->grad_op_type().c_str(), inputs, sample.attrs, 1e-4);
    }
  }
}

struct Sizes {
  int64_t batch, channels, side, maps, window, stride, pad, groups;
};

// Direct and Winograd, padded channels, slices of unequal length, groups, depthwise.
TEST(Kernels, ConvolutionsOfTrainingSizesAgree) {
  const Sizes cases[] = {
      {7, 20, 12, 50, 5, 1, 0, 1}, {3, 3, 17, 24, 7, 2, 3, 1},  {8, 64, 16, 64, 3, 1, 1, 1},
      {8, 64, 9, 128, 3, 1, 1, 1}, {2, 96, 7, 160, 1, 1, 0, 1}, {4, 32, 9, 48, 3, 2, 1, 1},
      {5, 32, 8, 32, 3, 1, 1, 32}, {4, 32, 8, 64, 3, 1, 1, 4},  {1, 16, 10, 16, 3, 1, 1, 1},
  };
  for (const Sizes& c : cases) {
    SCOPED_TRACE(cat(c.channels, " channels to ", c.maps, ", window ", c.window));
    Draw draw(5);
    using Ints = std::vector<int>;
    const int stride = static_cast<int>(c.stride), pad = static_cast<int>(c.pad);
    const Attrs attrs{{"strides", Ints{stride, stride}},
                      {"paddings", Ints{pad, pad}},
                      {"dilations", Ints{1, 1}},
                      {"groups", static_cast<int>(c.groups)}};
    Tensors operands{
        {"Input", {draw.uniform({c.batch, c.channels, c.side, c.side})}},
        {"Filter", {draw.uniform({c.maps, c.channels / c.groups, c.window, c.window})}},
        {"Bias", {draw.uniform({c.maps})}}};
    compare_in_float32("conv2d", operands, attrs, 2e-5);
    const int64_t out = (c.side + 2 * c.pad - c.window) / c.stride + 1;
    operands["Output@GRAD"] = {draw.uniform({c.batch, c.maps, out, out})};
    compare_in_float32("conv2d_grad", operands, attrs, 2e-5);
  }
}

// Cut by rows and by columns, operands copied beforehand because they are transposed or lie pages
// apart, stacks.
TEST(Kernels, ProductsOfTrainingSizesAgree) {
  const int64_t sizes[][4] = {{1, 64, 200, 784}, {1, 100, 256, 515}, {1, 37, 130, 70},
                              {1, 256, 64, 40},  {1, 264, 1024, 40}, {1, 1024, 264, 33},
                              {1, 17, 2000, 60}, {3, 37, 130, 70}};
  for (const auto& [stack, m, n, k] : sizes) {
    const auto matrices = [count = stack](int64_t rows, int64_t columns) {
      return count == 1 ? Shape{rows, columns} : Shape{count, rows, columns};
    };
    for (const bool x : {false, true}) {
      for (const bool y : {false, true}) {
        SCOPED_TRACE(cat(m, " x ", n, " x ", k, x ? " X turned" : "", y ? " Y turned" : ""));
        Draw draw(9);
        const Attrs attrs{{"transpose_X", x}, {"transpose_Y", y}, {"alpha", 0.5f}};
        Tensors operands{{"X", {draw.uniform(x ? matrices(k, m) : matrices(m, k))}},
                         {"Y", {draw.uniform(y ? matrices(n, k) : matrices(k, n))}}};
        compare_in_float32("matmul", operands, attrs, 2e-5);
        operands["Out@GRAD"] = {draw.uniform(matrices(m, n))};
        compare_in_float32("matmul_grad", operands, attrs, 2e-5);
      }
    }
  }
}

TEST(Kernels, ThePartsOfAProductHaveTheBitsOfTheWhole) {
  Draw draw(3);
  for (const bool transposed : {false, true}) {
    const Shape x = transposed ? Shape{3, 80, 70} : Shape{3, 70, 80};
    const Tensors operands{{"X", {draw.uniform(x)}},
                           {"Y", {draw.uniform({3, 80, 200})}},
                           {"Out@GRAD", {draw.uniform({3, 70, 200})}}};
    const Attrs attrs{{"transpose_X", transposed}, {"transpose_Y", false}, {"alpha", 0.5f}};
    for (const char* type : {"matmul", "matmul_grad"}) {
      const OpSchema& row = op_table().get(type);
      const Kernel& kernel = row.kernels().back();
      int parts = 0;
      const Tensors cut = run_kernel(row, kernel, operands, attrs, true, &parts);
      EXPECT_GT(parts, 1);
      for (const auto& [slot, whole] : run_kernel(row, kernel, operands, attrs, false)) {
        EXPECT_EQ(numbers(whole.front()), numbers(cut.at(slot).front())) << type << " " << slot;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
