// The expression functions of bodies: each appends one primitive.
#include "ir/body.h"

#include "ir/schema.h"

namespace trireme {
namespace {

std::vector<int32_t> to_ints(const std::vector<int>& values) {
  return {values.begin(), values.end()};
}

Expr unary(std::string_view primitive, Expr x) { return emit(primitive, {x}); }
Expr binary(std::string_view primitive, Expr a, Expr b) { return emit(primitive, {a, b}); }
Expr binary(std::string_view primitive, Expr a, double b) {
  return emit(primitive, {a, constant(a, b)});
}
Expr binary(std::string_view primitive, double a, Expr b) {
  return emit(primitive, {constant(b, a), b});
}

Expr reduce(std::string_view primitive, Expr x, const std::vector<int>& axes, bool keep) {
  return emit(primitive, {x}, {{"axes", to_ints(axes)}, {"keep", keep}});
}

}  // namespace

Expr emit(std::string_view primitive, const std::vector<Expr>& inputs, Attrs attrs) {
  promise(!inputs.empty() && inputs[0], "a primitive of a body has operands");
  Emitter& emitter = inputs[0].emitter();
  std::vector<int> ids;
  for (const Expr& input : inputs) {
    promise(static_cast<bool>(input), "every operand of a primitive is set");
    ids.push_back(input.id());
  }
  return {&emitter, emitter.emit(primitive, ids, std::move(attrs)).at(0)};
}

Exprs emit_op(Emitter& emitter, std::string_view type, const Exprs& operands, Attrs attrs,
              const Emitter::Wanted& wanted) {
  Emitter::Operands ids;
  for (const auto& [slot, exprs] : operands) {
    for (const Expr& operand : exprs) {
      promise(static_cast<bool>(operand), "every operand of an op is set");
      ids[slot].push_back(operand.id());
    }
  }
  Exprs results;
  for (const auto& [slot, values] : emitter.emit_op(type, ids, std::move(attrs), wanted)) {
    for (const int value : values) results[slot].emplace_back(&emitter, value);
  }
  return results;
}

Expr constant(Emitter& emitter, DType dtype, double value) {
  Attrs attrs{{"value", value}, {"dtype", static_cast<int32_t>(dtype)}};
  return {&emitter, emitter.emit("p.constant", {}, std::move(attrs)).at(0)};
}
Expr constant(const Expr& like, double value) {
  return constant(like.emitter(), like.dtype(), value);
}
Expr full_like(const Expr& like, double value) {
  return emit("p.full_like", {like}, {{"value", value}});
}

Expr operator+(Expr a, Expr b) { return binary("p.add", a, b); }
Expr operator-(Expr a, Expr b) { return binary("p.sub", a, b); }
Expr operator*(Expr a, Expr b) { return binary("p.mul", a, b); }
Expr operator/(Expr a, Expr b) { return binary("p.div", a, b); }
Expr operator+(Expr a, double b) { return binary("p.add", a, b); }
Expr operator-(Expr a, double b) { return binary("p.sub", a, b); }
Expr operator*(Expr a, double b) { return binary("p.mul", a, b); }
Expr operator/(Expr a, double b) { return binary("p.div", a, b); }
Expr operator+(double a, Expr b) { return binary("p.add", a, b); }
Expr operator-(double a, Expr b) { return binary("p.sub", a, b); }
Expr operator*(double a, Expr b) { return binary("p.mul", a, b); }
Expr operator/(double a, Expr b) { return binary("p.div", a, b); }
Expr operator-(Expr a) { return unary("p.neg", a); }

Expr abs(Expr x) { return unary("p.abs", x); }
Expr exp(Expr x) { return unary("p.exp", x); }
Expr log(Expr x) { return unary("p.log", x); }
Expr sqrt(Expr x) { return unary("p.sqrt", x); }
Expr rsqrt(Expr x) { return unary("p.rsqrt", x); }
Expr reciprocal(Expr x) { return unary("p.reciprocal", x); }
Expr square(Expr x) { return unary("p.square", x); }
Expr tanh(Expr x) { return unary("p.tanh", x); }
Expr sigmoid(Expr x) { return unary("p.sigmoid", x); }
Expr sin(Expr x) { return unary("p.sin", x); }
Expr cos(Expr x) { return unary("p.cos", x); }
Expr erf(Expr x) { return unary("p.erf", x); }
Expr floor(Expr x) { return unary("p.floor", x); }
Expr ceil(Expr x) { return unary("p.ceil", x); }
Expr round(Expr x) { return unary("p.round", x); }
Expr sign(Expr x) { return unary("p.sign", x); }
Expr log1p(Expr x) { return unary("p.log1p", x); }
Expr maximum(Expr a, Expr b) { return binary("p.max", a, b); }
Expr minimum(Expr a, Expr b) { return binary("p.min", a, b); }
Expr maximum(Expr a, double b) { return binary("p.max", a, b); }
Expr minimum(Expr a, double b) { return binary("p.min", a, b); }
Expr pow(Expr a, Expr b) { return binary("p.pow", a, b); }
Expr pow(Expr a, double b) { return binary("p.pow", a, b); }
Expr floor_divide(Expr a, Expr b) { return binary("p.floordiv", a, b); }
Expr modulo(Expr a, Expr b) { return binary("p.mod", a, b); }

Expr equal(Expr a, Expr b) { return binary("p.eq", a, b); }
Expr not_equal(Expr a, Expr b) { return binary("p.ne", a, b); }
Expr less(Expr a, Expr b) { return binary("p.lt", a, b); }
Expr less_equal(Expr a, Expr b) { return binary("p.le", a, b); }
Expr greater(Expr a, Expr b) { return binary("p.gt", a, b); }
Expr greater_equal(Expr a, Expr b) { return binary("p.ge", a, b); }
Expr less(Expr a, double b) { return binary("p.lt", a, b); }
Expr greater(Expr a, double b) { return binary("p.gt", a, b); }
Expr less_equal(Expr a, double b) { return binary("p.le", a, b); }
Expr greater_equal(Expr a, double b) { return binary("p.ge", a, b); }
Expr equal(Expr a, double b) { return binary("p.eq", a, b); }
Expr logical_and(Expr a, Expr b) { return binary("p.and", a, b); }
Expr logical_or(Expr a, Expr b) { return binary("p.or", a, b); }
Expr logical_xor(Expr a, Expr b) { return binary("p.xor", a, b); }
Expr logical_not(Expr a) { return unary("p.not", a); }
Expr is_finite(Expr x) { return unary("p.is_finite", x); }
Expr select(Expr condition, Expr yes, Expr no) { return emit("p.select", {condition, yes, no}); }
Expr cast(Expr x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return emit("p.cast", {x}, {{"dtype", static_cast<int32_t>(dtype)}});
}

Expr reduce_sum(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.sum", x, axes, keep);
}
Expr reduce_mean(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.mean", x, axes, keep);
}
Expr reduce_max(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.reduce_max", x, axes, keep);
}
Expr reduce_min(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.reduce_min", x, axes, keep);
}
Expr reduce_prod(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.prod", x, axes, keep);
}
Expr reduce_all(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.all", x, axes, keep);
}
Expr reduce_any(Expr x, const std::vector<int>& axes, bool keep) {
  return reduce("p.any", x, axes, keep);
}

Expr reshape(Expr x, const std::vector<int64_t>& shape) {
  return emit("p.reshape", {x}, {{"shape", shape}});
}
Expr reshape_like(Expr x, Expr like) { return emit("p.reshape_like", {x, like}); }
Expr broadcast_like(Expr x, Expr like) { return emit("p.broadcast_like", {x, like}); }
Expr sum_to_like(Expr x, Expr like) { return emit("p.sum_to_like", {x, like}); }
Expr flatten2d(Expr x, int axis) { return emit("p.flatten2d", {x}, {{"axis", int32_t{axis}}}); }
Expr align(Expr x, int rank, int axis) {
  return emit("p.align", {x}, {{"rank", int32_t{rank}}, {"axis", int32_t{axis}}});
}
Expr unsqueeze(Expr x, const std::vector<int>& axes) {
  return emit("p.unsqueeze", {x}, {{"axes", to_ints(axes)}});
}
Expr squeeze(Expr x, const std::vector<int>& axes) {
  return emit("p.squeeze", {x}, {{"axes", to_ints(axes)}});
}
Expr transpose(Expr x, const std::vector<int>& perm) {
  return emit("p.transpose", {x}, {{"perm", to_ints(perm)}});
}

Body::Body(Emitter& emitter, const OpView& op, std::vector<int> inputs)
    : emitter_(emitter), op_(op), inputs_(std::move(inputs)), results_(op.out_size()) {}

Expr Body::in(std::string_view slot, size_t i) const {
  const int position = op_.position(slot, i);
  const int id = position < 0 ? -1 : inputs_[static_cast<size_t>(position)];
  if (id < 0) {
    throw InternalError(cat("the body of ", op_.schema().type(), " reads input ", slot, "[", i,
                            "], which is absent"));
  }
  return {&emitter_, id};
}

Expr Vjp::in(std::string_view slot, size_t i) const {
  if (!op_.schema().find_input(slot) || i >= op_.count(slot)) return {};
  return ins_[static_cast<size_t>(op_.position(slot, i))];
}

Expr Vjp::grad(std::string_view slot, size_t i) const {
  if (!op_.schema().find_output(slot) || i >= op_.out_count(slot)) return {};
  const int position = op_.out_position(slot, i);
  return position < 0 ? Expr() : out_grads_[static_cast<size_t>(position)];
}

void Vjp::set(std::string_view slot, size_t i, Expr gradient) {
  grads_[static_cast<size_t>(op_.position(slot, i))] = gradient;
}

Emitter& Vjp::emitter() const {
  for (const std::vector<Expr>* exprs : {&ins_, &out_grads_}) {
    for (const Expr& each : *exprs) {
      if (each) return each.emitter();
    }
  }
  throw InternalError("a gradient without operands");
}

}  // namespace trireme
