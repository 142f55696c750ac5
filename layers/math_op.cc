// Operators on variables, and indexing.
#include "layers/math_op.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layer_helper.h"

namespace trireme {
namespace layers {
namespace {

// Ops go where the variable is, whatever the default program.
Block& block_of(const Var& x) { return x.block().program().current_block(); }

Var& new_tmp(Block& block, DType dtype, bool stop_gradient = false) {
  return block.create_var({.name = unique_names().generate("tmp"),
                           .dtype = dtype,
                           .stop_gradient = stop_gradient,
                           .has_shape = false});
}

Op& append(Block& block, std::string type, Slots inputs, Slots outputs, Attrs attrs) {
  return block.append_op({.type = std::move(type),
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .attrs = std::move(attrs)},
                         user_line());
}

Var& scaled(Var& x, double scale, double bias) {
  Var& out = new_tmp(block_of(x), x.dtype());
  append(block_of(x), "scale", {{"X", {x.name()}}}, {{"Out", {out.name()}}},
         {{"scale", static_cast<float>(scale)}, {"bias", static_cast<float>(bias)}});
  return out;
}

Var& cast_to(Var& x, DType dtype) {
  Var& out = new_tmp(block_of(x), dtype);
  append(block_of(x), "cast", {{"X", {x.name()}}}, {{"Out", {out.name()}}},
         {{"in_dtype", wire_number(x.dtype())}, {"out_dtype", wire_number(dtype)}});
  return out;
}

Var& constant(Block& block, double value, DType dtype, const std::vector<int64_t>& shape) {
  Var& out = new_tmp(block, dtype, /*stop_gradient=*/true);
  append(block, "fill_constant", {}, {{"Out", {out.name()}}},
         {{"dtype", wire_number(dtype)},
          {"shape", shape},
          {"value", static_cast<float>(value)},
          {"force_cpu", false}});
  return out;
}

// A constant of x's shape; where a dimension is unknown, the size is taken from x at run time.
Var& constant_like(Var& x, double value) {
  std::vector<int64_t> shape = x.shape().to_vector();
  int batch = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0) continue;
    if (batch < 0) {
      batch = static_cast<int>(i);
    } else {
      shape[i] = 1;
    }
  }
  if (batch < 0) return constant(block_of(x), value, x.dtype(), shape);
  Var& out = new_tmp(block_of(x), x.dtype(), /*stop_gradient=*/true);
  append(block_of(x), "fill_constant_batch_size_like", {{"Input", {x.name()}}},
         {{"Out", {out.name()}}},
         {{"dtype", wire_number(x.dtype())},
          {"shape", shape},
          {"value", static_cast<float>(value)},
          {"input_dim_idx", batch},
          {"output_dim_idx", batch}});
  return out;
}

bool is_compare(const std::string& op) { return op.rfind("elementwise_", 0) != 0; }

Var& binary(const std::string& op, Var& x, Var& y) {
  const bool whole = is_integer(x.dtype());
  Var* left = &x;
  Var* right = &y;
  if (defaults().style == Style::static_2_4 && op == "elementwise_div" && whole &&
      is_integer(y.dtype())) {
    left = &cast_to(x, DType::float32);  // 2.4 divides integers as Python 3 does
  }
  if (right->dtype() != left->dtype()) right = &cast_to(*right, left->dtype());
  // 1.8 lets operands meet at the batch; 2.4 always at their ends, as numpy does.
  const bool from_front = defaults().style != Style::static_2_4 && right->shape().rank() > 0 &&
                          !right->shape()[0].known();
  Var& out = new_tmp(block_of(x), is_compare(op) ? DType::boolean : left->dtype());
  append(block_of(x), op, {{"X", {left->name()}}, {"Y", {right->name()}}}, {{"Out", {out.name()}}},
         {{"axis", from_front ? 0 : -1}});
  return out;
}

// Integers beside a fractional number: 1.8 refuses, 2.4 goes on in float32.
Var& ready_for(Var& x, const std::string& op, Scalar number) {
  if (!is_integer(x.dtype()) || number.integral || is_compare(op)) return x;
  if (defaults().style == Style::static_2_4) return cast_to(x, DType::float32);
  if (number.value == std::trunc(number.value)) return x;
  throw Error(ErrorKind::assertion, cat(x.name(), " is ", name_of(x.dtype()), " and the number is ",
                                        number.value, ", which would be cut off"))
      .in(op)
      .at(user_line())
      .fix("cast the variable to float32 first");
}

// Whether one scale op does it. Integers are not divided by a scale: it would round.
bool scales(const std::string& op, const Var& x) {
  if (op == "elementwise_div") return !is_integer(x.dtype());
  return op == "elementwise_add" || op == "elementwise_sub" || op == "elementwise_mul";
}

}  // namespace

Var& math_op(const std::string& op, Var& x, Var& y, SourceLine line) {
  const LineScope scope(line);
  return binary(op, x, y);
}

Var& math_op(const std::string& op, Var& given, Scalar y, SourceLine line) {
  const LineScope scope(line);
  Var* x = &ready_for(given, op, y);
  if (defaults().style == Style::static_2_4 && op == "elementwise_div" && is_integer(x->dtype())) {
    x = &cast_to(*x, DType::float32);
  }
  if (scales(op, *x)) {
    if (op == "elementwise_add") return scaled(*x, 1, y.value);
    if (op == "elementwise_sub") return scaled(*x, 1, -y.value);
    if (op == "elementwise_mul") return scaled(*x, y.value, 0);
    return scaled(*x, 1 / y.value, 0);
  }
  return binary(op, *x, constant(block_of(*x), y.value, x->dtype(), {1}));
}

Var& reverse_math_op(const std::string& op, Scalar number, Var& given, SourceLine line) {
  const LineScope scope(line);
  Var& y = ready_for(given, op, number);
  if (op == "elementwise_add") return scaled(y, 1, number.value);
  if (op == "elementwise_sub") return scaled(y, -1, number.value);
  if (op == "elementwise_mul") return scaled(y, number.value, 0);
  return binary(op, constant_like(y, number.value), y);
}

Var& negative(Var& x, SourceLine line) {
  const LineScope scope(line);
  return scaled(x, -1, 0);
}

namespace {

// What x[...] comes to: bounds per axis, axes to drop, axes to reverse.
struct Cut {
  std::vector<int> axes;
  std::vector<Extent> starts, ends, steps;
  std::vector<int> dropped, reversed;
};

Error index_error(const Var& x, std::string message) {
  Error error(ErrorKind::out_of_range, std::move(message));
  error.in("getitem").at(user_line()).operand(cat("x   ", x.name(), "   ", x.describe()));
  return error;
}

bool is_number(const std::optional<Extent>& extent, int64_t value) {
  return extent && !extent->var && extent->value == value;
}

constexpr int64_t kToTheEnd = 10000000;  // as the original writes it

void add_item(Cut& cut, const Var& x, int axis, const Index& item) {
  if (item.kind == Index::Kind::at) {
    const Dim extent = x.shape()[axis];
    const int64_t at = item.at_.value;
    if (!item.at_.var && extent.known() && (at < -extent.value() || at >= extent.value())) {
      throw index_error(x,
                        cat("index ", at, " is outside of dimension ", axis, " of size ", extent));
    }
    cut.axes.push_back(axis);
    cut.dropped.push_back(axis);
    cut.starts.push_back(item.at_);
    if (item.at_.var) {
      cut.ends.push_back(scaled(*item.at_.var, 1, 1));
    } else {
      cut.ends.push_back(at == -1 ? kToTheEnd : at + 1);
    }
    cut.steps.push_back(1);
    return;
  }
  if (!item.start && !item.stop && (!item.step || is_number(item.step, 1))) return;
  if (!item.start && !item.stop && is_number(item.step, -1)) {
    cut.reversed.push_back(axis);
    return;
  }
  if (is_number(item.step, 0)) throw index_error(x, "the step of a slice is 0");
  // Going backwards, a missing bound is the other end.
  const bool backwards = item.step && !item.step->var && item.step->value < 0;
  cut.axes.push_back(axis);
  cut.starts.push_back(item.start.value_or(backwards ? Extent(kToTheEnd) : Extent(0)));
  cut.ends.push_back(item.stop.value_or(backwards ? Extent(-kToTheEnd) : Extent(kToTheEnd)));
  cut.steps.push_back(item.step.value_or(1));
}

// Numbers into `attr`; where there is a variable, one variable per entry into `slot` as well.
void put_bound(Block& block, const std::vector<Extent>& bound, const char* attr, const char* slot,
               Slots& inputs, Attrs& attrs, std::vector<int>& infer_flags) {
  const Extents list(bound);
  attrs[attr] = list.ints();
  if (list.all_known()) return;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].var) infer_flags[i] = -1;
    Var& entry = bound[i].var
                     ? *bound[i].var
                     : constant(block, static_cast<double>(bound[i].value), DType::int32, {1});
    inputs[slot].push_back(entry.name());
  }
}

// The axes are those of the whole variable; `x` lacks the dropped ones.
Var& reverse(Var& x, const std::string& of, const Cut& cut) {
  std::vector<int> axes;
  for (const int axis : cut.reversed) {
    axes.push_back(axis - static_cast<int>(std::count_if(cut.dropped.begin(), cut.dropped.end(),
                                                         [&](int gone) { return gone < axis; })));
  }
  Block& block = block_of(x);
  Var& out = block.create_var({.name = unique_names().generate(of + "_slice_reverse"),
                               .dtype = x.dtype(),
                               .has_shape = false});
  append(block, "reverse", {{"X", {x.name()}}}, {{"Out", {out.name()}}}, {{"axis", axes}});
  return out;
}

Var& cut_out(Var& x, const Cut& cut) {
  Block& block = block_of(x);
  bool strided = false;
  for (const Extent& step : cut.steps) strided = strided || step.var || step.value != 1;
  Slots inputs = {{"Input", {x.name()}}};
  std::vector<int> infer_flags(cut.axes.size(), 1);
  Attrs attrs = {{"axes", cut.axes}, {"decrease_axis", cut.dropped}};
  put_bound(block, cut.starts, "starts", "StartsTensorList", inputs, attrs, infer_flags);
  put_bound(block, cut.ends, "ends", "EndsTensorList", inputs, attrs, infer_flags);
  if (strided) {
    put_bound(block, cut.steps, "strides", "StridesTensorList", inputs, attrs, infer_flags);
  }
  attrs["infer_flags"] = infer_flags;
  const char* type = strided ? "strided_slice" : "slice";
  Var& out = block.create_var({.name = unique_names().generate(cat(x.name(), "_", type)),
                               .dtype = x.dtype(),
                               .has_shape = false});
  append(block, type, std::move(inputs), {{"Out", {out.name()}}}, std::move(attrs));
  return out;
}

}  // namespace

Var& index(Var& x, const std::vector<Index>& items, SourceLine line) {
  const LineScope scope(line);
  const int rank = x.shape().rank();
  int given = 0;
  int ellipses = 0;
  for (const Index& item : items) {
    if (item.kind == Index::Kind::ellipsis) {
      ++ellipses;
    } else {
      ++given;
    }
  }
  if (given > rank) {
    throw index_error(x, cat(given, " indices for a variable of ", rank, " dimensions"));
  }
  if (ellipses > 1) throw index_error(x, "an index has at most one ellipsis");
  Cut cut;
  int axis = 0;
  for (const Index& item : items) {
    if (item.kind == Index::Kind::ellipsis) {
      axis += rank - given;
    } else {
      add_item(cut, x, axis++, item);
    }
  }
  Var& kept = cut.axes.empty() ? x : cut_out(x, cut);
  return cut.reversed.empty() ? kept : reverse(kept, x.name(), cut);
}

}  // namespace layers

namespace {

Var& apply_operator(const char* op, Var& x, const Operand& y) {
  return y.var ? layers::math_op(op, x, *y.var, y.line) : layers::math_op(op, x, y.number, y.line);
}

}  // namespace

Var& operator+(Var& x, const Operand& y) { return apply_operator("elementwise_add", x, y); }
Var& operator-(Var& x, const Operand& y) { return apply_operator("elementwise_sub", x, y); }
Var& operator*(Var& x, const Operand& y) { return apply_operator("elementwise_mul", x, y); }
Var& operator/(Var& x, const Operand& y) { return apply_operator("elementwise_div", x, y); }
Var& operator<(Var& x, const Operand& y) { return apply_operator("less_than", x, y); }
Var& operator<=(Var& x, const Operand& y) { return apply_operator("less_equal", x, y); }
Var& operator>(Var& x, const Operand& y) { return apply_operator("greater_than", x, y); }
Var& operator>=(Var& x, const Operand& y) { return apply_operator("greater_equal", x, y); }
Var& operator+(Scalar x, const VarOperand& y) {
  return layers::reverse_math_op("elementwise_add", x, y.var, y.line);
}
Var& operator-(Scalar x, const VarOperand& y) {
  return layers::reverse_math_op("elementwise_sub", x, y.var, y.line);
}
Var& operator*(Scalar x, const VarOperand& y) {
  return layers::reverse_math_op("elementwise_mul", x, y.var, y.line);
}
Var& operator/(Scalar x, const VarOperand& y) {
  return layers::reverse_math_op("elementwise_div", x, y.var, y.line);
}

}  // namespace trireme
