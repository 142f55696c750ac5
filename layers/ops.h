// Layers that are one op: the generic call, and the elementwise, reduction and logic families.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/layer_helper.h"

namespace trireme::layers {

struct ApplyOptions {
  std::string name = {};   // the layer's; empty: <layer>_N
  std::string layer = {};  // what the layer is called in names; empty: the op's type
  std::string act = {};
  bool stop_gradient = false;
  // Outputs that are lists: how many variables; others get one.
  std::map<std::string, int> out_counts = {};
};
// Appends any op of the table; makes a variable <layer>.tmp_N for each of its outputs, in the order
// of the row (optional ones are left out), and returns the first that is not intermediate.
Var& apply(const std::string& type, const VarSlots& inputs, Attrs attrs = {},
           const ApplyOptions& options = {}, SourceLine line = SourceLine::here());
// The same, all outputs by slot.
std::map<std::string, std::vector<Var*>> apply_all(const std::string& type, const VarSlots& inputs,
                                                   Attrs attrs = {},
                                                   const ApplyOptions& options = {},
                                                   SourceLine line = SourceLine::here());

// One input X, one output Out.
inline Var& unary(const std::string& type, Var& x, Attrs attrs = {}, const std::string& name = {},
                  SourceLine line = SourceLine::here()) {
  return apply(type, {{"X", x}}, std::move(attrs), {.name = name}, line);
}
inline Var& relu(Var& x, SourceLine line = SourceLine::here()) {
  return unary("relu", x, {}, {}, line);
}
inline Var& sigmoid(Var& x, SourceLine line = SourceLine::here()) {
  return unary("sigmoid", x, {}, {}, line);
}
inline Var& tanh(Var& x, SourceLine line = SourceLine::here()) {
  return unary("tanh", x, {}, {}, line);
}
inline Var& exp(Var& x, SourceLine line = SourceLine::here()) {
  return unary("exp", x, {}, {}, line);
}
inline Var& log(Var& x, SourceLine line = SourceLine::here()) {
  return unary("log", x, {}, {}, line);
}
inline Var& sqrt(Var& x, SourceLine line = SourceLine::here()) {
  return unary("sqrt", x, {}, {}, line);
}
inline Var& square(Var& x, SourceLine line = SourceLine::here()) {
  return unary("square", x, {}, {}, line);
}
inline Var& abs(Var& x, SourceLine line = SourceLine::here()) {
  return unary("abs", x, {}, {}, line);
}
inline Var& floor(Var& x, SourceLine line = SourceLine::here()) {
  return unary("floor", x, {}, {}, line);
}
inline Var& ceil(Var& x, SourceLine line = SourceLine::here()) {
  return unary("ceil", x, {}, {}, line);
}
inline Var& sin(Var& x, SourceLine line = SourceLine::here()) {
  return unary("sin", x, {}, {}, line);
}
inline Var& cos(Var& x, SourceLine line = SourceLine::here()) {
  return unary("cos", x, {}, {}, line);
}
inline Var& softsign(Var& x, SourceLine line = SourceLine::here()) {
  return unary("softsign", x, {}, {}, line);
}
inline Var& leaky_relu(Var& x, double alpha = 0.02, SourceLine line = SourceLine::here()) {
  return unary("leaky_relu", x, {{"alpha", static_cast<float>(alpha)}}, {}, line);
}
// `name`, when given, is the result's own name.
Var& clip(Var& x, double min, double max, const std::string& name = {},
          SourceLine line = SourceLine::here());
Var& clip_by_norm(Var& x, double max_norm, const std::string& name = {},
                  SourceLine line = SourceLine::here());

struct ElementwiseOptions {
  int axis = -1;  // where y's dimensions start in x; -1: at the end
  std::string act = {};
  std::string name = {};  // the result's own name
};
// op: "elementwise_add", ...
Var& elementwise(const std::string& op, Var& x, Var& y, const ElementwiseOptions& options = {},
                 SourceLine line = SourceLine::here());
inline Var& elementwise_add(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_add", x, y, options, line);
}
inline Var& elementwise_sub(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_sub", x, y, options, line);
}
inline Var& elementwise_mul(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_mul", x, y, options, line);
}
inline Var& elementwise_div(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_div", x, y, options, line);
}
inline Var& elementwise_max(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_max", x, y, options, line);
}
inline Var& elementwise_min(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_min", x, y, options, line);
}
inline Var& elementwise_pow(Var& x, Var& y, const ElementwiseOptions& options = {},
                            SourceLine line = SourceLine::here()) {
  return elementwise("elementwise_pow", x, y, options, line);
}

struct ReduceOptions {
  std::vector<int> dim = {};  // empty: all of them
  bool keep_dim = false;
  std::string name = {};
  std::string layer = {};  // what the layer is called in names: paddle.mean says "mean"
};
// op: "reduce_sum", "reduce_mean", ...
Var& reduce(const std::string& op, Var& input, const ReduceOptions& options = {},
            SourceLine line = SourceLine::here());
inline Var& reduce_sum(Var& input, const ReduceOptions& options = {},
                       SourceLine line = SourceLine::here()) {
  return reduce("reduce_sum", input, options, line);
}
inline Var& reduce_mean(Var& input, const ReduceOptions& options = {},
                        SourceLine line = SourceLine::here()) {
  return reduce("reduce_mean", input, options, line);
}

struct MulOptions {
  int x_num_col_dims = 1;
  int y_num_col_dims = 1;
  std::string name = {};
};
Var& mul(Var& x, Var& y, const MulOptions& options = {}, SourceLine line = SourceLine::here());
struct MatmulOptions {
  bool transpose_x = false;
  bool transpose_y = false;
  double alpha = 1;
  std::string name = {};
};
Var& matmul(Var& x, Var& y, const MatmulOptions& options = {},
            SourceLine line = SourceLine::here());

// op: "less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal". The result
// is a bool variable, `cond` when given; gradients stop there.
Var& compare(const std::string& op, Var& x, Var& y, Var* cond = nullptr,
             SourceLine line = SourceLine::here());
inline Var& less_than(Var& x, Var& y, Var* cond = nullptr, SourceLine line = SourceLine::here()) {
  return compare("less_than", x, y, cond, line);
}
inline Var& equal(Var& x, Var& y, Var* cond = nullptr, SourceLine line = SourceLine::here()) {
  return compare("equal", x, y, cond, line);
}
Var& logical_and(Var& x, Var& y, Var* out = nullptr, SourceLine line = SourceLine::here());
Var& logical_or(Var& x, Var& y, Var* out = nullptr, SourceLine line = SourceLine::here());
Var& logical_not(Var& x, Var* out = nullptr, SourceLine line = SourceLine::here());
// Whether x has no elements: one bool, written to `cond` when given.
Var& is_empty(Var& x, Var* cond = nullptr, SourceLine line = SourceLine::here());

Var& cos_sim(Var& x, Var& y, SourceLine line = SourceLine::here());
Var& merge_selected_rows(Var& x, SourceLine line = SourceLine::here());
Var& get_tensor_from_selected_rows(Var& x, SourceLine line = SourceLine::here());

}  // namespace trireme::layers
