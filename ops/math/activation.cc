// Activations: functions of one real variable, applied to every element.
#include <cmath>

#include "ops/rules.h"

namespace trireme {
namespace {

using ActivationFormula = std::function<Expr(Body&, Expr x)>;
// The gradient from Out and Out@GRAD, for functions whose slope is known from their result.
using Slope = std::function<Expr(Body&, Expr out, Expr gradient)>;

OpSchema& activation(Registry& ops, const char* name, const char* doc, ActivationFormula formula) {
  return ops.op(name)
      .in("X", "any shape, floating point")
      .out("Out", doc)
      .shape(floating_like_x())
      .body([formula = std::move(formula)](Body& b) { b.out("Out") = formula(b, b.in("X")); })
      .inplace("X", "Out");
}

OpSchema& grad_from_out(OpSchema& row, Slope slope) {
  return row.grad({"Out"}).grad_body([slope = std::move(slope)](Body& b) {
    b.out("X@GRAD") = slope(b, b.in("Out"), b.in("Out@GRAD"));
  });
}

// The gradient written out, where the derivative of the body's own steps would be wrong at a point
// that is no kink of the function (|x| at 0) or overflow.
OpSchema& grad_from_x(OpSchema& row, Slope slope) {
  return row.grad({"X"}).grad_body([slope = std::move(slope)](Body& b) {
    b.out("X@GRAD") = slope(b, b.in("X"), b.in("Out@GRAD"));
  });
}

ShapeRule divided_by(const char* attr) {
  return [attr, like_x = floating_like_x()](OpView& op) {
    if (op.attr<float>(attr) == 0) {
      throw op.error(cat(attr, " is 0, which the result is divided by"))
          .fix(cat("give a ", attr, " other than 0"));
    }
    like_x(op);
  };
}

Expr only_where(Expr condition, Expr value) {
  return select(condition, value, constant(value, 0.0));
}

SampleRule between(double low, double high, std::initializer_list<double> kinks = {},
                   Attrs attrs = {}) {
  return [=, kinks = std::vector<double>(kinks)](Draw& d) {
    Tensor x = d.uniform(d.shape(1, 3), low, high);
    for (const double kink : kinks) x = away_from(x, {kink});
    return OpSample{.inputs = {{"X", {x}}}, .attrs = attrs};
  };
}

// Where the slope is the same on each side of a kink, only what arrives goes on.
void second_from_slope(Registry& ops, OpSchema& row, Slope slope) {
  ops.second_gradient(row, {.ins = {"Out", "DDX"}, .outs = {{"DDOut"}}, .body = [slope](Body& b) {
                              if (b.has("DDX")) {
                                b.out("DDOut") = slope(b, b.in("Out"), b.in("DDX"));
                              }
                            }});
}

// Of a function of X: `slope` is that of what arrives, and `bend` of the gradient times that.
void second_from_x(Registry& ops, OpSchema& row, Slope slope, Slope bend) {
  ops.second_gradient(
      row,
      {.ins = {"X", "DOut", "DDX"}, .outs = {{"DDOut"}, {"DX"}}, .body = [slope, bend](Body& b) {
         if (!b.has("DDX")) return;
         const Expr x = b.in("X"), arriving = b.in("DDX");
         b.out("DDOut") = slope(b, x, arriving);
         b.out("DX") = bend(b, x, arriving * b.in("DOut"));
       }});
}

// ---- functions whose gradient reads Out

void register_from_out(Registry& ops) {
  const auto relu_slope = [](Body&, Expr out, Expr g) { return only_where(greater(out, 0.0), g); };
  OpSchema& relu = grad_from_out(activation(ops, "relu", "max(X, 0)",
                                            [](Body&, Expr x) { return maximum(x, 0.0); }),
                                 relu_slope)
                       .sample(between(-1, 1, {0}));
  second_from_slope(ops, relu, relu_slope);
  grad_from_out(
      activation(ops, "tanh", "hyperbolic tangent of X", [](Body&, Expr x) { return tanh(x); }),
      [](Body&, Expr out, Expr g) { return g * (1.0 - square(out)); })
      .sample(between(-2, 2));
  grad_from_out(
      activation(ops, "sigmoid", "1 / (1 + exp(-X))", [](Body&, Expr x) { return sigmoid(x); }),
      [](Body&, Expr out, Expr g) { return g * out * (1.0 - out); })
      .sample(between(-3, 3));
  grad_from_out(activation(ops, "exp", "e to the power X", [](Body&, Expr x) { return exp(x); }),
                [](Body&, Expr out, Expr g) { return g * out; })
      .sample(between(-2, 2));
  OpSchema& root = grad_from_out(activation(ops, "sqrt", "square root of X",
                                            [](Body&, Expr x) { return sqrt(x); }),
                                 [](Body&, Expr out, Expr g) { return g * 0.5 / out; })
                       .sample(between(0.2, 3));
  ops.second_gradient(
      root, {.ins = {"Out", "DX", "DDX"}, .outs = {{"DDOut"}, {"DOut"}}, .body = [](Body& b) {
               if (!b.has("DDX")) return;
               const Expr out = b.in("Out"), arriving = b.in("DDX");
               b.out("DDOut") = arriving * 0.5 / out;
               b.out("DOut") = -arriving * b.in("DX") / out;
             }});
  grad_from_out(activation(ops, "rsqrt", "1 / sqrt(X)", [](Body&, Expr x) { return rsqrt(x); }),
                [](Body&, Expr out, Expr g) { return g * -0.5 * out * out * out; })
      .sample(between(0.2, 3));
  grad_from_out(activation(ops, "reciprocal", "1 / X", [](Body&, Expr x) { return reciprocal(x); }),
                [](Body&, Expr out, Expr g) { return -g * out * out; })
      .sample(between(0.3, 2))
      .sample(between(-2, -0.3));
  const auto leaky_slope = [](Body& b, Expr out, Expr g) {
    return select(greater(out, 0.0), g, g * b.attr<float>("alpha"));
  };
  OpSchema& leaky =
      grad_from_out(activation(ops, "leaky_relu", "X where positive, alpha * X elsewhere",
                               [](Body& b, Expr x) {
                                 return select(greater(x, 0.0), x, x * b.attr<float>("alpha"));
                               })
                        .attr("alpha", 0.02f, "slope for negative X; the gradient reads Out's sign")
                        .at_least(0),
                    leaky_slope)
          .sample(between(-1, 1, {0}))
          .sample(between(-1, 1, {0}, {{"alpha", 0.3f}}));
  second_from_slope(ops, leaky, leaky_slope);
  grad_from_out(
      activation(
          ops, "relu6", "min(max(X, 0), threshold)",
          [](Body& b, Expr x) { return minimum(maximum(x, 0.0), b.attr<float>("threshold")); })
          .attr("threshold", 6.0f, "the largest result"),
      [](Body& b, Expr out, Expr g) {
        const Expr inside = logical_and(greater(out, 0.0), less(out, b.attr<float>("threshold")));
        return only_where(inside, g);
      })
      .sample(between(-2, 8, {0, 6}));
  grad_from_out(activation(ops, "hard_sigmoid", "slope * X + offset, cut to [0, 1]",
                           [](Body& b, Expr x) {
                             const Expr line = x * b.attr<float>("slope") + b.attr<float>("offset");
                             return minimum(maximum(line, 0.0), 1.0);
                           })
                    .attr("slope", 0.2f, "slope of the middle part")
                    .attr("offset", 0.5f, "value at 0"),
                [](Body& b, Expr out, Expr g) {
                  const Expr inside = logical_and(greater(out, 0.0), less(out, 1.0));
                  return only_where(inside, g * b.attr<float>("slope"));
                })
      .sample(between(-4, 4, {-2.5, 2.5}));
  grad_from_out(activation(ops, "soft_relu", "log(1 + exp(X)), X cut to [-threshold, threshold]",
                           [](Body& b, Expr x) {
                             const double most = b.attr<float>("threshold");
                             return log1p(exp(minimum(maximum(x, -most), most)));
                           })
                    .attr("threshold", 40.0f, "X is cut to this size"),
                [](Body& b, Expr out, Expr g) {
                  const Expr inside = less(out, b.attr<float>("threshold"));
                  return only_where(inside, g * (1.0 - exp(-out)));
                })
      .sample(between(-3, 3));
}

// ---- functions whose gradient reads X

void register_smooth_activations(Registry& ops) {
  activation(ops, "log", "natural logarithm of X", [](Body&, Expr x) { return log(x); })
      .grad({"X"})
      .sample(between(0.2, 3));
  activation(ops, "log1p", "log(1 + X)", [](Body&, Expr x) { return log1p(x); })
      .grad({"X"})
      .sample(between(-0.5, 2));
  activation(ops, "abs", "|X|", [](Body&, Expr x) { return abs(x); })
      .grad({"X"})
      .sample(between(-1, 1, {0}));
  OpSchema& squared = activation(ops, "square", "X * X", [](Body&, Expr x) { return square(x); })
                          .shape([](OpView& op) {  // whole numbers too
                            require_dense(op, "X");
                            require_numbers(op, "X");
                            op.set_out_like("Out", op.in("X"));
                          })
                          .grad({"X"})
                          .sample(between(-2, 2));
  second_from_x(
      ops, squared, [](Body&, Expr x, Expr g) { return x * g * 2.0; },
      [](Body&, Expr, Expr g) { return g * 2.0; });
  activation(ops, "sin", "sine of X", [](Body&, Expr x) { return sin(x); })
      .grad({"X"})
      .sample(between(-3, 3));
  activation(ops, "cos", "cosine of X", [](Body&, Expr x) { return cos(x); })
      .grad({"X"})
      .sample(between(-3, 3));
  activation(ops, "erf", "error function of X", [](Body&, Expr x) { return erf(x); })
      .grad({"X"})
      .sample(between(-2, 2));
  activation(ops, "softsign", "X / (1 + |X|)", [](Body&, Expr x) { return x / (1.0 + abs(x)); })
      .grad({"X"})
      .sample(between(-2, 2, {0}));
  activation(ops, "swish", "X * sigmoid(beta * X)",
             [](Body& b, Expr x) { return x * sigmoid(x * b.attr<float>("beta")); })
      .attr("beta", 1.0f, "how sharp the bend is")
      .grad({"X"})
      .sample(between(-3, 3))
      .sample(between(-3, 3, {}, {{"beta", 2.0f}}));
  activation(
      ops, "stanh", "scale_b * tanh(scale_a * X)",
      [](Body& b, Expr x) { return tanh(x * b.attr<float>("scale_a")) * b.attr<float>("scale_b"); })
      .attr("scale_a", 0.67f, "scale of X")
      .attr("scale_b", 1.7159f, "scale of the result")
      .grad({"X"})
      .sample(between(-2, 2));
  activation(ops, "tanh_shrink", "X - tanh(X)", [](Body&, Expr x) { return x - tanh(x); })
      .grad({"X"})
      .sample(between(0.3, 2));
  activation(ops, "gelu", "X times the normal distribution function at X",
             [](Body& b, Expr x) {
               if (b.attr<bool>("approximate")) {
                 constexpr double kRootTwoOverPi = 0.7978845608028654;
                 return x * 0.5 * (1.0 + tanh((x + x * x * x * 0.044715) * kRootTwoOverPi));
               }
               constexpr double kRootHalf = 0.7071067811865476;
               return x * 0.5 * (1.0 + erf(x * kRootHalf));
             })
      .attr("approximate", false, "use the tanh formula")
      .grad({"X"})
      .sample(between(-2, 2))
      .sample(between(-2, 2, {}, {{"approximate", true}}));
  grad_from_x(activation(ops, "softplus", "log(1 + exp(beta * X)) / beta, X above the threshold",
                         [](Body& b, Expr x) {
                           const double beta = b.attr<float>("beta");
                           const Expr z = x * beta;
                           const Expr soft = maximum(z, 0.0) + log1p(exp(-abs(z)));
                           return select(greater(z, b.attr<float>("threshold")), x, soft / beta);
                         })
                  .attr("beta", 1.0f, "how sharp the bend is")
                  .attr("threshold", 20.0f, "beta * X above this gives X itself")
                  .shape(divided_by("beta")),
              [](Body& b, Expr x, Expr g) {
                const Expr z = x * b.attr<float>("beta");
                return select(greater(z, b.attr<float>("threshold")), g, g * sigmoid(z));
              })
      .sample(between(-3, 3))
      .sample(between(-3, 3, {}, {{"beta", 2.0f}}));
  grad_from_x(activation(ops, "logsigmoid", "log(1 / (1 + exp(-X)))",
                         [](Body&, Expr x) { return minimum(x, 0.0) - log1p(exp(-abs(x))); }),
              [](Body&, Expr x, Expr g) { return g * sigmoid(-x); })
      .sample(between(-3, 3));
}

void register_bent(Registry& ops) {
  const auto elu_slope = [](Body& b, Expr x, Expr g) {
    const Expr slope = exp(minimum(x, 0.0)) * b.attr<float>("alpha");
    return select(greater(x, 0.0), g, g * slope);
  };
  OpSchema& elu =
      grad_from_x(activation(ops, "elu", "X where positive, alpha * (exp(X) - 1) elsewhere",
                             [](Body& b, Expr x) {
                               const Expr curve =
                                   (exp(minimum(x, 0.0)) - 1.0) * b.attr<float>("alpha");
                               return select(greater(x, 0.0), x, curve);
                             })
                      .attr("alpha", 1.0f, "how far below zero it goes"),
                  elu_slope)
          .sample(between(-2, 2, {0}))
          .sample(between(-2, 2, {0}, {{"alpha", 0.4f}}));
  second_from_x(ops, elu, elu_slope, [](Body& b, Expr x, Expr g) {
    return only_where(less_equal(x, 0.0), g * exp(minimum(x, 0.0)) * b.attr<float>("alpha"));
  });
  grad_from_out(
      activation(ops, "selu", "scale * X where positive, scale * alpha * (exp(X) - 1) else",
                 [](Body& b, Expr x) {
                   const Expr curve = (exp(minimum(x, 0.0)) - 1.0) * b.attr<float>("alpha");
                   return select(greater(x, 0.0), x, curve) * b.attr<float>("scale");
                 })
          .attr("scale", 1.0507009873554805f, "scale of the result")
          .attr("alpha", 1.6732632423543772f, "how far below zero it goes"),
      [](Body& b, Expr out, Expr g) {
        const double scale = b.attr<float>("scale"), alpha = b.attr<float>("alpha");
        return g * select(greater(out, 0.0), out * 0.0 + scale, out + scale * alpha);
      })
      .sample(between(-2, 2, {0}));
  activation(ops, "hard_swish", "X * min(max(X + offset, 0), threshold) / scale",
             [](Body& b, Expr x) {
               const Expr gate =
                   minimum(maximum(x + b.attr<float>("offset"), 0.0), b.attr<float>("threshold"));
               return x * gate / b.attr<float>("scale");
             })
      .attr("threshold", 6.0f, "largest gate")
      .attr("scale", 6.0f, "divides the result")
      .attr("offset", 3.0f, "added to X in the gate")
      .shape(divided_by("scale"))
      .grad({"X"})
      .sample(between(-5, 5, {-3, 3}));
  activation(ops, "thresholded_relu", "X above the threshold, 0 elsewhere",
             [](Body& b, Expr x) { return only_where(greater(x, b.attr<float>("threshold")), x); })
      .attr("threshold", 1.0f, "where it begins")
      .grad({"X"})
      .sample(between(-1, 3, {1}));
  activation(
      ops, "hard_shrink", "X where |X| > threshold, 0 elsewhere",
      [](Body& b, Expr x) { return only_where(greater(abs(x), b.attr<float>("threshold")), x); })
      .attr("threshold", 0.5f, "size below which X counts as 0")
      .grad({"X"})
      .sample(between(-2, 2, {-0.5, 0, 0.5}));
  activation(ops, "softshrink", "X moved towards 0 by lambda, and not past it",
             [](Body& b, Expr x) {
               const double by = b.attr<float>("lambda");
               const Expr below = only_where(less(x, -by), x + by);
               return select(greater(x, by), x - by, below);
             })
      .attr("lambda", 0.5f, "how far")
      .at_least(0)
      .grad({"X"})
      .sample(between(-2, 2, {-0.5, 0.5}));
  activation(ops, "brelu", "X cut to [t_min, t_max]",
             [](Body& b, Expr x) {
               return minimum(maximum(x, b.attr<float>("t_min")), b.attr<float>("t_max"));
             })
      .attr("t_min", 0.0f, "smallest result")
      .attr("t_max", 24.0f, "largest result")
      .shape([like_x = floating_like_x()](OpView& op) {
        const float least = op.attr<float>("t_min"), most = op.attr<float>("t_max");
        if (least > most) {
          throw op.error(cat("t_min is ", least, " but t_max is ", most))
              .fix("give a t_min that is not larger than t_max");
        }
        like_x(op);
      })
      .grad({"X"})
      .sample(between(-1, 2, {0, 1}, {{"t_max", 1.0f}}));

  const auto step = [&ops](const char* name, const char* doc, Expr (*f)(Expr)) {
    activation(ops, name, doc, [f](Body&, Expr x) { return f(x); })
        .grad({})
        .grad_body([](Body& b) { b.out("X@GRAD") = full_like(b.in("Out@GRAD"), 0.0); })
        .sample(between(0.1, 0.4))
        .sample(between(-1.4, -1.1));
  };
  step("floor", "X rounded down", &floor);
  step("ceil", "X rounded up", &ceil);
  step("round", "X rounded to the nearest whole number, halves away from 0", &round);
}

// ---- with more operands

Expr prelu_alpha(Body& b, Expr x) {
  const auto mode = b.attr<std::string>("mode");
  const Expr alpha = b.in("Alpha");
  if (mode == "all") return reshape(alpha, {});
  if (mode == "channel") return align(reshape(alpha, {-1}), x.rank(), 1);
  return alpha;  // element: [1, the dimensions of X after the first]
}

void prelu_shape(OpView& op) {
  const auto mode = op.attr<std::string>("mode");
  const Shape &x = op.in("X").shape, &alpha = op.in("Alpha").shape;
  require_floating(op, "X");
  Dim wanted = 1;
  if (mode == "channel") {
    if (x.rank() < 2) {
      throw op.error(cat("mode is channel but X has ", x.rank(), " dimensions"))
          .fix("give X a channel dimension at axis 1, or use mode all");
    }
    wanted = x[1];
  } else if (mode == "element") {
    wanted = x.product(1, x.rank());
  }
  if (!alpha.numel().may_equal(wanted)) {
    throw op
        .error(cat("Alpha ", alpha, " has ", alpha.numel(), " elements but mode ", mode, " needs ",
                   wanted))
        .fix(cat("give Alpha ", wanted, " elements"));
  }
  op.set_out_like("Out", op.in("X"));
}

SampleRule prelu_sample(const char* mode) {
  return [mode = std::string(mode)](Draw& d) {
    const Shape x = d.shape(mode == "channel" ? 2 : 1, 4);
    Shape alpha = {1};
    if (mode == "channel") alpha = {1, x[1], 1, 1};
    if (mode == "element") {
      alpha = x;
      alpha[0] = 1;
    }
    return OpSample{
        .inputs = {{"X", {away_from(d.uniform(x), {0})}}, {"Alpha", {d.uniform(alpha, 0.1, 0.6)}}},
        .attrs = {{"mode", mode}}};
  };
}

void register_with_operands(Registry& ops) {
  ops.op("pow")
      .in("X", "any shape, floating point")
      .in_optional("FactorTensor", "one number; used instead of factor")
      .out("Out", "X to the power factor")
      .attr("factor", 1.0f, "the exponent")
      .shape([](OpView& op) {
        require_dense(op, "X");
        require_numbers(op, "X");
        require_one_number(op, "FactorTensor");
        op.set_out_like("Out", op.in("X"));
      })
      .body([](Body& b) {
        const Expr x = b.in("X");
        if (b.has("FactorTensor")) {
          b.out("Out") = pow(x, cast(reshape(b.in("FactorTensor"), {}), x.dtype()));
        } else {
          b.out("Out") = pow(x, b.attr<float>("factor"));
        }
      })
      .grad({"X", "FactorTensor"})
      .no_grad({"FactorTensor"})
      .inplace("X", "Out")
      .sample(between(0.3, 2, {}, {{"factor", 2.5f}}))
      .sample(between(-2, 2, {0}, {{"factor", 3.0f}}))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3), 0.3, 2)}},
                                   {"FactorTensor", {d.uniform({1}, 1, 3)}}}};
      });
  ops.op("prelu")
      .in("X", "any shape, floating point")
      .in("Alpha", "slopes for negative X: one, one per channel, or one per element of a sample")
      .out("Out", "X where positive, Alpha * X elsewhere")
      .attr("mode", "all", "all, channel (axis 1) or element")
      .one_of({"all", "channel", "element"})
      .shape(prelu_shape)
      .body([](Body& b) {
        const Expr x = b.in("X");
        b.out("Out") = select(greater(x, 0.0), x, x * prelu_alpha(b, x));
      })
      .grad({"X", "Alpha"})
      .sample(prelu_sample("all"))
      .sample(prelu_sample("channel"))
      .sample(prelu_sample("element"));
}

}  // namespace

void register_activation(Registry& ops) {
  register_from_out(ops);
  register_smooth_activations(ops);
  register_bent(ops);
  register_with_operands(ops);
}

}  // namespace trireme
