// Ops of two tensors element by element, with fluid's axis: where in X the dimensions of Y stand.
#include <cstring>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void require_equal_types(const OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  if (!x.known || !y.known || x.dtype == y.dtype) return;
  throw Error(ErrorKind::type_mismatch,
              cat("X holds ", name_of(x.dtype), " but Y holds ", name_of(y.dtype)))
      .fix("cast one of them to the type of the other");
}

void elementwise_shape(OpView& op) {
  require_equal_types(op);
  require_dense(op, "Y");
  const ValueInfo& x = op.in("X");
  if (x.type == VarType::selected_rows && op.schema().type() == "elementwise_mul") {
    if (!op.in("Y").shape.numel().may_equal(1)) {
      throw op.error(cat("X is SELECTED_ROWS and Y has shape ", op.in("Y").shape))
          .fix("multiply SelectedRows by a Y of one element");
    }
    op.set_out_like("Out", x);
    return;
  }
  require_dense(op, "X");
  const int axis = op.attr<int32_t>("axis");
  op.set_out("Out", x.dtype, broadcast_shapes(op, x.shape, op.in("Y").shape, axis));
  carry_lod(op, "Out", {"X"});
}

using PairFormula = Expr (*)(Expr, Expr);

OpSchema& elementwise(Registry& ops, const std::string& name, const char* doc, PairFormula f) {
  return ops.op(name)
      .in("X", "any shape")
      .in("Y", "X's type; its shape is a part of X's, or broadcasts with it")
      .out("Out", doc)
      .attr("axis", -1, "the dimension of X at which Y's first one stands; -1: aligned at the end")
      .at_least(-1)
      .shape(elementwise_shape)
      .body([f](Body& b) {
        Expr x = b.in("X"), y = b.in("Y");
        place_at_axis(x, y, b.attr<int32_t>("axis"));
        b.out("Out") = f(x, y);
      })
      .inplace("X", "Out");
}

// Quotient and remainder. Floats are rounded down. Integers are too in 2.x; 1.8 rounds their
// quotient towards 0, so that the remainder has the sign of X.
void add_division(Registry& ops, const std::string& name, const char* doc, bool quotient) {
  elementwise(ops, name, doc, nullptr)
      .attr("rounds_down", false, "of integers: the quotient is rounded down, not towards 0")
      .body([quotient](Body& b) {
        Expr x = b.in("X"), y = b.in("Y");
        place_at_axis(x, y, b.attr<int32_t>("axis"));
        if (is_floating(x.dtype()) || b.attr<bool>("rounds_down")) {
          b.out("Out") = quotient ? floor_divide(x, y) : modulo(x, y);
          return;
        }
        const Expr down = floor_divide(x, y), rest = x - down * y;
        const Expr below =
            logical_and(logical_not(equal(rest, 0)), logical_xor(less(x, 0), less(y, 0)));
        const Expr towards_zero = select(below, down + 1.0, down);
        b.out("Out") = quotient ? towards_zero : x - towards_zero * y;
      });
}

// SelectedRows times one number: the rows stay, their values are scaled.
KernelMake scaled_rows() {
  return [](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
    if (site.in("X").type != VarType::selected_rows) {
      if (why_not) *why_not = "X is dense";
      return std::nullopt;
    }
    return for_dtype<float, double>(site.in("X").dtype, why_not, []<class T>() {
      return [](const KernelArgs& k) {
        const SelectedRows& x = std::as_const(*k.ins[0]).rows();
        SelectedRows& out = k.outs[0]->rows();
        const T factor = k.in<T>(1)[0];
        out.rows = x.rows;
        out.height = x.height;
        if (x.rows.empty()) return;
        const T* from = x.value.data<T>();
        std::transform(from, from + x.value.numel(), out.value.data<T>(),
                       [factor](T v) { return v * factor; });
      };
    });
  };
}

// ---- gradients of gradients

// X, Y and what arrives at their gradients, each where it stands in the result. X itself is an
// operand for its rank alone where the original's op has none; what arrives or `out` stands in.
struct Placed {
  Expr x, y, to_x, to_y;
};

Placed placed(Body& b, const Expr& out) {
  const int axis = b.attr<int32_t>("axis");
  const auto in = [&b](const char* slot) { return b.has(slot) ? b.in(slot) : Expr(); };
  Placed made{in("X"), in("Y"), in("DDX"), in("DDY")};
  const Expr like_x = made.x ? made.x : made.to_x ? made.to_x : out, like_y = made.y;
  for (Expr* x : {&made.x, &made.to_x}) {
    Expr other = like_y;
    if (*x) place_at_axis(*x, other, axis);
  }
  for (Expr* y : {&made.y, &made.to_y}) {
    Expr other = like_x;
    if (*y) place_at_axis(other, *y, axis);
  }
  return made;
}

Expr sum_back(const Expr& gradient, const Expr& placed, const Expr& like) {
  return reshape_like(sum_to_like(gradient, placed), like);
}

// Of X + sign * Y.
void second_of_sum(Registry& ops, OpSchema& row, double sign) {
  ops.second_gradient(
      row, {.ins = {"X?", "Y", "DOut", "DDX", "DDY"}, .outs = {{"DDOut"}}, .body = [sign](Body& b) {
              const Expr out = b.in("DOut");
              const Placed at = placed(b, out);
              const Expr to_x = at.to_x ? broadcast_like(at.to_x, out) : Expr();
              const Expr to_y = at.to_y ? broadcast_like(at.to_y, out) * sign : Expr();
              if (to_x || to_y) b.out("DDOut") = to_x && to_y ? to_x + to_y : to_x ? to_x : to_y;
            }});
}

// The original's kernel cannot do without DDX, of products and of quotients.
void second_of_product(Registry& ops, OpSchema& row) {
  ops.second_gradient(row, {.ins = {"X", "Y", "DOut", "DDX", "DDY"},
                            .outs = {{"DDOut"}, {"X@GRAD", {"DDY"}}, {"Y@GRAD", {"DDX"}}},
                            .body =
                                [](Body& b) {
                                  const Expr g = b.in("DOut");
                                  const Placed at = placed(b, g);
                                  Expr sum;
                                  if (at.to_x) {
                                    b.out("Y@GRAD") = sum_back(g * at.to_x, at.y, b.in("Y"));
                                    sum = at.to_x * at.y;
                                  }
                                  if (at.to_y) {
                                    b.out("X@GRAD") = sum_back(g * at.to_y, at.x, b.in("X"));
                                    const Expr term = at.x * at.to_y;
                                    sum = sum ? sum + term : term;
                                  }
                                  if (sum) b.out("DDOut") = sum;
                                },
                            .filled = {"DDX"}});
}

// The original reads the first gradient of X; here it is there only where somebody wants it, and
// is a sum where X is the narrower.
void second_of_quotient(Registry& ops, OpSchema& row) {
  ops.second_gradient(
      row, {.ins = {"X?", "Y", "Out", "DOut?", "DX?", "DDX", "DDY"},
            .outs = {{"DDOut"}, {"DOut", {"DDY"}}, {"Y@GRAD"}},
            .body =
                [](Body& b) {
                  const Expr out = b.in("Out");
                  const Placed at = placed(b, out);
                  const Expr share = b.has("DOut") ? b.in("DOut") / at.y : b.in("DX");
                  if (share.rank() != out.rank() || !share.shape().may_equal(out.shape())) {
                    throw Error(ErrorKind::unimplemented,
                                cat("DX has shape ", share.shape(), " and Out ", out.shape()))
                        .fix("give DOut, the gradient of Out, too");
                  }
                  Expr moved = at.to_x;
                  if (at.to_y) {
                    moved = moved ? moved - out * at.to_y : -(out * at.to_y);
                    b.out("DOut") = -(at.to_y * share);
                  }
                  if (!moved) return;
                  b.out("DDOut") = moved / at.y;
                  b.out("Y@GRAD") = sum_back(-(share * moved / at.y), at.y, b.in("Y"));
                },
            .filled = {"DDX"}});
}

// X and Y of equal shape, Y a part of X at some axis, Y with inner ones, and X the narrower.
void add_pair_samples(OpSchema& row, double low, double high) {
  row.sample([=](Draw& d) {
    const Shape shape = d.shape(1, 3);
    return OpSample{
        .inputs = {{"X", {d.uniform(shape, low, high)}}, {"Y", {d.uniform(shape, low, high)}}}};
  });
  row.sample([=](Draw& d) {
    const Shape x = d.shape(3, 3);
    const auto axis = static_cast<int32_t>(d.size(0, 2));
    const auto count = static_cast<int>(d.size(1, 3 - axis));
    Shape y;
    for (int i = 0; i < count; ++i) y.push_back(x[axis + i]);
    return OpSample{.inputs = {{"X", {d.uniform(x, low, high)}}, {"Y", {d.uniform(y, low, high)}}},
                    .attrs = {{"axis", axis}}};
  });
  row.sample([=](Draw& d) {
    const Shape x = d.shape(3, 3);
    return OpSample{.inputs = {{"X", {d.uniform(x, low, high)}},
                               {"Y", {d.uniform({x[0], 1, x[2]}, low, high)}}}};
  });
  row.sample([=](Draw& d) {
    const Shape y = d.shape(3, 3);
    return OpSample{
        .inputs = {{"X", {d.uniform({y[1], 1}, low, high)}}, {"Y", {d.uniform(y, low, high)}}}};
  });
}

// One tensor of distinct values cut in two, so that no pair of elements is a tie.
void add_distinct_samples(OpSchema& row) {
  row.sample([](Draw& d) {
    const Shape shape = d.shape(1, 3);
    const int64_t n = shape.count();
    const Tensor both = d.distinct({2 * n});
    return OpSample{.inputs = {{"X", {both.slice_rows(0, n).reshaped(shape).clone()}},
                               {"Y", {both.slice_rows(n, 2 * n).reshaped(shape).clone()}}}};
  });
  row.sample([](Draw& d) {
    const int64_t rows = d.size(1, 4), columns = d.size(1, 4), n = rows * columns;
    const Tensor both = d.distinct({n + rows});
    return OpSample{.inputs = {{"X", {both.slice_rows(0, n).reshaped({rows, columns}).clone()}},
                               {"Y", {both.slice_rows(n, n + rows).clone()}}},
                    .attrs = {{"axis", int32_t{0}}}};
  });
}

}  // namespace

void register_elementwise(Registry& ops) {
  OpSchema& add = elementwise(ops, "elementwise_add", "X + Y", [](Expr x, Expr y) {
                    return x + y;
                  }).grad({"X", "Y"});
  add_pair_samples(add, -1, 1);
  second_of_sum(ops, add, 1.0);
  OpSchema& sub = elementwise(ops, "elementwise_sub", "X - Y", [](Expr x, Expr y) {
                    return x - y;
                  }).grad({"X", "Y"});
  add_pair_samples(sub, -1, 1);
  second_of_sum(ops, sub, -1.0);
  OpSchema& mul = elementwise(ops, "elementwise_mul", "X * Y", [](Expr x, Expr y) { return x * y; })
                      .kernel(scaled_rows(), "selected_rows")
                      .grad({"X", "Y"});
  add_pair_samples(mul, -1, 1);
  second_of_product(ops, mul);
  OpSchema& div = elementwise(ops, "elementwise_div", "X / Y", [](Expr x, Expr y) {
                    return x / y;
                  }).grad({"X", "Y", "Out"});
  add_pair_samples(div, 0.4, 2);
  second_of_quotient(ops, div);
  OpSchema& power = elementwise(ops, "elementwise_pow", "X to the power Y", &pow).grad({"X", "Y"});
  add_pair_samples(power, 0.4, 2);
  OpSchema& larger =
      elementwise(ops, "elementwise_max", "the larger of X and Y", &maximum).grad({"X", "Y"});
  add_distinct_samples(larger);
  OpSchema& smaller =
      elementwise(ops, "elementwise_min", "the smaller of X and Y", &minimum).grad({"X", "Y"});
  add_distinct_samples(smaller);
  add_division(ops, "elementwise_mod", "remainder of X / Y", false);
  add_division(ops, "elementwise_floordiv", "quotient of X / Y", true);
}

}  // namespace trireme
