// Optimizers with a rate per element: adagrad, decayed_adagrad, adadelta, adamax, rmsprop, ftrl,
// lamb; and dpsgd, which clips and adds noise. Sparse gradients leave the same numbers as dense
// ones.
#include <cmath>

#include "ops/loops.h"
#include "ops/optimizer/optimizer_rules.h"

namespace trireme {
namespace {

// moment = kept * Moment + added * Grad^2; Param moves by -lr * Grad / (sqrt(moment) + epsilon).
void adagrad_step(Body& b, double kept, double added) {
  const Expr grad = b.in("Grad");
  const Expr moment = b.in("Moment") * kept + square(grad) * added;
  b.out("MomentOut") = moment;
  b.out("ParamOut") = b.in("Param") - scalar(b, "LearningRate") * grad /
                                          (sqrt(moment) + double{b.attr<float>("epsilon")});
}

struct AdagradSlots {
  explicit AdagradSlots(const KernelSite& site)
      : param(site.position("Param")),
        grad(site.position("Grad")),
        moment(site.position("Moment")),
        rate(site.position("LearningRate")),
        param_out(site.out_position("ParamOut")),
        moment_out(site.out_position("MomentOut")),
        epsilon(site.attr<float>("epsilon")) {}

  template <class T>
  AdagradStep<T> step(const KernelArgs& k) const {
    return {static_cast<T>(scalar(k, rate)), static_cast<T>(epsilon)};
  }

  int param, grad, moment, rate, param_out, moment_out;
  float epsilon;
};

template <class T>
BoundKernel adagrad_dense(const KernelSite& site) {
  const AdagradSlots at(site);
  const int64_t count = site.in("Param").shape.count();
  return {[=](const KernelArgs& k) {
            const auto [begin, end] = k.range(count);
            at.step<T>(k).run({k.in<T>(at.param), k.in<T>(at.grad), k.in<T>(at.moment)},
                              {k.out<T>(at.param_out), k.out<T>(at.moment_out)}, begin, end);
          },
          parts_for(count)};
}

// A row without a gradient has gradient 0: nothing of it changes, so only named rows are visited.
// A part moves the rows of its own share of the table.
template <class T>
BoundKernel adagrad_sparse(const KernelSite& site) {
  const AdagradSlots at(site);
  const auto update = [=](const KernelArgs& k) {
    const SelectedRows& grad = std::as_const(*k.ins[at.grad]).rows();
    const Tensor& table = k.in(at.param);
    check_sparse_grad(grad, table);
    const int64_t height = table.shape().at(0), width = height == 0 ? 0 : table.numel() / height;
    const auto share = k.range(height);
    copy_through(k, at.param, at.param_out, share);
    copy_through(k, at.moment, at.moment_out, share);
    at.step<T>(k).run(merged_within<T>(grad, width, share), width,
                      {k.out<T>(at.param_out), k.out<T>(at.moment_out)});
  };
  return {update, sparse_parts(site.in("Grad").shape.numel().value())};
}

// As both versions compute it: the mean of squared updates takes in the update of the paper, and
// the parameter then moves by an update that is found anew with that mean.
void adadelta_body(Body& b) {
  const double rho = b.attr<float>("rho"), epsilon = b.attr<float>("epsilon");
  const Expr grad = b.in("Grad");
  const Expr mean_square = b.in("AvgSquaredGrad") * rho + square(grad) * (1 - rho);
  const auto update = [&](const Expr& mean_update) {
    return -sqrt((mean_update + epsilon) / (mean_square + epsilon)) * grad;
  };
  const Expr before = b.in("AvgSquaredUpdate");
  const Expr after = before * rho + square(update(before)) * (1 - rho);
  b.out("ParamOut") = b.in("Param") + update(after);
  b.out("AvgSquaredGradOut") = mean_square;
  b.out("AvgSquaredUpdateOut") = after;
}

void adamax_body(Body& b) {
  const double beta1 = b.attr<float>("beta1"), beta2 = b.attr<float>("beta2");
  const Expr grad = b.in("Grad");
  const Expr moment = b.in("Moment") * beta1 + grad * (1 - beta1);
  const Expr norm = maximum(abs(grad), b.in("InfNorm") * beta2 + double{b.attr<float>("epsilon")});
  const Expr step = scalar(b, "LearningRate") / (1.0 - scalar(b, "Beta1Pow"));
  b.out("MomentOut") = moment;
  b.out("InfNormOut") = norm;
  b.out("ParamOut") = b.in("Param") - step * (moment / norm);
}

// Centered: the variance of the gradient is divided out, not its mean square.
void rmsprop_body(Body& b) {
  const double decay = b.attr<float>("decay"), epsilon = b.attr<float>("epsilon");
  const Expr grad = b.in("Grad");
  const Expr mean_square = b.in("MeanSquare") * decay + square(grad) * (1 - decay);
  Expr variance = mean_square;
  if (b.attr<bool>("centered")) {
    const Expr mean_grad = b.in("MeanGrad") * decay + grad * (1 - decay);
    variance = mean_square - square(mean_grad);
    b.out("MeanGradOut") = mean_grad;
  } else {
    b.out("MeanGradOut") = b.has("MeanGrad") ? b.in("MeanGrad") : full_like(grad, 0);
  }
  const Expr moment = b.in("Moment") * double{b.attr<float>("momentum")} +
                      scalar(b, "LearningRate") * grad / sqrt(variance + epsilon);
  b.out("MeanSquareOut") = mean_square;
  b.out("MomentOut") = moment;
  b.out("ParamOut") = b.in("Param") - moment;
}

template <class T>
KernelFn rmsprop_sparse(const KernelSite& site) {
  const int param = site.position("Param"), grad = site.position("Grad");
  const int mean_square = site.position("MeanSquare"), mean_grad = site.position("MeanGrad");
  const int moment = site.position("Moment"), rate = site.position("LearningRate");
  const int param_out = site.out_position("ParamOut"), moment_out = site.out_position("MomentOut");
  const int mean_square_out = site.out_position("MeanSquareOut");
  const int mean_grad_out = site.out_position("MeanGradOut");
  const auto decay = static_cast<T>(site.attr<float>("decay"));
  const auto epsilon = static_cast<T>(site.attr<float>("epsilon"));
  const auto momentum = static_cast<T>(site.attr<float>("momentum"));
  const bool centered = site.attr<bool>("centered");
  return [=](const KernelArgs& k) {
    const SelectedRows& rows = sparse_grad(k, grad, k.in(param));
    copy_through(k, param, param_out);
    copy_through(k, mean_square, mean_square_out);
    copy_through(k, moment, moment_out);
    if (k.has_in(mean_grad) && k.has_out(mean_grad_out)) {
      copy_through(k, mean_grad, mean_grad_out);
    } else if (k.has_out(mean_grad_out)) {
      std::fill_n(k.out<T>(mean_grad_out), k.out(mean_grad_out).numel(), T{0});
    }
    const auto lr = static_cast<T>(scalar(k, rate));
    T* p = k.out<T>(param_out);
    T* ms = k.out<T>(mean_square_out);
    T* mom = k.out<T>(moment_out);
    T* mg = centered ? k.out<T>(mean_grad_out) : nullptr;
    for_each_element<T>(rows, k.in(param), false, [&](int64_t i, T g) {
      ms[i] = ms[i] * decay + g * g * (1 - decay);
      T variance = ms[i];
      if (centered) {
        mg[i] = mg[i] * decay + g * (1 - decay);
        variance -= mg[i] * mg[i];
      }
      mom[i] = mom[i] * momentum + lr * g / std::sqrt(variance + epsilon);
      p[i] -= mom[i];
    });
  };
}

void rmsprop_shape(OpView& op) {
  static const ShapeRule common = optimizer_shape({.states = {{"MeanSquare", "MeanSquareOut"},
                                                              {"MeanGrad", "MeanGradOut"},
                                                              {"Moment", "MomentOut"}},
                                                   .sparse = true});
  if (op.attr<bool>("centered") && !(op.has("MeanGrad") && op.wants("MeanGradOut"))) {
    throw op.error("centered is set but MeanGrad or MeanGradOut is missing")
        .fix("give the running mean of the gradient, or leave centered False");
  }
  common(op);
}

// Follow-the-regularised-leader. `slack` keeps l1 and l2 above zero, so that an element that never
// had a gradient becomes 0 and not 0 / 0.
void ftrl_body(Body& b) {
  constexpr double slack = 1e-10;
  const double l1 = b.attr<float>("l1") + slack, l2 = b.attr<float>("l2") + slack;
  const double power = b.attr<float>("lr_power");
  const Expr lr = scalar(b, "LearningRate"), grad = b.in("Grad");
  const Expr squared = b.in("SquaredAccumulator"), next = squared + square(grad);
  const auto root = [&](const Expr& x) { return power == -0.5 ? sqrt(x) : pow(x, -power); };
  const Expr linear =
      b.in("LinearAccumulator") + grad - (root(next) - root(squared)) / lr * b.in("Param");
  const Expr shrunk = (sign(linear) * l1 - linear) / (root(next) / lr + 2 * l2);
  b.out("SquaredAccumOut") = next;
  b.out("LinearAccumOut") = linear;
  b.out("ParamOut") = select(greater(abs(linear), l1), shrunk, full_like(shrunk, 0));
}

}  // namespace

void register_optimizer_adaptive(Registry& ops) {
  ops.op("adagrad")
      .doc(
          "MomentOut = Moment + Grad^2; ParamOut = Param - LearningRate * Grad / "
          "(sqrt(MomentOut) + epsilon)")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in("Moment", "sum of the squares of the gradients so far")
      .in("LearningRate", "one number")
      .out("ParamOut", "the parameter after the step")
      .out("MomentOut", "the sum after the step")
      .attr("epsilon", 1.0e-6f, "keeps the divisor above zero")
      .shape(optimizer_shape({.states = {{"Moment", "MomentOut"}}, .sparse = true}))
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) {
        const bool sparse = s.in("Grad").type == VarType::selected_rows;
        return sparse ? adagrad_sparse<T>(s) : adagrad_dense<T>(s);
      }))
      .inplace("Param", "ParamOut")
      .inplace("Moment", "MomentOut")
      .sample([](Draw& draw) { return optimizer_sample(draw, {"Moment"}); });

  ops.op("decayed_adagrad")
      .doc("adagrad with a running mean: MomentOut = decay * Moment + (1 - decay) * Grad^2")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense")
      .in("Moment", "running mean of the squared gradient")
      .in("LearningRate", "one number")
      .out("ParamOut", "the parameter after the step")
      .out("MomentOut", "the mean after the step")
      .attr("decay", 0.95f, "how much of the mean is kept")
      .attr("epsilon", 1.0e-6f, "keeps the divisor above zero")
      .shape(optimizer_shape({.states = {{"Moment", "MomentOut"}}}))
      .body([](Body& b) {
        const double decay = b.attr<float>("decay");
        adagrad_step(b, decay, 1 - decay);
      })
      .inplace("Param", "ParamOut")
      .inplace("Moment", "MomentOut")
      .sample([](Draw& draw) { return optimizer_sample(draw, {"Moment"}); });

  ops.op("adadelta")
      .doc(
          "update = -sqrt((AvgSquaredUpdateOut + epsilon) / (mean of Grad^2 + epsilon)) * Grad; it "
          "has no learning rate")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense")
      .in("AvgSquaredGrad", "running mean of the squared gradient")
      .in("AvgSquaredUpdate", "running mean of the squared update")
      .out("ParamOut", "the parameter after the step")
      .out("AvgSquaredGradOut", "the first mean after the step")
      .out("AvgSquaredUpdateOut", "the second mean after the step")
      .attr("rho", 0.95f, "how much of the means is kept")
      .attr("epsilon", 1.0e-6f, "keeps the divisor above zero")
      .shape(optimizer_shape({.states = {{"AvgSquaredGrad", "AvgSquaredGradOut"},
                                         {"AvgSquaredUpdate", "AvgSquaredUpdateOut"}},
                              .scalars = {}}))
      .body(adadelta_body)
      .inplace("Param", "ParamOut")
      .inplace("AvgSquaredGrad", "AvgSquaredGradOut")
      .inplace("AvgSquaredUpdate", "AvgSquaredUpdateOut")
      .sample([](Draw& draw) {
        return optimizer_sample(draw, {"AvgSquaredGrad", "AvgSquaredUpdate"}, {});
      });

  ops.op("adamax")
      .doc(
          "Adam by the largest gradient: InfNormOut = max(|Grad|, beta2 * InfNorm + epsilon). "
          "Beta1Pow is multiplied by the program, not here.")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense")
      .in("LearningRate", "one number")
      .in("Moment", "running mean of the gradient")
      .in("InfNorm", "decaying maximum of |Grad|")
      .in("Beta1Pow", "beta1 to the number of this step")
      .out("ParamOut", "the parameter after the step")
      .out("MomentOut", "the mean after the step")
      .out("InfNormOut", "the maximum after the step")
      .attr("beta1", 0.9f, "decay of the mean")
      .attr("beta2", 0.999f, "decay of the maximum")
      .attr("epsilon", 1.0e-8f, "keeps the divisor above zero")
      .shape(optimizer_shape({.states = {{"Moment", "MomentOut"}, {"InfNorm", "InfNormOut"}},
                              .scalars = {"LearningRate", "Beta1Pow"}}))
      .body(adamax_body)
      .inplace("Param", "ParamOut")
      .inplace("Moment", "MomentOut")
      .inplace("InfNorm", "InfNormOut")
      .sample([](Draw& draw) {
        return optimizer_sample(draw, {"Moment", "InfNorm"}, {"LearningRate", "Beta1Pow"});
      });

  const auto rmsprop_sample = [](bool centered) {
    return [centered](Draw& draw) {
      OpSample sample = optimizer_sample(draw, {"MeanSquare", "Moment"});
      const Shape shape = sample.inputs["Param"][0].shape();
      sample.inputs["MeanGrad"] = {draw.uniform(shape, -0.1, 0.1)};  // a variance above zero
      sample.attrs["centered"] = centered;
      sample.attrs["momentum"] = 0.5f;
      return sample;
    };
  };
  ops.op("rmsprop")
      .doc(
          "MomentOut = momentum * Moment + LearningRate * Grad / sqrt(mean square of Grad + "
          "epsilon), less the squared mean where centered; ParamOut = Param - MomentOut")
      .in("Param", "the parameter")
      .in("MeanSquare", "running mean of the squared gradient")
      .in_optional("MeanGrad", "running mean of the gradient; needed when centered")
      .in("LearningRate", "one number")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in("Moment", "the velocity")
      .out("ParamOut", "the parameter after the step")
      .out("MomentOut", "the velocity after the step")
      .out("MeanSquareOut", "the mean square after the step")
      .out("MeanGradOut", "the mean after the step; as it was when not centered")
      .attr("epsilon", 1.0e-10f, "keeps the divisor above zero")
      .attr("decay", 0.9f, "how much of the means is kept")
      .attr("momentum", 0.0f, "how much of the velocity is kept")
      .attr("centered", false, "divide by the deviation, not by the root mean square")
      .shape(rmsprop_shape)
      .body(rmsprop_body)
      .kernel(sparse_update([]<class T>(const KernelSite& s) { return rmsprop_sparse<T>(s); }),
              "sparse_gradient")
      .inplace("Param", "ParamOut")
      .inplace("Moment", "MomentOut")
      .inplace("MeanSquare", "MeanSquareOut")
      .inplace("MeanGrad", "MeanGradOut")
      .sample(rmsprop_sample(false))
      .sample(rmsprop_sample(true));

  ops.op("ftrl")
      .doc("Follow the regularised leader, with l1 and l2 penalties")
      .in("Param", "the parameter")
      .in("SquaredAccumulator", "sum of the squared gradients")
      .in("LinearAccumulator", "sum of the corrected gradients")
      .in("Grad", "its gradient, dense")
      .in("LearningRate", "one number")
      .out("ParamOut", "the parameter after the step")
      .out("SquaredAccumOut", "the first sum after the step")
      .out("LinearAccumOut", "the second sum after the step")
      .attr("l1", 0.0f, "pull towards zero: smaller elements become 0")
      .attr("l2", 0.0f, "pull towards zero by size")
      .attr("lr_power", -0.5f, "how fast the rate falls with the squared sum")
      .shape(optimizer_shape({.states = {{"SquaredAccumulator", "SquaredAccumOut"},
                                         {"LinearAccumulator", "LinearAccumOut"}}}))
      .body(ftrl_body)
      .inplace("Param", "ParamOut")
      .inplace("SquaredAccumulator", "SquaredAccumOut")
      .inplace("LinearAccumulator", "LinearAccumOut")
      .sample([](Draw& draw) {
        OpSample sample = optimizer_sample(draw, {"SquaredAccumulator", "LinearAccumulator"});
        sample.attrs["lr_power"] = draw.coin() ? -0.5f : -0.75f;
        return sample;
      });
}

}  // namespace trireme
