// Rows with several kernels: each one agrees with the last, the reference, forward and backward.
#include <gtest/gtest.h>

#include <deque>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

// What random kernels ask of their run: always the same.
struct FirstStep final : RunContext {
  void run_region(int, StepScopes*) override { no_sub_block(); }
  void begin_passes(int, int64_t) override { no_sub_block(); }
  void run_pass(int, const Pass&) override { no_sub_block(); }
  void end_passes(int) override { no_sub_block(); }
  [[noreturn]] static void no_sub_block() {
    throw InternalError("a kernel alone has no sub-block");
  }
  Scope& scope() override { return variables; }
  uint64_t step() const override { return 0; }
  uint64_t process_seed() const override { return 1; }
  uint64_t iteration() const override { return 0; }
  Scope variables;
};

// Makes one kernel of a row by hand and runs it, in one piece or in the parts it asks for.
Tensors run_kernel(const OpSchema& row, const Kernel& kernel, const Tensors& inputs,
                   const Attrs& attrs, bool in_parts = true, int* parts = nullptr) {
  OpView view(row, attrs);
  std::deque<ValueInfo> infos;
  std::deque<Variable> memory;
  std::vector<Variable*> ins, outs;
  for (const SlotSpec& slot : row.inputs()) {
    const auto given = inputs.find(slot.name);
    if (given == inputs.end()) {
      ins.push_back(nullptr);
      continue;
    }
    const Tensor& tensor = given->second.front();
    infos.push_back({.dtype = tensor.dtype(),
                     .shape = tensor.shape(),
                     .lod_level = static_cast<int>(tensor.lod().size()),
                     .lod = tensor.lod(),
                     .name = slot.name});
    view.add_in(slot.name, {&infos.back()});
    memory.emplace_back();
    memory.back().tensor() = tensor;
    ins.push_back(&memory.back());
  }
  std::vector<ValueInfo*> results;
  for (const SlotSpec& slot : row.outputs()) {
    const bool gradient = slot.name.ends_with(kGradSuffix);
    const bool wanted =
        !gradient || inputs.contains(slot.name.substr(0, slot.name.size() - kGradSuffix.size()));
    infos.push_back({.name = slot.name});
    results.push_back(wanted ? &infos.back() : nullptr);
    if (wanted) view.add_out(slot.name, {results.back()});
  }
  view.seal();
  row.shape_rule()(view);
  for (const ValueInfo* info : results) {
    if (info) {
      memory.emplace_back();
      memory.back().tensor() = filled(info->dtype, info->shape, 77);  // kernels write all of it
      memory.back().tensor().set_lod(info->lod);
    }
    outs.push_back(info ? &memory.back() : nullptr);
  }
  std::string why_not;
  const std::optional<BoundKernel> bound = kernel.make(view, &why_not);
  if (!bound) return {};  // declined: built without its library
  FirstStep run;
  KernelArgs args{.ins = ins.data(), .outs = outs.data(), .run = &run};
  args.parts = in_parts ? bound->parts : 1;
  if (parts) *parts = bound->parts;
  for (args.part = 0; args.part < args.parts; ++args.part) bound->run(args);
  Tensors found;
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i]) found[row.outputs()[i].name] = {outs[i]->tensor()};
  }
  return found;
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

TEST(Kernels, EveryKernelAgreesWithTheReference) {
  int compared = 0;
  for (const OpSchema* row : op_table().rows()) {
    if (row->kernels().size() < 2 || row->forward()) continue;
    for (size_t rule = 0; rule < row->samples().size(); ++rule) {
      SCOPED_TRACE(cat(row->type(), " sample ", rule));
      Draw draw(rule + 1);
      const OpSample sample = row->samples()[rule](draw);
      const Tensors outputs = compare_kernels(*row, sample.inputs, sample.attrs);
      const OpSchema* gradient = op_table().find(row->grad_op_type());
      ASSERT_NE(gradient, nullptr);
      Tensors inputs = sample.inputs;
      for (const auto& [slot, tensors] : outputs) {
        inputs[slot] = tensors;
        inputs[grad_name(slot)] = {draw.uniform(tensors.front().shape())};
      }
      compare_kernels(*gradient, inputs, sample.attrs);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
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
