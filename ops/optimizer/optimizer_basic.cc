// Optimizers of programs of every day: sgd, momentum, adam. Dense updates are bodies, save adam's:
// its many steps run at memory speed only as one loop. Updates from a SelectedRows gradient are
// kernels that leave the same numbers.
#include <algorithm>
#include <cmath>

#include "cpu/independent.h"
#include "cpu/updates.h"
#include "cpu/vectorised.h"
#include "ops/loops.h"
#include "ops/optimizer/optimizer_rules.h"

namespace trireme {
namespace {

void sgd_body(Body& b) {
  b.out("ParamOut") = b.in("Param") - scalar(b, "LearningRate") * b.in("Grad");
}

// A row named twice moves twice: no merging is needed. A part moves the rows of its own share of
// the table, in the order in which they are named.
template <class T>
BoundKernel sgd_sparse(const KernelSite& site) {
  const int param = site.position("Param"), grad = site.position("Grad");
  const int rate = site.position("LearningRate"), out = site.out_position("ParamOut");
  const int64_t moved = site.in("Grad").shape.numel().value();
  const auto update = [=](const KernelArgs& k) {
    const SelectedRows& rows = std::as_const(*k.ins[grad]).rows();
    const Tensor& table = k.in(param);
    check_sparse_grad(rows, table);
    const int64_t height = table.shape().at(0);
    const int64_t width = height == 0 ? 0 : table.numel() / height;
    const auto share = k.range(height);
    T* to = k.out<T>(out);
    copy_through(k, param, out, share);
    const std::span<const PlacedRow> named = named_within(rows, share);
    if (named.empty()) return;
    const auto lr = static_cast<T>(scalar(k, rate));
    const T* values = rows.value.data<T>();
    vectorised([=] {
      for (size_t i = 0; i < named.size(); ++i) {
        if (i + kRowsAhead < named.size())
          ask_for_row(to + named[i + kRowsAhead].row * width, width);
        const T* value = values + named[i].place * width;
        T* moving = to + named[i].row * width;
        TRIREME_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) moving[j] -= lr * value[j];
      }
    });
  };
  return {update, sparse_parts(moved)};
}

void momentum_body(Body& b) {
  const Expr lr = scalar(b, "LearningRate"), grad = b.in("Grad");
  const double mu = b.attr<float>("mu");
  const Expr velocity = b.in("Velocity") * mu + grad;
  b.out("VelocityOut") = velocity;
  b.out("ParamOut") = b.attr<bool>("use_nesterov") ? b.in("Param") - (grad + velocity * mu) * lr
                                                   : b.in("Param") - velocity * lr;
}

// Rows without a gradient still move: their velocity decays, as it does with a dense gradient of 0.
template <class T>
KernelFn momentum_sparse(const KernelSite& site) {
  const int param = site.position("Param"), grad = site.position("Grad");
  const int velocity = site.position("Velocity"), rate = site.position("LearningRate");
  const int param_out = site.out_position("ParamOut");
  const int velocity_out = site.out_position("VelocityOut");
  const auto mu = static_cast<T>(site.attr<float>("mu"));
  const bool nesterov = site.attr<bool>("use_nesterov");
  return [=](const KernelArgs& k) {
    const auto lr = static_cast<T>(scalar(k, rate));
    const T* p = k.in<T>(param);
    const T* v = k.in<T>(velocity);
    T* p_out = k.out<T>(param_out);
    T* v_out = k.out<T>(velocity_out);
    for_each_element<T>(sparse_grad(k, grad, k.in(param)), k.in(param), false, [&](int64_t i, T g) {
      const T next = v[i] * mu + g;
      v_out[i] = next;
      p_out[i] = p[i] - (nesterov ? (g + next * mu) * lr : next * lr);
    });
  };
}

struct AdamSlots {
  int param, grad, rate, moment1, moment2, beta1_pow, beta2_pow, beta1, beta2, epsilon;
  int param_out, moment1_out, moment2_out, beta1_pow_out, beta2_pow_out;
};

// The numbers of one step of one parameter, once the gradient is known to fit.
class AdamNumbers {
 public:
  explicit AdamNumbers(const KernelSite& site)
      : at{site.position("Param"),          site.position("Grad"),
           site.position("LearningRate"),   site.position("Moment1"),
           site.position("Moment2"),        site.position("Beta1Pow"),
           site.position("Beta2Pow"),       site.position("Beta1Tensor"),
           site.position("Beta2Tensor"),    site.position("EpsilonTensor"),
           site.out_position("ParamOut"),   site.out_position("Moment1Out"),
           site.out_position("Moment2Out"), site.out_position("Beta1PowOut"),
           site.out_position("Beta2PowOut")},
        beta1_(site.attr<float>("beta1")),
        beta2_(site.attr<float>("beta2")),
        epsilon_(site.attr<float>("epsilon")),
        corrects_epsilon_(site.attr<bool>("corrects_epsilon")) {}

  // The bias corrections are folded into the step, and in 2.x into epsilon:
  // step = lr * sqrt(1 - Beta2Pow) / (1 - Beta1Pow), epsilon * sqrt(1 - Beta2Pow).
  template <class T>
  AdamStep<T> step(const KernelArgs& k) const {
    const auto beta1_pow = static_cast<T>(scalar(k, at.beta1_pow));
    const auto beta2_pow = static_cast<T>(scalar(k, at.beta2_pow));
    const T correction = std::sqrt(1 - beta2_pow);
    return {
        .beta1 = number<T>(k, at.beta1, beta1_),
        .beta2 = number<T>(k, at.beta2, beta2_),
        .step = static_cast<T>(scalar(k, at.rate)) * correction / (1 - beta1_pow),
        .epsilon = number<T>(k, at.epsilon, epsilon_) * (corrects_epsilon_ ? correction : T{1})};
  }

  // After the step: the powers may be in the memory of those that it reads.
  template <class T>
  void write_powers(const KernelArgs& k) const {
    const auto next = [&](int pow, int beta, float attr, int out) {
      set_scalar(k, out, static_cast<T>(scalar(k, pow)) * number<T>(k, beta, attr));
    };
    next(at.beta1_pow, at.beta1, beta1_, at.beta1_pow_out);
    next(at.beta2_pow, at.beta2, beta2_, at.beta2_pow_out);
  }

  AdamSlots at;

 private:
  template <class T>
  static T number(const KernelArgs& k, int slot, float attr) {
    return static_cast<T>(k.has_in(slot) ? scalar(k, slot) : double{attr});
  }
  float beta1_, beta2_, epsilon_;
  bool corrects_epsilon_;
};

template <class T>
BoundKernel adam_dense(const KernelSite& site) {
  const AdamNumbers numbers(site);
  const int64_t count = site.in("Param").shape.count();
  BoundKernel kernel(
      [numbers, count](const KernelArgs& k) {
        const AdamSlots& at = numbers.at;
        const auto [begin, end] = k.range(count);
        numbers.template step<T>(k).run(
            {k.in<T>(at.param), k.in<T>(at.grad), k.in<T>(at.moment1), k.in<T>(at.moment2)},
            {k.out<T>(at.param_out), k.out<T>(at.moment1_out), k.out<T>(at.moment2_out)}, begin,
            end);
      },
      parts_for(count));
  kernel.then.emplace_back([numbers](const KernelArgs& k) { numbers.template write_powers<T>(k); });
  return kernel;
}

template <class T>
KernelFn adam_sparse(const KernelSite& site) {
  // Lazy: rows without a gradient stay as they are, moments too.
  const bool lazy = site.attr<bool>("lazy_mode");
  return [lazy, numbers = AdamNumbers(site)](const KernelArgs& k) {
    const AdamSlots& at = numbers.at;
    const AdamStep<T> s = numbers.template step<T>(k);
    const SelectedRows& rows = sparse_grad(k, at.grad, k.in(at.param));
    copy_through(k, at.param, at.param_out);
    copy_through(k, at.moment1, at.moment1_out);
    copy_through(k, at.moment2, at.moment2_out);
    T* p = k.out<T>(at.param_out);
    T* m1 = k.out<T>(at.moment1_out);
    T* m2 = k.out<T>(at.moment2_out);
    for_each_element<T>(rows, k.in(at.param), lazy, [&](int64_t i, T g) {
      m1[i] = s.beta1 * m1[i] + (1 - s.beta1) * g;
      m2[i] = s.beta2 * m2[i] + (1 - s.beta2) * g * g;
      p[i] -= s.step * (m1[i] / (std::sqrt(m2[i]) + s.epsilon));
    });
    numbers.template write_powers<T>(k);
  };
}

}  // namespace

void register_optimizer_basic(Registry& ops) {
  ops.op("sgd")
      .doc("ParamOut = Param - LearningRate * Grad")
      .in("Param", "the parameter")
      .in("LearningRate", "one number")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in_optional("MasterParam", "float32 copy of a float16 parameter; not supported yet")
      .out("ParamOut", "the parameter after the step")
      .out_optional("MasterParamOut", "the float32 copy after the step; not supported yet")
      .attr("multi_precision", false, "keep a float32 copy of a float16 parameter")
      .shape(optimizer_shape({.states = {}, .sparse = true}))
      .body(sgd_body)
      .kernel(sparse_update([]<class T>(const KernelSite& s) { return sgd_sparse<T>(s); }),
              "sparse_gradient")
      .inplace("Param", "ParamOut")
      .sample([](Draw& draw) { return optimizer_sample(draw, {}); });

  ops.op("momentum")
      .doc(
          "velocity = mu * Velocity + Grad; Param moves by -LearningRate * velocity, or with "
          "Nesterov's look-ahead by -LearningRate * (Grad + mu * velocity)")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in("Velocity", "the shape of Param")
      .in("LearningRate", "one number")
      .in_optional("MasterParam", "float32 copy of a float16 parameter; not supported yet")
      .out("ParamOut", "the parameter after the step")
      .out("VelocityOut", "the velocity after the step")
      .out_optional("MasterParamOut", "the float32 copy after the step; not supported yet")
      .required_attr<float>("mu", "how much of the velocity is kept")
      .attr("use_nesterov", false, "look ahead by one step of the velocity")
      .attr("multi_precision", false, "keep a float32 copy of a float16 parameter")
      .shape(optimizer_shape({.states = {{"Velocity", "VelocityOut"}}, .sparse = true}))
      .body(momentum_body)
      .kernel(sparse_update([]<class T>(const KernelSite& s) { return momentum_sparse<T>(s); }),
              "sparse_gradient")
      .inplace("Param", "ParamOut")
      .inplace("Velocity", "VelocityOut")
      .sample([](Draw& draw) {
        OpSample sample = optimizer_sample(draw, {"Velocity"});
        sample.attrs["mu"] = 0.9f;
        sample.attrs["use_nesterov"] = draw.coin();
        return sample;
      });

  ops.op("adam")
      .doc("Adam. The powers of the betas are those of this step; the op writes the next ones.")
      .in("Param", "the parameter")
      .in("Grad", "its gradient, dense or SelectedRows")
      .in("LearningRate", "one number")
      .in("Moment1", "running mean of Grad")
      .in("Moment2", "running mean of Grad squared")
      .in("Beta1Pow", "beta1 to the number of this step")
      .in("Beta2Pow", "beta2 to the number of this step")
      .in_optional("Beta1Tensor", "one number, taken instead of beta1")
      .in_optional("Beta2Tensor", "one number, taken instead of beta2")
      .in_optional("EpsilonTensor", "one number, taken instead of epsilon")
      .in_optional("MasterParam", "float32 copy of a float16 parameter; not supported yet")
      .out("ParamOut", "the parameter after the step")
      .out("Moment1Out", "the first moment after the step")
      .out("Moment2Out", "the second moment after the step")
      .out("Beta1PowOut", "Beta1Pow * beta1")
      .out("Beta2PowOut", "Beta2Pow * beta2")
      .out_optional("MasterParamOut", "the float32 copy after the step; not supported yet")
      .attr("beta1", 0.9f, "decay of the first moment")
      .attr("beta2", 0.999f, "decay of the second moment")
      .attr("epsilon", 1.0e-8f, "keeps the divisor above zero")
      .attr("corrects_epsilon", false,
            "epsilon is multiplied by sqrt(1 - Beta2Pow), as in 2.x; 1.8 takes it as it is")
      .attr("lazy_mode", false, "a sparse gradient leaves the moments of other rows alone")
      .attr("min_row_size_to_use_multithread", int64_t{1000}, "accepted; changes no result")
      .attr("multi_precision", false, "keep a float32 copy of a float16 parameter")
      .shape([](OpView& op) {
        static const ShapeRule common =
            optimizer_shape({.states = {{"Moment1", "Moment1Out"}, {"Moment2", "Moment2Out"}},
                             .scalars = {"LearningRate", "Beta1Pow", "Beta2Pow", "Beta1Tensor",
                                         "Beta2Tensor", "EpsilonTensor"},
                             .sparse = true});
        common(op);
        op.set_out_like("Beta1PowOut", op.in("Beta1Pow"));
        op.set_out_like("Beta2PowOut", op.in("Beta2Pow"));
      })
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) {
        const bool sparse = s.in("Grad").type == VarType::selected_rows;
        return sparse ? BoundKernel(adam_sparse<T>(s)) : adam_dense<T>(s);
      }))
      .inplace("Param", "ParamOut")
      .inplace("Moment1", "Moment1Out")
      .inplace("Moment2", "Moment2Out")
      .inplace("Beta1Pow", "Beta1PowOut")
      .inplace("Beta2Pow", "Beta2PowOut")
      .sample([](Draw& draw) {
        return optimizer_sample(draw, {"Moment1", "Moment2"},
                                {"LearningRate", "Beta1Pow", "Beta2Pow"});
      });
}

}  // namespace trireme
