// Builds the programs: variables from tensors, the op, its gradient.
#include "tests/support/op_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/text.h"
#include "ir/sample.h"
#include "ir/schema.h"

namespace trireme::testing {
namespace {

std::string input_name(const std::string& slot, size_t i) { return cat(slot, "_", i); }

}  // namespace

Tensors in_float32(Tensors tensors) {
  for (auto& [slot, list] : tensors) {
    for (Tensor& tensor : list) {
      if (tensor.dtype() == DType::float64) tensor = cast(tensor, DType::float32);
    }
  }
  return tensors;
}

OpProgram build_op(const OpCall& call, bool hide_batch) {
  OpProgram built;
  Block& block = built.program->global_block();
  const OpSchema& row = op_table().get(call.type);
  OpSpec spec{.type = call.type, .inputs = {}, .outputs = {}, .attrs = call.attrs};
  for (const auto& [slot, tensors] : call.inputs) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = input_name(slot, i);
      Shape shape = tensors[i].shape();
      if (hide_batch && shape.rank() > 0) shape[0] = Dim();
      block.create_var({.name = name,
                        .dtype = tensors[i].dtype(),
                        .shape = shape,
                        .lod_level = static_cast<int>(tensors[i].lod().size()),
                        .is_data = true});
      spec.inputs[slot].push_back(name);
      built.feeds[name] = tensors[i];
    }
  }
  for (const auto& [slot, rows] : call.sparse_inputs) {
    const std::string name = input_name(slot, 0);
    Shape shape = rows.value.shape();
    shape[0] = rows.height;
    block.create_var({.name = name,
                      .type = VarType::selected_rows,
                      .dtype = rows.value.dtype(),
                      .shape = shape,
                      .persistable = true});
    spec.inputs[slot] = {name};
    built.states[name] = rows;
  }
  for (const SlotSpec& slot : row.outputs()) {
    if (!call.outputs.empty() &&
        std::find(call.outputs.begin(), call.outputs.end(), slot.name) == call.outputs.end()) {
      continue;
    }
    if (call.outputs.empty() && slot.dispensable) continue;
    const auto count = call.out_counts.find(slot.name);
    for (int i = 0; i < (count == call.out_counts.end() ? 1 : count->second); ++i) {
      const std::string name = cat("out_", slot.name, "_", i);
      block.create_var({.name = name, .has_shape = false});
      spec.outputs[slot.name].push_back(name);
      built.outputs[slot.name].push_back(name);
    }
  }
  built.op = &block.append_op(spec);
  return built;
}

OpGradient append_gradient(OpProgram& forward, const Tensors& outputs, uint64_t weight_seed) {
  const OpSchema& row = op_table().get(forward.op->type());
  OpGradient gradient;
  Tensors& weights = gradient.weights;
  std::map<std::string, std::string>& wanted = gradient.wanted;
  Draw draw(weight_seed);
  GradMaker maker(*forward.op, [&](const std::string& name) {
    const Tensor* fed = forward.feeds.find(name);
    return fed && is_floating(fed->dtype());
  });
  std::vector<OpSpec> made = row.make_grad(maker);
  EXPECT_FALSE(made.empty()) << row.type() << " makes no gradient op";
  if (made.empty()) return {};

  Block& block = forward.program->global_block();
  std::vector<std::string> consumed;
  for (const OpSpec& spec : made) {
    for (const auto& [slot, names] : spec.inputs)
      consumed.insert(consumed.end(), names.begin(), names.end());
  }
  for (const auto& [slot, names] : forward.outputs) {
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string grad = grad_name(names[i]);
      if (std::find(consumed.begin(), consumed.end(), grad) == consumed.end()) continue;
      const Tensor& out = outputs.at(slot)[i];
      if (!out.initialized() || !is_floating(out.dtype())) continue;
      Tensor weight = cast(draw.uniform(out.shape()), out.dtype());
      weight.set_lod(out.lod());
      block.create_var({.name = grad,
                        .dtype = out.dtype(),
                        .shape = out.shape(),
                        .lod_level = static_cast<int>(out.lod().size()),
                        .is_data = true});
      forward.feeds[grad] = weight;
      auto& list = weights[slot];
      while (list.size() < i)
        list.push_back(filled(out.dtype(), outputs.at(slot)[list.size()].shape(), 0));
      list.push_back(weight);
    }
  }
  for (OpSpec spec : made) {
    for (auto& [slot, names] : spec.outputs) {
      for (const std::string& name : names) {
        if (name == kEmptyVar || block.find_var(name)) continue;
        const bool sparse = !row.sparse_grad_slot().empty() &&
                            slot == row.sparse_grad_slot() + "@GRAD" &&
                            forward.op->attr_or<bool>("is_sparse", false);
        block.create_var({.name = name,
                          .type = sparse ? VarType::selected_rows : VarType::lod_tensor,
                          .has_shape = false});
        if (name.ends_with(kGradSuffix))
          wanted[name] = name.substr(0, name.size() - kGradSuffix.size());
      }
    }
    spec.attrs.erase("op_role");
    block.append_op(spec);
  }
  std::erase_if(wanted, [&](const auto& pair) { return !forward.feeds.contains(pair.second); });
  // What a gradient op writes there is no derivative (statistics that it updates on the way).
  for (const SlotSpec& slot : row.inputs()) {
    if (!slot.no_grad) continue;
    const auto& names = forward.op->input(slot.name);
    std::erase_if(wanted, [&](const auto& pair) {
      return std::find(names.begin(), names.end(), pair.second) != names.end();
    });
  }
  EXPECT_FALSE(wanted.empty()) << row.type() << ": no input gets a gradient";
  return gradient;
}

}  // namespace trireme::testing
