// What optimizer rows share: operand checks, scalars in bodies, and updates from sparse gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpu/updates.h"
#include "ir/schema.h"
#include "ops/tensor/row_order.h"

namespace trireme {

// One state of an optimizer: where it is read and where its new value goes.
using StatePair = std::pair<std::string, std::string>;

// The shape rule of an optimizer. `states` have Param's shape; the scalars hold one element. Grad
// has Param's shape, or is SelectedRows of its rows where `sparse` allows that.
struct OptimizerOperands {
  std::vector<StatePair> states;  // besides Param -> ParamOut
  std::vector<std::string> scalars = {"LearningRate"};
  bool sparse = false;
};
ShapeRule optimizer_shape(OptimizerOperands operands);

// A one-element operand in Param's element type, shape [1]; it broadcasts over everything.
Expr scalar(const Body& b, std::string_view slot);

// The same at run time: the element as a double.
double scalar(const KernelArgs& k, int position);
void set_scalar(const KernelArgs& k, int out_position, double value);  // nothing when absent

// Declines a site whose Grad is dense: those have a body.
bool grad_is_sparse(const KernelSite& site, std::string* why_not);

// Checks that a run's sparse gradient fits Param: rows inside it, values of its width.
void check_sparse_grad(const SelectedRows& grad, const Tensor& param);

// A run's sparse gradient, checked against Param.
const SelectedRows& sparse_grad(const KernelArgs& k, int grad_position, const Tensor& param);

// Brings the old value over where the output has memory of its own.
void copy_through(const KernelArgs& k, int in, int out);
// The same for rows [range) of a table.
void copy_through(const KernelArgs& k, int in, int out, std::pair<int64_t, int64_t> range);

// Every row of [first, last) that the gradient names, once; what it holds for one row is added up
// in the order in which it is named. In memory of the
// calling thread, kept between calls.
template <class T>
std::span<RowStep<T>> merged_within(const SelectedRows& grad, int64_t width,
                                    std::pair<int64_t, int64_t> range) {
  thread_local std::vector<RowStep<T>> merged;
  thread_local std::unique_ptr<T[]> sums;  // of rows named twice or more: half of all at most
  thread_local size_t most_sums = 0;
  const std::span<const PlacedRow> named = named_within(grad, range);
  const size_t most = grad.rows.size();
  const RowChains chains = chains_of(named, most);
  if (merged.size() < most) merged.resize(most);
  if (const size_t enough = most / 2 * static_cast<size_t>(width); most_sums < enough) {
    sums.reset(new T[enough]);  // not filled: pages that none touches cost nothing
    most_sums = enough;
  }
  const T* values = named.empty() ? nullptr : grad.value.data<T>();
  T* sum = sums.get();
  size_t count = 0;
  for (size_t i = 0; i < named.size(); ++i) {
    if (!chains.first[i]) continue;
    const T* value = values + named[i].place * width;
    int64_t same = chains.next[i];
    merged[count++] = {named[i].row, same < 0 ? value : sum};
    if (same < 0) continue;
    std::copy_n(value, width, sum);
    for (; same >= 0; same = chains.next[static_cast<size_t>(same)]) {
      value = values + named[static_cast<size_t>(same)].place * width;
      for (int64_t j = 0; j < width; ++j) sum[j] += value[j];
    }
    sum += width;
  }
  return {merged.data(), count};
}

// Calls update(element, gradient) for every element of Param in order; rows that the gradient does
// not name have gradient 0. With `named_only` those rows are left out.
template <class T, class F>
void for_each_element(const SelectedRows& grad, const Tensor& param, bool named_only, F update) {
  const int64_t height = param.shape().at(0);
  const int64_t width = height == 0 ? 0 : param.numel() / height;
  int64_t next = 0;  // the first element not yet passed
  const auto pass_unnamed = [&](int64_t end) {
    for (; next < end && !named_only; ++next) update(next, T{0});
  };
  const std::span<RowStep<T>> named = merged_within<T>(grad, width, {0, height});
  std::ranges::sort(named, {}, &RowStep<T>::row);
  for (const RowStep<T>& step : named) {
    const int64_t first = step.row * width;
    pass_unnamed(first);
    for (int64_t j = 0; j < width; ++j) update(first + j, step.grad[j]);
    next = first + width;
  }
  pass_unnamed(param.numel());
}

// Into how many shares of the table an update that moves `elements` is cut.
inline int sparse_parts(int64_t elements) {
  return static_cast<int>(std::clamp<int64_t>(elements / 32768, 1, 8));
}

// A kernel for sites with a sparse gradient: make<T>(site) gives what runs there.
template <class F>
KernelMake sparse_update(F make) {
  const KernelMake by_type = typed<float, double>(make);
  return [by_type](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (!grad_is_sparse(site, why_not)) return std::nullopt;
    return by_type(site, why_not);
  };
}

// A call with a dense gradient for the generated tests: Param, Grad and every state of one random
// shape, scalars positive. States are drawn from [0.1, 1]: several are under a square root.
OpSample optimizer_sample(Draw& draw, const std::vector<std::string>& states,
                          const std::vector<std::string>& scalars = {"LearningRate"});

}  // namespace trireme
