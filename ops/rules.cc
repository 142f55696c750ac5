// Shape rules and gradient helpers that several families share.
#include "ops/rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {

void carry_lod(OpView& op, std::string_view out_slot, const std::vector<std::string>& slots) {
  if (!op.wants(out_slot)) return;
  ValueInfo& out = op.out(out_slot);
  if (out.shape.rank() == 0) return;
  for (const std::string& slot : slots) {
    if (!op.has(slot)) continue;
    const ValueInfo& in = op.in(slot);
    if (in.lod_level == 0 && in.lod.empty()) continue;
    if (in.shape.rank() == 0 || !in.shape[0].may_equal(out.shape[0])) continue;
    out.lod_level = in.lod_level;
    out.lod = in.lod;
    return;
  }
}

std::vector<int> normal_axes(const OpView& op, const std::vector<int32_t>& axes, int rank,
                             std::string_view name) {
  std::vector<int> result;
  for (const int32_t axis : axes) result.push_back(normal_axis(op, axis, rank, name));
  if (axes.empty()) {
    for (int d = 0; d < rank; ++d) result.push_back(d);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

Shape resolve_shape(const OpView& op, const Shape& from, const std::vector<int64_t>& shape) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    throw op.error(cat("shape has ", shape.size(), " dimensions"))
        .fix(cat("use at most ", kMaxRank, " dimensions"));
  }
  Shape out;
  int inferred = -1;
  Dim rest = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = static_cast<int>(i);
    Dim extent;
    if (shape[i] == -1) {
      if (inferred >= 0) {
        throw op
            .error(cat("shape is [", join(shape), "], which has -1 at ", inferred, " and at ", i))
            .fix("leave at most one dimension to be inferred");
      }
      inferred = axis;
    } else if (shape[i] == 0) {
      if (axis >= from.rank()) {
        throw op
            .error(cat("shape[", i, "] is 0, which copies dimension ", i, " of X, but X has ",
                       from.rank(), " dimensions"))
            .fix("write the extent itself, or -1");
      }
      extent = from[axis];
    } else if (shape[i] < -1) {
      throw op.error(cat("shape[", i, "] is ", shape[i]))
          .fix("use a positive extent, 0 to copy X's or -1 to infer it");
    } else {
      extent = shape[i];
    }
    out.push_back(extent);
    if (inferred != axis) rest = rest * extent;
  }
  const Dim total = from.numel();
  if (inferred >= 0) {
    if (total.known() && rest.known() && (rest == Dim(0) || total.value() % rest.value() != 0)) {
      if (!(rest == Dim(0) && total == Dim(0))) {
        throw op
            .error(cat("X of shape ", from, " has ", total, " elements, which shape [", join(shape),
                       "] cannot hold"))
            .fix("make the known extents divide X's element count");
      }
    }
    out[inferred] = rest == Dim(0) && total == Dim(0) ? Dim(0) : total / rest;
  } else if (!rest.may_equal(total)) {
    throw op
        .error(cat("X of shape ", from, " has ", total, " elements but shape [", join(shape),
                   "] has ", rest))
        .fix("give a shape with as many elements as X, or one -1 to be inferred");
  }
  return out;
}

std::vector<int64_t> read_ints(const OpView& op, std::string_view slot, size_t i) {
  const ValueInfo& info = op.in(slot, i);
  std::vector<int64_t> numbers;
  if (!info.value) return numbers;
  const Tensor& tensor = info.value->tensor();
  if (!is_integer(tensor.dtype())) {
    throw op.error(cat(slot, " holds ", name_of(tensor.dtype()), " values"))
        .fix(cat("give ", slot, " as int32 or int64"));
  }
  const Tensor longs = cast(tensor, DType::int64);
  const int64_t* first = longs.data<int64_t>();
  numbers.assign(first, first + longs.numel());
  return numbers;
}

DType dtype_attr(const OpView& op, std::string_view name) {
  const int number = op.attr<int32_t>(name);
  const auto dtype = dtype_from_wire(number);
  if (!dtype) {
    throw op.error(cat(name, " is ", number, ", which is no element type"))
        .fix("use a VarType number such as FP32 (5) or INT64 (3)");
  }
  return *dtype;
}

void require_dense(const OpView& op, std::string_view slot) {
  if (!op.in(slot).known || op.in(slot).type == VarType::lod_tensor) return;
  throw op.error(cat(slot, " is a ", name_of(op.in(slot).type), ", but this op takes a tensor"))
      .fix("convert it first, for instance with get_tensor_from_selected_rows");
}

void require_array(const OpView& op, std::string_view slot) {
  if (!op.in(slot).known || op.in(slot).type == VarType::lod_tensor_array) return;
  throw op.error(cat(slot, " is a ", name_of(op.in(slot).type), ", not an array of tensors"))
      .fix("give what array_write or create_array returns");
}

void require_floating(const OpView& op, std::string_view slot) {
  const ValueInfo& info = op.in(slot);
  if (!info.known || is_floating(info.dtype)) return;
  throw Error(ErrorKind::type_mismatch,
              cat(slot, " holds ", name_of(info.dtype), " but must hold real numbers"))
      .fix(cat("cast ", slot, " to float32 first"));
}

void require_numbers(const OpView& op, std::string_view slot) {
  const ValueInfo& info = op.in(slot);
  if (!info.known || info.dtype != DType::boolean) return;
  throw Error(ErrorKind::type_mismatch, cat(slot, " holds bool but must hold numbers"))
      .fix(cat("cast ", slot, " to float32 or int64 first"));
}

void require_one_number(const OpView& op, std::string_view slot) {
  if (!op.has(slot) || op.in(slot).shape.numel().may_equal(1)) return;
  throw op.error(cat(slot, " has shape ", op.in(slot).shape, " but holds one number"))
      .fix(cat("give ", slot, " the shape [1]"));
}

ShapeRule floating_like_x() {
  return [](OpView& op) {
    require_dense(op, "X");
    require_floating(op, "X");
    op.set_out_like("Out", op.in("X"));
  };
}

void place_at_axis(Expr& x, Expr& y, int axis) {
  Expr& narrow = x.rank() < y.rank() ? x : y;
  const int rank = std::max(x.rank(), y.rank());
  if (axis == -1 || axis == rank - narrow.rank()) return;
  std::vector<int> dropped;
  for (int d = narrow.rank() - 1; d >= 0 && axis + d >= rank; --d) dropped.push_back(d);
  if (!dropped.empty()) narrow = squeeze(narrow, dropped);
  narrow = align(narrow, rank, axis);
}

Tensor away_from(Tensor x, std::initializer_list<double> kinks) {
  constexpr double kNear = 0.02;
  double* data = x.data<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    for (const double kink : kinks) {
      if (std::abs(data[i] - kink) < kNear) data[i] += data[i] < kink ? -kNear : kNear;
    }
  }
  return x;
}

void no_gradient(Vjp&) {}

namespace {

bool holds(const std::vector<std::string>& slots, const std::string& name) {
  return std::find(slots.begin(), slots.end(), name) != slots.end();
}

// The operands of a slot of the gradient op.
std::vector<Expr> operands_of(const Vjp& v, const std::string& slot) {
  std::vector<Expr> operands;
  if (!v.op().schema().find_input(slot)) return operands;
  for (size_t i = 0; i < v.op().count(slot); ++i) operands.push_back(v.in(slot, i));
  return operands;
}

// What arrives at the gradients of a slot; zeros where nothing does, and nothing at all does not
// count.
std::vector<Expr> arriving_at(const Vjp& v, const std::string& slot) {
  const std::string gradient = grad_name(slot);
  const size_t count =
      v.op().schema().find_output(gradient) ? v.op().out_count(gradient) : size_t{0};
  std::vector<Expr> arriving;
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= static_cast<bool>(v.grad(gradient, i));
  for (size_t i = 0; any && i < count; ++i) {
    const Expr found = v.grad(gradient, i);
    if (!found && !v.in(slot, i)) {
      throw Error(ErrorKind::unimplemented,
                  cat("only some gradients of ", slot, " are differentiated"))
          .fix("let a gradient go through every variable of the list, or through none");
    }
    arriving.push_back(found ? found : full_like(v.in(slot, i), 0.0));
  }
  return arriving;
}

}  // namespace

VjpRule linear_gradient(std::vector<std::string> slots, Attrs changed) {
  return [slots = std::move(slots), changed = std::move(changed)](Vjp& v) {
    const OpSchema& forward = *v.op().schema().forward();
    Exprs operands;
    for (const SlotSpec& slot : forward.inputs()) {
      std::vector<Expr> found =
          holds(slots, slot.name) ? arriving_at(v, slot.name) : operands_of(v, slot.name);
      if (found.empty() && holds(slots, slot.name) && !slot.dispensable) {
        for (const Expr& x : operands_of(v, slot.name)) found.push_back(full_like(x, 0.0));
      }
      if (!found.empty()) operands[slot.name] = std::move(found);
    }
    Emitter::Wanted wanted;
    for (const SlotSpec& slot : forward.outputs()) {
      const std::string gradient = grad_name(slot.name);
      if (!v.op().schema().find_input(gradient) || v.op().count(gradient) == 0) continue;
      wanted[slot.name] = v.op().count(gradient);
    }
    Attrs attrs = v.op().attrs();
    for (const auto& [name, value] : changed) attrs.insert_or_assign(name, value);
    for (const auto& [slot, results] :
         emit_op(v.emitter(), forward.type(), operands, std::move(attrs), wanted)) {
      for (size_t i = 0; i < results.size(); ++i) v.set(grad_name(slot), i, results[i]);
    }
  };
}

namespace {

// Operands of the gradient of a bilinear op, what arrives at its results (to_...), and the
// gradients of its operands.
struct Bilinear {
  std::string type, x_slot, y_slot, out_slot;
  Expr x, y, g, to_x, to_y, to_bias;
  Expr grad_x = {}, grad_y = {}, grad_g = {};
};

// With u and v arriving at the gradients of x and y, and g the gradient of the result: that of g is
// op(u, y) + op(x, v), that of x is the op's own for (x, v), that of y the op's own for (u, y).
void differentiate(Bilinear& b, const Attrs& attrs) {
  Emitter& emitter = b.g.emitter();
  const auto add_product = [&](Expr left, Expr right) {
    Exprs operands{{b.x_slot, {left}}, {b.y_slot, {right}}};
    if (b.to_bias) operands["Bias"] = {std::exchange(b.to_bias, Expr())};
    const Expr term = emit_op(emitter, b.type, operands, attrs, {{b.out_slot, 1}})[b.out_slot][0];
    b.grad_g = b.grad_g ? b.grad_g + term : term;
  };
  if (b.to_x) add_product(b.to_x, b.y);
  if (b.to_y) add_product(b.x, b.to_y);
  if (b.to_bias) add_product(full_like(b.x, 0.0), b.y);

  const std::string to_x = grad_name(b.x_slot), to_y = grad_name(b.y_slot);
  const Exprs operands{{b.x_slot, {b.to_x ? b.to_x : b.x}},
                       {b.y_slot, {b.to_y ? b.to_y : b.y}},
                       {grad_name(b.out_slot), {b.g}}};
  Emitter::Wanted wanted;
  if (b.to_y) wanted[to_x] = 1;
  if (b.to_x) wanted[to_y] = 1;
  if (wanted.empty()) return;
  const Exprs made = emit_op(emitter, b.type + "_grad", operands, attrs, wanted);
  if (b.to_y) b.grad_x = made.at(to_x)[0];
  if (b.to_x) b.grad_y = made.at(to_y)[0];
}

}  // namespace

VjpRule bilinear_gradient(std::string x_slot, std::string y_slot) {
  return [x_slot = std::move(x_slot), y_slot = std::move(y_slot)](Vjp& v) {
    const OpSchema& forward = *v.op().schema().forward();
    const std::string out = forward.outputs().front().name;
    Bilinear terms{.type = forward.type(),
                   .x_slot = x_slot,
                   .y_slot = y_slot,
                   .out_slot = out,
                   .x = v.in(x_slot),
                   .y = v.in(y_slot),
                   .g = v.in(grad_name(out)),
                   .to_x = v.grad(grad_name(x_slot)),
                   .to_y = v.grad(grad_name(y_slot)),
                   .to_bias = v.grad("Bias@GRAD")};
    differentiate(terms, v.op().attrs());
    if (terms.grad_g) v.set(grad_name(out), 0, terms.grad_g);
    if (terms.grad_x) v.set(x_slot, 0, terms.grad_x);
    if (terms.grad_y) v.set(y_slot, 0, terms.grad_y);
  };
}

void bilinear_second_gradient(Registry& ops, OpSchema& row) {
  const std::string type = row.type(), x = row.inputs()[0].name, y = row.inputs()[1].name;
  const std::string out = row.outputs().front().name;
  SecondGradient parts{.ins = {x, y, "D" + out, "DD" + x, "DD" + y},
                       .outs = {{"DD" + out}, {"D" + x, {"DD" + y}}, {"D" + y, {"DD" + x}}},
                       .body = [=](Body& b) {
                         const auto in = [&](const std::string& slot) {
                           return b.op().schema().find_input(slot) && b.has(slot) ? b.in(slot)
                                                                                  : Expr();
                         };
                         Bilinear terms{.type = type,
                                        .x_slot = x,
                                        .y_slot = y,
                                        .out_slot = out,
                                        .x = b.in(x),
                                        .y = b.in(y),
                                        .g = b.in("D" + out),
                                        .to_x = in("DD" + x),
                                        .to_y = in("DD" + y),
                                        .to_bias = in("DDBias")};
                         differentiate(terms, b.op().attrs());
                         if (terms.grad_g) b.out("DD" + out) = terms.grad_g;
                         if (terms.grad_x) b.out("D" + x) = terms.grad_x;
                         if (terms.grad_y) b.out("D" + y) = terms.grad_y;
                       }};
  if (row.find_input("Bias")) parts.ins.push_back("DDBias");
  ops.second_gradient(row, std::move(parts));
}

}  // namespace trireme
