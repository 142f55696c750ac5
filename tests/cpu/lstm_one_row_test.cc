// An lstm over one sequence, its columns shared out, against the other kernels of the row.
#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_runner.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

Tensor drawn_float(Draw& draw, const Shape& shape, double low = -1, double high = 1) {
  return cast(draw.uniform(shape, low, high), DType::float32);
}

TEST(LstmOneRow, GivesTheNumbersOfTheOtherKernels) {
  Draw draw(test_seed());
  const OpSchema& row = op_table().get("lstm");
  for (int i = 0; i < 6; ++i) {
    const int64_t width = 256 + 32 * draw.size(0, 4), steps = draw.size(1, 6);
    const bool peephole = draw.coin(), states = draw.coin();
    Tensor input = drawn_float(draw, {steps, 4 * width});
    input.set_lod({{0, steps}});
    Tensors given{{"Input", {input}},
                  {"Weight", {drawn_float(draw, {width, 4 * width}, -0.1, 0.1)}},
                  {"Bias", {drawn_float(draw, {1, (peephole ? 7 : 4) * width})}}};
    if (states) {
      given["H0"] = {drawn_float(draw, {1, width})};
      given["C0"] = {drawn_float(draw, {1, width})};
    }
    const Attrs attrs{{"use_peepholes", peephole}, {"is_reverse", draw.coin()}};
    const std::string what = cat(width, " wide, ", steps, " steps, case ", i);
    std::optional<Tensors> wanted;
    const std::vector<Kernel>& kernels = row.kernels();
    for (size_t at = kernels.size(); at-- > 0;) {  // the reference is the last
      KernelRunner runner(row, kernels[at], given, attrs);
      const bool one_row = kernels[at].name == "one_row";
      ASSERT_FALSE(one_row && runner.declined()) << what;
      if (runner.declined()) continue;
      runner.run();
      const Tensors found = runner.results();
      if (!wanted) wanted = found;
      for (const char* slot : {"Hidden", "Cell", "BatchGate", "BatchCellPreAct"}) {
        EXPECT_LT(max_abs_diff(found.at(slot)[0], wanted->at(slot)[0]), 1e-5)
            << kernels[at].name << ", " << slot << ", " << what;
      }
    }
  }
}

TEST(LstmOneRow, LeavesSeveralSequencesToOthers) {
  Draw draw(test_seed());
  Tensor input = drawn_float(draw, {4, 4 * 256});
  input.set_lod({{0, 1, 4}});
  const Tensors given{{"Input", {input}},
                      {"Weight", {drawn_float(draw, {256, 4 * 256})}},
                      {"Bias", {drawn_float(draw, {1, 4 * 256})}}};
  for (const Kernel& kernel : op_table().get("lstm").kernels()) {
    if (kernel.name != "one_row") continue;
    EXPECT_TRUE(
        KernelRunner(op_table().get("lstm"), kernel, given, {{"use_peepholes", false}}).declined());
  }
}

}  // namespace
}  // namespace trireme::testing
