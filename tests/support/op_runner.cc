#include "tests/support/op_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compile/graph_check.h"
#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_record.h"

namespace trireme::testing {
namespace {

// Every graph that a test compiles is checked after lowering and after each pass.
const bool checks_graphs = (check_between_passes = true);

std::string var_name(const std::string& slot, size_t i) { return cat(slot, "_", i); }

Tensor densified(const Variable& variable) {
  if (variable.kind() != Kind::rows) return variable.tensor();
  const SelectedRows merged = merge_rows(variable.rows());
  Shape shape = merged.value.shape();
  shape[0] = merged.height;
  Tensor dense = filled(merged.value.dtype(), shape, 0.0);
  const size_t row = merged.rows.empty() ? 0 : merged.value.byte_size() / merged.rows.size();
  for (size_t i = 0; i < merged.rows.size(); ++i) {
    std::copy_n(merged.value.bytes().data() + i * row, row,
                dense.bytes().data() + static_cast<size_t>(merged.rows[i]) * row);
  }
  return dense;
}

struct Built {
  std::shared_ptr<Program> program = Program::create();
  Feeds feeds;
  OpSpec spec;
  std::map<std::string, std::vector<std::string>> outputs;
  Op* op = nullptr;
};

Built build(const OpCall& call, bool hide_batch = false) {
  Built built;
  Block& block = built.program->global_block();
  const OpSchema& row = op_table().get(call.type);
  built.spec = {.type = call.type, .inputs = {}, .outputs = {}, .attrs = call.attrs};
  for (const auto& [slot, tensors] : call.inputs) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string name = var_name(slot, i);
      Shape shape = tensors[i].shape();
      if (hide_batch && shape.rank() > 0) shape[0] = Dim();
      block.create_var({.name = name,
                        .dtype = tensors[i].dtype(),
                        .shape = shape,
                        .lod_level = static_cast<int>(tensors[i].lod().size()),
                        .is_data = true});
      built.spec.inputs[slot].push_back(name);
      built.feeds[name] = tensors[i];
    }
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
      built.spec.outputs[slot.name].push_back(name);
      built.outputs[slot.name].push_back(name);
    }
  }
  built.op = &block.append_op(built.spec);
  return built;
}

Tensors run_built(Built& built, bool cut = false) {
  static Executor executor;
  std::vector<std::string> names;
  for (const auto& [slot, outs] : built.outputs)
    names.insert(names.end(), outs.begin(), outs.end());
  Scope scope;
  const std::vector<Variable> results =
      executor.run(*built.program, built.feeds, names,
                   {.scope = &scope, .threads = cut ? 2 : 1, .cut_bytes = cut ? 0 : ~size_t{0}});
  Tensors found;
  size_t next = 0;
  for (const auto& [slot, outs] : built.outputs) {
    for (size_t i = 0; i < outs.size(); ++i) {
      const Variable& result = results[next++];
      found[slot].push_back(result.initialized() ? densified(result) : Tensor());
    }
  }
  return found;
}

double weighted_sum(const Tensors& outputs, const Tensors& weights) {
  double sum = 0;
  for (const auto& [slot, tensors] : weights) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const double* out = outputs.at(slot)[i].data<double>();
      const double* weight = tensors[i].data<double>();
      for (int64_t k = 0; k < tensors[i].numel(); ++k) sum += out[k] * weight[k];
    }
  }
  return sum;
}

}  // namespace

Tensors run_op(const OpCall& call) {
  Built built = build(call);
  const Tensors results = run_built(built, call.cut);
  for (const auto& [slot, tensors] : results) {
    for (const Tensor& tensor : tensors) note_result(call.type, tensor);
  }
  return results;
}

Tensor run_op(const std::string& type, const std::map<std::string, Tensor>& inputs, Attrs attrs) {
  OpCall call{.type = type, .inputs = {}, .attrs = std::move(attrs)};
  for (const auto& [slot, tensor] : inputs) call.inputs[slot] = {tensor};
  const Tensors outputs = run_op(call);
  return outputs.at(op_table().get(type).outputs().front().name).front();
}

std::map<std::string, Shape> appended_shapes(const OpCall& call, bool hide_batch) {
  Built built = build(call, hide_batch);
  std::map<std::string, Shape> shapes;
  for (const auto& [slot, names] : built.outputs) {
    shapes[slot] = built.program->global_block().var(names.front()).shape();
  }
  return shapes;
}

GradCheck check_grad(const OpCall& call, uint64_t weight_seed) {
  const OpSchema& row = op_table().get(call.type);
  Built forward = build(call);
  const Tensors outputs = run_built(forward);
  Draw draw(weight_seed);

  // The gradient op, with the gradients of the outputs fed as random weights.
  GradMaker maker(*forward.op, [&](const std::string& name) {
    const auto fed = forward.feeds.find(name);
    return fed != forward.feeds.end() && is_floating(fed->second.dtype());
  });
  std::vector<OpSpec> made = row.make_grad(maker);
  EXPECT_FALSE(made.empty()) << call.type << " makes no gradient op";
  if (made.empty()) return {};

  Block& block = forward.program->global_block();
  Tensors weights;
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
      if (!out.initialized() || out.dtype() != DType::float64) continue;
      Tensor weight = draw.uniform(out.shape());
      weight.set_lod(out.lod());
      block.create_var({.name = grad,
                        .dtype = DType::float64,
                        .shape = out.shape(),
                        .lod_level = static_cast<int>(out.lod().size()),
                        .is_data = true});
      forward.feeds[grad] = weight;
      auto& list = weights[slot];
      while (list.size() < i)
        list.push_back(filled(DType::float64, outputs.at(slot)[list.size()].shape(), 0));
      list.push_back(weight);
    }
  }
  std::map<std::string, std::string> wanted;  // gradient variable -> input variable
  for (OpSpec spec : made) {
    for (auto& [slot, names] : spec.outputs) {
      for (const std::string& name : names) {
        if (name == kEmptyVar || block.find_var(name)) continue;
        const bool sparse = !row.sparse_grad_slot().empty() &&
                            slot == row.sparse_grad_slot() + "@GRAD" &&
                            forward.op->attr_or<bool>("is_sparse", false);
        block.create_var({.name = name,
                          .type = sparse ? VarType::selected_rows : VarType::lod_tensor,
                          .dtype = DType::float64,
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
  EXPECT_FALSE(wanted.empty()) << call.type << ": no input gets a gradient";

  Built backward = forward;
  backward.outputs.clear();
  for (const auto& [grad, name] : wanted) backward.outputs[grad] = {grad};
  const Tensors grads = run_built(backward);

  GradCheck check;
  Built probe = build(call);
  for (const auto& [grad, name] : wanted) {
    const Tensor& analytic = grads.at(grad).front();
    const Tensor original = probe.feeds.at(name);
    EXPECT_TRUE(analytic.initialized()) << call.type << ": " << grad << " was not written";
    if (!analytic.initialized()) continue;
    EXPECT_EQ(analytic.numel(), original.numel())
        << call.type << " " << grad << " " << analytic.shape() << " for " << original.shape();
    if (analytic.numel() != original.numel()) continue;
    Tensor moved = original.clone();
    probe.feeds[name] = moved;
    double* x = moved.data<double>();
    std::vector<double> numeric(static_cast<size_t>(moved.numel()));
    for (int64_t i = 0; i < moved.numel(); ++i) {
      const double at = x[i], h = 1e-5 * std::max(1.0, std::fabs(at));
      // Fourth order: the truncation error stays far below the tolerance.
      const auto f = [&](double value) {
        x[i] = value;
        return weighted_sum(run_built(probe), weights);
      };
      const double near = f(at + h) - f(at - h), far = f(at + 2 * h) - f(at - 2 * h);
      numeric[static_cast<size_t>(i)] = (8 * near - far) / (12 * h);
      x[i] = at;
    }
    double scale = 1;
    for (double value : numeric) scale = std::max(scale, std::fabs(value));
    for (int64_t i = 0; i < moved.numel(); ++i) {
      const double error =
          std::fabs(analytic.data<double>()[i] - numeric[static_cast<size_t>(i)]) / scale;
      if (!(error <= check.worst)) {
        check.worst = error;
        check.where = cat(grad, "[", i, "] is ", analytic.data<double>()[i], ", differences give ",
                          numeric[static_cast<size_t>(i)]);
      }
      ++check.elements;
    }
    probe.feeds[name] = original;
  }
  return check;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    note_wrong_use(e.what());
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

double max_abs_diff(const Tensor& a, const Tensor& b) {
  note_look(a);
  note_look(b);
  EXPECT_EQ(a.shape(), b.shape());
  if (!(a.shape() == b.shape())) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double difference = std::fabs(element_as_double(a, i) - element_as_double(b, i));
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

std::vector<double> numbers(const Tensor& tensor) {
  note_look(tensor);
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return make_tensor<float>(shape, std::span<const float>(values));
}
Tensor doubles(const Shape& shape, const std::vector<double>& values) {
  return make_tensor<double>(shape, std::span<const double>(values));
}
Tensor longs(const Shape& shape, const std::vector<int64_t>& values) {
  return make_tensor<int64_t>(shape, std::span<const int64_t>(values));
}

}  // namespace trireme::testing
