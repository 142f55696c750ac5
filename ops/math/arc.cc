// Inverses of sine, cosine and tangent, and mish.
#include <cmath>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using ArcSlope = Expr (*)(Expr x);

template <class F>
OpSchema& arc(Registry& ops, const char* type, const char* doc, F function, ArcSlope slope) {
  return ops.op(type)
      .in("X", "any shape, floating point")
      .out("Out", doc)
      .shape(floating_like_x())
      .kernel(typed<float, double>([function]<class T>(const KernelSite& site) {
        const int64_t count = site.in("X").shape.count();
        return BoundKernel(
            [=](const KernelArgs& k) {
              const auto [begin, end] = k.range(count);
              for (int64_t i = begin; i < end; ++i) k.out<T>(0)[i] = function(k.in<T>(0)[i]);
            },
            parts_for(count));
      }))
      .grad({"X"})
      .grad_body([slope](Body& b) { b.out("X@GRAD") = b.in("Out@GRAD") * slope(b.in("X")); })
      .inplace("X", "Out")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3), -0.8, 0.8)}}}};
      });
}

// log(1 + exp(x)), which is x above the threshold and exp(x) far below zero.
Expr mish_softplus(Body& b, Expr x) {
  const double threshold = b.attr<float>("threshold");
  const Expr middle = log1p(exp(minimum(x, threshold)));
  const Expr below = select(less(x, -threshold), exp(x), middle);
  return threshold > 0 ? select(greater(x, threshold), x, below) : middle;
}

}  // namespace

void register_arc(Registry& ops) {
  arc(
      ops, "asin", "the angle whose sine is X", [](auto x) { return std::asin(x); },
      [](Expr x) { return rsqrt(1.0 - square(x)); });
  arc(
      ops, "acos", "the angle whose cosine is X", [](auto x) { return std::acos(x); },
      [](Expr x) { return -rsqrt(1.0 - square(x)); });
  arc(
      ops, "atan", "the angle whose tangent is X", [](auto x) { return std::atan(x); },
      [](Expr x) { return reciprocal(1.0 + square(x)); });
  ops.op("mish")
      .in("X", "any shape, floating point")
      .out("Out", "X * tanh(log(1 + exp(X)))")
      .attr("threshold", 20.0f, "above it log(1 + exp(X)) is X")
      .at_least(0)
      .shape(floating_like_x())
      .body([](Body& b) { b.out("Out") = b.in("X") * tanh(mish_softplus(b, b.in("X"))); })
      .grad({"X"})
      .inplace("X", "Out")
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3), -3, 3)}}}};
      });
}

}  // namespace trireme
