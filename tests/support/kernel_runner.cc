// Binds a kernel to tensors by hand and runs its phases.
#include "tests/support/kernel_runner.h"

namespace trireme::testing {

KernelRunner::KernelRunner(const OpSchema& row, const Kernel& kernel, const Tensors& inputs,
                           const Attrs& attrs)
    : row_(row) {
  OpView view(row, attrs);
  std::deque<ValueInfo> infos;
  for (const SlotSpec& slot : row.inputs()) {
    const auto given = inputs.find(slot.name);
    if (given == inputs.end()) {
      ins_.push_back(nullptr);
      continue;
    }
    const Tensor& tensor = given->second.front();
    infos.push_back({.dtype = tensor.dtype(),
                     .shape = tensor.shape(),
                     .lod_level = static_cast<int>(tensor.lod().size()),
                     .lod = tensor.lod(),
                     .name = slot.name});
    view.add_in(slot.name, {&infos.back()});
    memory_.emplace_back();
    memory_.back().tensor() = tensor;
    ins_.push_back(&memory_.back());
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
      memory_.emplace_back();
      memory_.back().tensor() = filled(info->dtype, info->shape, 77);  // kernels write all of it
      memory_.back().tensor().set_lod(info->lod);
    }
    outs_.push_back(info ? &memory_.back() : nullptr);
  }
  std::string why_not;
  bound_ = kernel.make(view, &why_not);
  if (bound_ && bound_->scratch > 0) scratch_ = Buffer::allocate(bound_->scratch);
}

bool KernelRunner::put_over(const std::string& operand, const std::string& result) {
  const auto variable = [](const std::vector<SlotSpec>& slots, const std::vector<Variable*>& all,
                           const std::string& name) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].name == name) return all[i];
    }
    return static_cast<Variable*>(nullptr);
  };
  Variable* in = variable(row_.inputs(), ins_, operand);
  Variable* out = variable(row_.outputs(), outs_, result);
  if (!in || !out || in->tensor().dtype() != out->tensor().dtype() ||
      in->tensor().shape() != out->tensor().shape()) {
    return false;
  }
  const Lod lod = out->tensor().lod();
  in->tensor() = in->tensor().clone();
  out->tensor() = in->tensor();
  out->tensor().set_lod(lod);
  return true;
}

void KernelRunner::run(bool in_parts) {
  if (!bound_) return;
  KernelArgs args{.ins = ins_.data(), .outs = outs_.data(), .run = &step_};
  if (scratch_) args.scratch = scratch_->data();
  const auto run_phase = [&](const BoundKernel& phase) {
    args.parts = in_parts ? phase.parts : 1;
    for (args.part = 0; args.part < args.parts; ++args.part) phase.run(args);
  };
  run_phase(*bound_);
  for (const BoundKernel& phase : bound_->then) run_phase(phase);
}

Tensors KernelRunner::results() const {
  Tensors found;
  for (size_t i = 0; bound_ && i < outs_.size(); ++i) {
    if (outs_[i]) found[row_.outputs()[i].name] = {outs_[i]->tensor()};
  }
  return found;
}

}  // namespace trireme::testing
