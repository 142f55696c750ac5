// Runs single ops through the whole engine: program, plan, executor. For tests of ops.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ir/sample.h"
#include "runtime/executor.h"
#include "tests/support/op_program.h"

namespace trireme::testing {

// Every output by slot. SelectedRows results come back dense.
Tensors run_op(const OpCall& call);
// The first output slot's first tensor.
Tensor run_op(const std::string& type, const std::map<std::string, Tensor>& inputs,
              Attrs attrs = {});
// What the shape rule says when the op is appended, by output slot: unknown extents where the
// variables were declared with them (the first extent of every input).
std::map<std::string, Shape> appended_shapes(const OpCall& call, bool hide_batch);

struct GradCheck {
  double worst = 0;  // relative to the largest gradient of that input
  std::string where;
  int elements = 0;
};
// Compares <type>_grad with central differences in float64. Inputs must be float64 where floating.
GradCheck check_grad(const OpCall& call, uint64_t weight_seed = 1);

// The text of the Error that `action` throws; a test failure when it throws none.
std::string error_of(const std::function<void()>& action);

double max_abs_diff(const Tensor& a, const Tensor& b);
std::vector<double> numbers(const Tensor& tensor);
Tensor floats(const Shape& shape, const std::vector<float>& values);
Tensor doubles(const Shape& shape, const std::vector<double>& values);
Tensor longs(const Shape& shape, const std::vector<int64_t>& values);

}  // namespace trireme::testing
