// Builds, runs and fetches; checks gradients against differences.
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

Tensors run_built(OpProgram& built, bool cut = false) {
  static Executor executor;
  std::vector<std::string> names;
  for (const auto& [slot, outs] : built.outputs)
    names.insert(names.end(), outs.begin(), outs.end());
  Scope scope;
  for (const auto& [name, rows] : built.states) scope.var(name).rows() = rows;
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
  OpProgram built = build_op(call);
  Tensors results = run_built(built, call.cut);
  for (auto& [slot, tensors] : results) {
    for (Tensor& tensor : tensors) note_result(call.type, tensor);
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
  OpProgram built = build_op(call, hide_batch);
  std::map<std::string, Shape> shapes;
  for (const auto& [slot, names] : built.outputs) {
    shapes[slot] = built.program->global_block().var(names.front()).shape();
  }
  return shapes;
}

GradCheck check_grad(const OpCall& call, uint64_t weight_seed) {
  OpProgram forward = build_op(call);
  const Tensors outputs = run_built(forward);
  const OpGradient gradient = append_gradient(forward, outputs, weight_seed);
  const auto& wanted = gradient.wanted;
  if (wanted.empty()) return {};

  OpProgram backward = forward;
  backward.outputs.clear();
  for (const auto& [grad, name] : wanted) backward.outputs[grad] = {grad};
  const Tensors grads = run_built(backward);

  GradCheck check;
  OpProgram probe = build_op(call);
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
        return weighted_sum(run_built(probe), gradient.weights);
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
