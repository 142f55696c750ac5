// Optimizers that look at the length of a whole parameter or gradient: lars_momentum, lamb, dpsgd.
#include <cmath>

#include "ops/optimizer/optimizer_rules.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

// The step of each parameter is scaled by |Param| / (|Grad| + decay * |Param|), where both norms
// are above zero; otherwise it is the plain learning rate.
void lars_momentum_body(Body& b) {
  const Expr param = b.in("Param"), grad = b.in("Grad"), lr = scalar(b, "LearningRate");
  const double coeff = b.attr<float>("lars_coeff");
  const double decay = b.attr<float>("lars_weight_decay");
  const Expr param_norm = reshape(sqrt(reduce_sum(square(param))), {1});
  const Expr grad_norm = reshape(sqrt(reduce_sum(square(grad))), {1});
  const Expr scaled = lr * coeff * param_norm / (grad_norm + param_norm * decay);
  const Expr usable = logical_and(greater(param_norm, 0.0), greater(grad_norm, 0.0));
  const Expr local_lr = decay > 0 ? select(usable, scaled, lr) : lr;
  const Expr velocity =
      b.in("Velocity") * double{b.attr<float>("mu")} + local_lr * (grad + param * decay);
  b.out("VelocityOut") = velocity;
  b.out("ParamOut") = param - velocity;
}

// Adam's direction r plus weight decay, in steps of lr * |Param| / |r|. Version 1 programs do not
// correct the moments' bias; version 2 programs do, and are known by the powers they write.
void lamb_body(Body& b) {
  const double beta1 = b.attr<float>("beta1"), beta2 = b.attr<float>("beta2");
  const Expr param = b.in("Param"), grad = b.in("Grad");
  const Expr moment1 = b.in("Moment1") * beta1 + grad * (1 - beta1);
  const Expr moment2 = b.in("Moment2") * beta2 + square(grad) * (1 - beta2);
  Expr mean = moment1, mean_square = moment2;
  if (b.wants("Beta1PowOut")) {
    mean = moment1 / (1.0 - scalar(b, "Beta1Pow"));
    mean_square = moment2 / (1.0 - scalar(b, "Beta2Pow"));
    b.out("Beta1PowOut") = b.in("Beta1Pow") * beta1;
    b.out("Beta2PowOut") = b.in("Beta2Pow") * beta2;
  }
  const Expr direction = mean / (sqrt(mean_square) + double{b.attr<float>("epsilon")}) +
                         param * double{b.attr<float>("weight_decay")};
  const Expr param_norm = reshape(sqrt(reduce_sum(square(param))), {1});
  const Expr norm = reshape(sqrt(reduce_sum(square(direction))), {1});
  const Expr usable = logical_and(greater(param_norm, 0.0), greater(norm, 0.0));
  const Expr trust = select(usable, param_norm / norm, full_like(norm, 1));
  b.out("Moment1Out") = moment1;
  b.out("Moment2Out") = moment2;
  b.out("ParamOut") = param - scalar(b, "LearningRate") * trust * direction;
}

template <class T>
BoundKernel lamb_sparse(const KernelSite& site) {
  const int param = site.position("Param"), grad = site.position("Grad");
  const int moment1 = site.position("Moment1"), moment2 = site.position("Moment2");
  const int rate = site.position("LearningRate"), param_out = site.out_position("ParamOut");
  const int pow1 = site.position("Beta1Pow"), pow2 = site.position("Beta2Pow");
  const int moment1_out = site.out_position("Moment1Out");
  const int moment2_out = site.out_position("Moment2Out");
  const int pow1_out = site.out_position("Beta1PowOut");
  const int pow2_out = site.out_position("Beta2PowOut");
  const auto beta1 = static_cast<T>(site.attr<float>("beta1"));
  const auto beta2 = static_cast<T>(site.attr<float>("beta2"));
  const auto epsilon = static_cast<T>(site.attr<float>("epsilon"));
  const auto decay = static_cast<T>(site.attr<float>("weight_decay"));
  const int64_t count = site.in("Param").shape.count();
  BoundKernel kernel([=](const KernelArgs& k) {
    const SelectedRows& rows = sparse_grad(k, grad, k.in(param));
    const bool corrected = k.has_out(pow1_out);
    const T unbias1 = corrected ? 1 - static_cast<T>(scalar(k, pow1)) : T{1};
    const T unbias2 = corrected ? 1 - static_cast<T>(scalar(k, pow2)) : T{1};
    const T* p = k.in<T>(param);
    const T* m1 = k.in<T>(moment1);
    const T* m2 = k.in<T>(moment2);
    T* m1_out = k.out<T>(moment1_out);
    T* m2_out = k.out<T>(moment2_out);
    T* direction = reinterpret_cast<T*>(k.scratch);
    T param_square = 0, direction_square = 0;
    for_each_element<T>(rows, k.in(param), false, [&](int64_t i, T g) {
      m1_out[i] = m1[i] * beta1 + g * (1 - beta1);
      m2_out[i] = m2[i] * beta2 + g * g * (1 - beta2);
      const T d = m1_out[i] / unbias1 / (std::sqrt(m2_out[i] / unbias2) + epsilon) + decay * p[i];
      direction[i] = d;
      param_square += p[i] * p[i];
      direction_square += d * d;
    });
    const bool usable = param_square > 0 && direction_square > 0;
    const T trust = usable ? std::sqrt(param_square) / std::sqrt(direction_square) : T{1};
    const T step = static_cast<T>(scalar(k, rate)) * trust;
    T* p_out = k.out<T>(param_out);
    for (int64_t i = 0; i < count; ++i) p_out[i] = p[i] - step * direction[i];
    set_scalar(k, pow1_out, scalar(k, pow1) * beta1);
    set_scalar(k, pow2_out, scalar(k, pow2) * beta2);
  });
  kernel.scratch = static_cast<size_t>(count) * sizeof(T);
  return kernel;
}

void lamb_shape(OpView& op) {
  static const ShapeRule common =
      optimizer_shape({.states = {{"Moment1", "Moment1Out"}, {"Moment2", "Moment2Out"}},
                       .scalars = {"LearningRate", "Beta1Pow", "Beta2Pow"},
                       .sparse = true});
  common(op);
  op.set_out_like("Beta1PowOut", op.in("Beta1Pow"));
  op.set_out_like("Beta2PowOut", op.in("Beta2Pow"));
  if (op.wants("Beta1PowOut") != op.wants("Beta2PowOut")) {
    throw op.error("only one of Beta1PowOut and Beta2PowOut is given").fix("give both or neither");
  }
}

// Grad is scaled down to norm `clip` where it is longer; every element gets noise of its own, of
// deviation sigma / batch_size, new at each run.
template <class T>
KernelFn dpsgd(const KernelSite& site) {
  const int param = site.position("Param"), grad = site.position("Grad");
  const int rate = site.position("LearningRate"), out = site.out_position("ParamOut");
  const auto clip = static_cast<T>(site.attr<float>("clip"));
  const double noise = site.attr<float>("sigma") / site.attr<float>("batch_size");
  const RandomSource source = random_source(site, PerStep::change);
  return [=](const KernelArgs& k) {
    const T* p = k.in<T>(param);
    const T* g = k.in<T>(grad);
    T* p_out = k.out<T>(out);
    const int64_t count = k.in(param).numel();
    T square = 0;
    for (int64_t i = 0; i < count; ++i) square += g[i] * g[i];
    const T norm = std::sqrt(square), scale = norm > clip ? norm / clip : T{1};
    const auto lr = static_cast<T>(scalar(k, rate));
    const Philox numbers = source.philox(k);
    for (int64_t i = 0; i < count; ++i) {
      const auto draw = static_cast<T>(noise * numbers.normal(static_cast<uint64_t>(i)));
      p_out[i] = p[i] - lr * (g[i] / scale + draw);
    }
  };
}

}  // namespace

void register_optimizer_norm(Registry& ops) {
  ops.op("lars_momentum")
      .doc(
          "momentum whose learning rate is scaled per parameter by lars_coeff * |Param| / "
          "(|Grad| + lars_weight_decay * |Param|)")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense")
      .in("Velocity", "the shape of Param")
      .in("LearningRate", "one number")
      .out("ParamOut", "the parameter after the step")
      .out("VelocityOut", "the velocity after the step")
      .required_attr<float>("mu", "how much of the velocity is kept")
      .attr("lars_coeff", 0.001f, "scale of the local learning rate")
      .attr("lars_weight_decay", 0.0005f, "weight decay")
      .shape(optimizer_shape({.states = {{"Velocity", "VelocityOut"}}}))
      .body(lars_momentum_body)
      .inplace("Param", "ParamOut")
      .inplace("Velocity", "VelocityOut")
      .sample([](Draw& draw) {
        OpSample sample = optimizer_sample(draw, {"Velocity"});
        sample.attrs["mu"] = 0.9f;
        return sample;
      });

  ops.op("lamb")
      .doc("Adam's direction plus weight decay, with the step scaled to the parameter's length")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in("LearningRate", "one number")
      .in("Moment1", "running mean of Grad")
      .in("Moment2", "running mean of Grad squared")
      .in("Beta1Pow", "beta1 to the number of this step")
      .in("Beta2Pow", "beta2 to the number of this step")
      .out("ParamOut", "the parameter after the step")
      .out("Moment1Out", "the first moment after the step")
      .out("Moment2Out", "the second moment after the step")
      .out_optional("Beta1PowOut", "Beta1Pow * beta1; where given, the moments' bias is corrected")
      .out_optional("Beta2PowOut", "Beta2Pow * beta2; given with Beta1PowOut")
      .required_attr<float>("weight_decay", "weight decay")
      .attr("beta1", 0.9f, "decay of the first moment")
      .attr("beta2", 0.999f, "decay of the second moment")
      .attr("epsilon", 1.0e-6f, "keeps the divisor above zero")
      .shape(lamb_shape)
      .body(lamb_body)
      .kernel(sparse_update([]<class T>(const KernelSite& s) { return lamb_sparse<T>(s); }),
              "sparse_gradient")
      .inplace("Param", "ParamOut")
      .inplace("Moment1", "Moment1Out")
      .inplace("Moment2", "Moment2Out")
      .inplace("Beta1Pow", "Beta1PowOut")
      .inplace("Beta2Pow", "Beta2PowOut")
      .sample([](Draw& draw) {
        OpSample sample = optimizer_sample(draw, {"Moment1", "Moment2"},
                                           {"LearningRate", "Beta1Pow", "Beta2Pow"});
        sample.attrs["weight_decay"] = 0.01f;
        return sample;
      });

  ops.op("dpsgd")
      .doc(
          "Differentially private SGD: the clipped gradient plus normal noise. The noise is drawn "
          "for each element; the original draws one number for a whole parameter.")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense")
      .in("LearningRate", "one number")
      .out("ParamOut", "the parameter after the step")
      .attr("clip", 10.0f, "largest norm of the gradient")
      .attr("batch_size", 16.0f, "divides the noise")
      .attr("sigma", 1.0f, "deviation of the noise")
      .attr("seed", 0, "0: another sequence in every process")
      .shape(optimizer_shape({.states = {}}))
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return dpsgd<T>(s); }))
      .inplace("Param", "ParamOut")
      .traits({.random = true})
      .sample([](Draw& draw) {
        OpSample sample = optimizer_sample(draw, {});
        sample.attrs["seed"] = 7;
        return sample;
      });
}

}  // namespace trireme
