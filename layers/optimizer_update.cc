// Each optimizer's states and its one op per parameter.
#include "layers/defaults.h"
#include "layers/optimizer.h"
#include "layers/tensor.h"

namespace trireme::optimizer {
namespace {

OpSpec update(const std::string& type, Var& param, Var& grad) {
  return {type,
          {{"Param", {param.name()}}, {"Grad", {grad.name()}}},
          {{"ParamOut", {param.name()}}},
          {}};
}

// A state that the op reads and writes in place.
void with_state(OpSpec& op, const std::string& slot, const std::string& out_slot,
                const Var& state) {
  op.inputs[slot] = {state.name()};
  op.outputs[out_slot] = {state.name()};
}

float as_float(double value) { return static_cast<float>(value); }

}  // namespace

Op& Sgd::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("sgd", param, grad);
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  return block.append_op(std::move(op));
}

void Momentum::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) add_accumulator("velocity", *param);
}

Op& Momentum::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("momentum", param, grad);
  with_state(op, "Velocity", "VelocityOut", accumulator("velocity", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"mu", as_float(momentum_)}, {"use_nesterov", use_nesterov_}};
  return block.append_op(std::move(op));
}

void LarsMomentum::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) add_accumulator("velocity", *param);
}

Op& LarsMomentum::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("lars_momentum", param, grad);
  with_state(op, "Velocity", "VelocityOut", accumulator("velocity", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"mu", as_float(momentum_)},
              {"lars_coeff", as_float(lars_.lars_coeff)},
              {"lars_weight_decay", as_float(lars_.lars_weight_decay)}};
  return block.append_op(std::move(op));
}

void Adagrad::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) add_accumulator("moment", *param, {.fill = initial_});
}

Op& Adagrad::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("adagrad", param, grad);
  with_state(op, "Moment", "MomentOut", accumulator("moment", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"epsilon", as_float(epsilon_)}};
  return block.append_op(std::move(op));
}

void DecayedAdagrad::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) add_accumulator("moment", *param);
}

Op& DecayedAdagrad::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("decayed_adagrad", param, grad);
  with_state(op, "Moment", "MomentOut", accumulator("moment", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"decay", as_float(decay_)}, {"epsilon", as_float(epsilon_)}};
  return block.append_op(std::move(op));
}

// These two states are named with a leading underscore of their own.
void Adadelta::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) {
    add_accumulator("_avg_squared_grad", *param);
    add_accumulator("_avg_squared_update", *param);
  }
}

Op& Adadelta::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("adadelta", param, grad);
  with_state(op, "AvgSquaredGrad", "AvgSquaredGradOut", accumulator("_avg_squared_grad", param));
  with_state(op, "AvgSquaredUpdate", "AvgSquaredUpdateOut",
             accumulator("_avg_squared_update", param));
  op.attrs = {{"epsilon", as_float(epsilon_)}, {"rho", as_float(rho_)}};
  return block.append_op(std::move(op));
}

void Adam::create_accumulators(Block&, const std::vector<Var*>& params) {
  // A beta that is a variable is not known here; the powers then start from the usual ones.
  const double beta1 = adam_.beta1.var() ? 0.9 : adam_.beta1.value();
  const double beta2 = adam_.beta2.var() ? 0.999 : adam_.beta2.value();
  for (Var* param : params) {
    add_accumulator("moment1", *param);
    add_accumulator("moment2", *param);
    add_accumulator("beta1_pow_acc", *param, {.fill = beta1, .shape = {1}, .on_cpu = true});
    add_accumulator("beta2_pow_acc", *param, {.fill = beta2, .shape = {1}, .on_cpu = true});
  }
}

// param *= 1 - rate * decay: the gradient's moments do not see it.
void Adam::append_decay(Block& block, Var& param) {
  Var& kept = layers::scale(create_param_lr(param), {.scale = -adam_.decoupled_decay, .bias = 1},
                            user_line());
  block.append_op({"elementwise_mul",
                   {{"X", {param.name()}}, {"Y", {kept.name()}}},
                   {{"Out", {param.name()}}},
                   {{"axis", -1}}});
}

Op& Adam::append_optimize_op(Block& block, Var& param, Var& grad) {
  if (adam_.decoupled_decay != 0 && (!adam_.decays || adam_.decays(param))) {
    append_decay(block, param);
  }
  OpSpec op = update("adam", param, grad);
  with_state(op, "Moment1", "Moment1Out", accumulator("moment1", param));
  with_state(op, "Moment2", "Moment2Out", accumulator("moment2", param));
  with_state(op, "Beta1Pow", "Beta1PowOut", accumulator("beta1_pow_acc", param));
  with_state(op, "Beta2Pow", "Beta2PowOut", accumulator("beta2_pow_acc", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"epsilon", as_float(adam_.epsilon)},
              {"lazy_mode", adam_.lazy_mode},
              {"min_row_size_to_use_multithread", int64_t{1000}}};
  if (adam_.corrects_epsilon) op.attrs["corrects_epsilon"] = true;
  const auto beta = [&](const Hyper& value, const char* slot, const char* attr) {
    if (value.var()) {
      op.inputs[slot] = {value.var()->name()};
    } else {
      op.attrs[attr] = as_float(value.value());
    }
  };
  beta(adam_.beta1, "Beta1Tensor", "beta1");
  beta(adam_.beta2, "Beta2Tensor", "beta2");
  return block.append_op(std::move(op));
}

void Adamax::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) {
    add_accumulator("moment", *param);
    add_accumulator("inf_norm", *param);
    add_accumulator("beta1_pow_acc", *param, {.fill = adamax_.beta1, .shape = {1}});
  }
}

Op& Adamax::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("adamax", param, grad);
  with_state(op, "Moment", "MomentOut", accumulator("moment", param));
  with_state(op, "InfNorm", "InfNormOut", accumulator("inf_norm", param));
  op.inputs["Beta1Pow"] = {accumulator("beta1_pow_acc", param).name()};
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"beta1", as_float(adamax_.beta1)},
              {"beta2", as_float(adamax_.beta2)},
              {"epsilon", as_float(adamax_.epsilon)}};
  return block.append_op(std::move(op));
}

// The op leaves beta1's power alone; one scale per parameter moves it after all updates.
void Adamax::finish_update(Block& block, const ParamGrads& params_grads) {
  for (const auto& [param, grad] : params_grads) {
    if (!grad || (param->is_parameter() && !param->parameter()->trainable)) continue;
    const RoleGuard role = optimized_guard(default_main_program(), {param->name(), grad->name()});
    const NameScope name_scope("adamx");
    const std::string& power = accumulator("beta1_pow_acc", *param).name();
    block.append_op(
        {"scale", {{"X", {power}}}, {{"Out", {power}}}, {{"scale", as_float(adamax_.beta1)}}});
  }
}

void RmsProp::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) {
    add_accumulator("momentum", *param);
    add_accumulator("mean_square", *param);
    add_accumulator("mean_grad", *param);
  }
}

Op& RmsProp::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("rmsprop", param, grad);
  with_state(op, "Moment", "MomentOut", accumulator("momentum", param));
  with_state(op, "MeanSquare", "MeanSquareOut", accumulator("mean_square", param));
  with_state(op, "MeanGrad", "MeanGradOut", accumulator("mean_grad", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"epsilon", as_float(rmsprop_.epsilon)},
              {"decay", as_float(rmsprop_.rho)},
              {"momentum", as_float(rmsprop_.momentum)},
              {"centered", rmsprop_.centered}};
  return block.append_op(std::move(op));
}

void Ftrl::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) {
    add_accumulator("squared", *param);
    add_accumulator("linear", *param);
  }
}

Op& Ftrl::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("ftrl", param, grad);
  with_state(op, "SquaredAccumulator", "SquaredAccumOut", accumulator("squared", param));
  with_state(op, "LinearAccumulator", "LinearAccumOut", accumulator("linear", param));
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"l1", as_float(ftrl_.l1)},
              {"l2", as_float(ftrl_.l2)},
              {"lr_power", as_float(ftrl_.lr_power)}};
  return block.append_op(std::move(op));
}

void Lamb::create_accumulators(Block&, const std::vector<Var*>& params) {
  for (Var* param : params) {
    add_accumulator("moment1", *param);
    add_accumulator("moment2", *param);
    add_accumulator("beta1_pow_acc", *param, {.fill = lamb_.beta1, .shape = {1}, .on_cpu = true});
    add_accumulator("beta2_pow_acc", *param, {.fill = lamb_.beta2, .shape = {1}, .on_cpu = true});
  }
}

Op& Lamb::append_optimize_op(Block& block, Var& param, Var& grad) {
  const bool excluded = lamb_.exclude_from_weight_decay && lamb_.exclude_from_weight_decay(param);
  OpSpec op = update("lamb", param, grad);
  with_state(op, "Moment1", "Moment1Out", accumulator("moment1", param));
  with_state(op, "Moment2", "Moment2Out", accumulator("moment2", param));
  with_state(op, "Beta1Pow", "Beta1PowOut", accumulator("beta1_pow_acc", param));
  with_state(op, "Beta2Pow", "Beta2PowOut", accumulator("beta2_pow_acc", param));
  if (defaults().style == Style::fluid_1_8) {
    op.outputs.erase("Beta1PowOut");
    op.outputs.erase("Beta2PowOut");
  }
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"beta1", as_float(lamb_.beta1)},
              {"beta2", as_float(lamb_.beta2)},
              {"epsilon", as_float(lamb_.epsilon)},
              {"weight_decay", excluded ? 0.0f : as_float(lamb_.lamb_weight_decay)}};
  return block.append_op(std::move(op));
}

Op& Dpsgd::append_optimize_op(Block& block, Var& param, Var& grad) {
  OpSpec op = update("dpsgd", param, grad);
  op.inputs["LearningRate"] = {create_param_lr(param).name()};
  op.attrs = {{"clip", as_float(dpsgd_.clip)},
              {"batch_size", as_float(dpsgd_.batch_size)},
              {"sigma", as_float(dpsgd_.sigma)},
              {"seed", dpsgd_.seed}};
  return block.append_op(std::move(op));
}

}  // namespace trireme::optimizer
