// What all optimizers do: backward, clip, decay, states, the learning rate, one op per parameter.
#include "layers/optimizer.h"

#include <algorithm>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/defaults.h"
#include "layers/math_op.h"
#include "layers/tensor.h"

namespace trireme {
Optimizer::Optimizer(std::string type, const Hyper& learning_rate, OptimizerOptions options)
    : options_(std::move(options)), type_(std::move(type)), learning_rate_(learning_rate) {
  if (Var* var = learning_rate_.var()) {
    if (options_.scheduled) {
      throw Error("a scheduled learning rate is a number, but a variable was given");
    }
    learning_rates_[var->block().program().id()] = var;
  }
}

Minimized Optimizer::minimize(Var& loss, const MinimizeOptions& options, SourceLine line) {
  const LineScope scope(line);
  Minimized result;
  result.params_grads = backward(loss, options, line);
  result.ops = apply_optimize(loss, options.startup, result.params_grads, line);
  return result;
}

void Optimizer::check_loss(const Var& loss) const {
  const Shape& shape = loss.shape();
  if (shape.rank() == 1 && shape[0] == Dim(1)) return;
  throw Error(ErrorKind::assertion,
              cat("the loss has the shape ", shape, " but must have the shape [1]"))
      .in(type_)
      .operand(cat("loss   ", loss.name(), "   ", loss.describe()))
      .fix("minimize mean(loss) or reduce_sum(loss)");
}

ParamGrads Optimizer::backward(Var& loss, const MinimizeOptions& options, SourceLine line) {
  const LineScope scope(line);
  check_loss(loss);
  dtype_ = loss.dtype();
  const ProgramGuard guard(loss.block().program().shared_from_this(), options.startup);
  BackwardOptions backward;
  backward.parameter_list =
      options.parameter_list.empty() ? options_.parameter_list : options.parameter_list;
  backward.only_listed = !backward.parameter_list.empty();
  backward.no_grad = options.no_grad_set;
  backward.checkpoints = options.checkpoints;
  backward.callbacks = options.callbacks;
  backward.callbacks.emplace_back(error_clip_callback);
  return append_backward(loss, backward);
}

std::vector<Op*> Optimizer::apply_optimize(Var& loss, const std::shared_ptr<Program>& startup,
                                           const ParamGrads& params_grads, SourceLine line) {
  const LineScope scope(line);
  const ProgramGuard guard(loss.block().program().shared_from_this(), startup);
  return apply_gradients(params_grads, line);
}

std::vector<Op*> Optimizer::apply_gradients(const ParamGrads& params_grads, SourceLine line) {
  const LineScope scope(line);
  ParamGrads pairs = params_grads;
  std::ranges::stable_sort(pairs, {}, [](const auto& pair) { return pair.first->name(); });
  pairs = options_.grad_clip ? (*options_.grad_clip)(pairs) : append_gradient_clip_ops(pairs);
  pairs = append_regularization_ops(pairs, options_.regularization);
  return append_updates(pairs);
}

std::vector<Op*> Optimizer::append_updates(const ParamGrads& params_grads) {
  Program& program = default_main_program();
  Block& block = program.current_block();  // inside a branch the updates run with the branch
  const size_t start = block.size();
  find_devices(params_grads, block);
  std::vector<Var*> params;
  for (const auto& [param, grad] : params_grads) {
    if (!param->is_parameter() || param->parameter()->trainable) params.push_back(param);
  }
  create_accumulators(block, params);
  create_learning_rate();
  for (const auto& [param, grad] : params_grads) {
    if (!grad || std::ranges::find(params, param) == params.end()) continue;
    const RoleGuard role = optimized_guard(program, {param->name(), grad->name()});
    const NameScope name_scope("optimizer");
    const DeviceGuard device(device_of(*param));
    append_optimize_op(block, *param, *grad);
  }
  finish_update(block, params_grads);
  std::vector<Op*> ops = block.ops();
  ops.erase(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(start));
  return ops;
}

void Optimizer::create_accumulators(Block&, const std::vector<Var*>&) {}

void Optimizer::finish_update(Block&, const ParamGrads&) {}

// A parameter's state and update stand on the device of the first op that reads the parameter.
void Optimizer::find_devices(const ParamGrads& params_grads, const Block& block) {
  std::map<std::string, std::string> first_reader;
  for (const Op* op : block.ops()) {
    for (const std::string& name : op->input_names()) {
      first_reader.try_emplace(name, op->attr_or<std::string>("op_device", ""));
    }
  }
  for (const auto& [param, grad] : params_grads) {
    const auto found = first_reader.find(param->name());
    if (found != first_reader.end()) devices_[param->name()] = found->second;
  }
}

std::string Optimizer::device_of(const Var& param) const {
  const auto found = devices_.find(param.name());
  return found == devices_.end() ? std::string() : found->second;
}

std::string Optimizer::state_name(std::string_view name) const {
  return options_.name.empty() ? std::string(name) : cat(options_.name, "_", name);
}

Var& Optimizer::add_accumulator(std::string_view name, Var& param, const State& state) {
  const std::string full_name = state_name(name);
  Var*& made = accumulators_[{param.block().program().id(), full_name, param.name()}];
  if (made) {
    throw Error(ErrorKind::already_exists,
                cat("the state ", full_name, " of ", param.name(), " exists already"))
        .in(type_)
        .fix("minimize once with one optimizer, or make a second optimizer");
  }
  LayerHelper helper(type_);
  Var& var = helper.create_global_variable(
      {.name = unique_names().generate(cat(param.name(), "_", full_name)),
       .dtype = state.own_dtype ? state.dtype : param.dtype(),
       .shape = state.shape.empty() ? param.shape().to_vector() : state.shape,
       .persistable = true});
  const DeviceGuard device(state.on_cpu ? "cpu" : device_of(param));
  initializer::Constant fill(state.fill);
  helper.set_variable_initializer(var, fill);
  state_names_.push_back(var.name());
  made = &var;
  return var;
}

Var& Optimizer::accumulator(std::string_view name, const Var& param) const {
  const auto found =
      accumulators_.find({param.block().program().id(), state_name(name), param.name()});
  if (found != accumulators_.end() && found->second) return *found->second;
  throw Error(ErrorKind::not_found,
              cat("there is no state ", state_name(name), " of ", param.name()))
      .in(type_)
      .fix("make it in create_accumulators");
}

Var* Optimizer::learning_rate_var(const Program* program) const {
  const Program& wanted = program ? *program : default_main_program();
  const auto found = learning_rates_.find(wanted.id());
  return found == learning_rates_.end() ? nullptr : found->second;
}

void Optimizer::create_learning_rate() {
  Program& program = default_main_program();
  if (learning_rate_var(&program)) return;
  if (const Var* var = learning_rate_.var()) {
    throw Error(ErrorKind::type_mismatch,
                cat("the learning rate ", var->name(), " belongs to another program than the loss"))
        .in(type_)
        .fix("make the learning rate in the program that is trained, or give a number");
  }
  const std::string name = unique_names().generate("learning_rate");
  Var* rate = nullptr;
  if (options_.scheduled) {
    LayerHelper helper(type_);
    rate = &helper.create_global_variable(
        {.name = name, .dtype = dtype_, .shape = {1}, .persistable = true, .stop_gradient = true});
    initializer::Constant fill(learning_rate_.value());
    helper.set_variable_initializer(*rate, fill);
    program.scheduled_rate = name;
  } else {
    rate = &layers::create_global_var({1}, learning_rate_.value(), dtype_,
                                      {.persistable = true, .name = name});
  }
  learning_rates_[program.id()] = rate;
}

Var& Optimizer::create_param_lr(Var& param) {
  Program& program = default_main_program();
  Var* rate = learning_rate_var(&program);
  promise(rate != nullptr, "the learning rate is made before the updates");
  if (!param.is_parameter()) return *rate;
  if (const std::string& whole = param.parameter()->learning_rate_var; !whole.empty()) {
    if (Var* found = program.current_block().find_var_recursive(whole)) return *found;
    throw Error(ErrorKind::not_found, cat("the learning rate of ", param.name(), " is ", whole,
                                          ", which this program does not have"))
        .fix("call append_LARS in the program that is minimized");
  }
  const float own = param.parameter()->learning_rate;
  if (own == 1.0f) return *rate;
  const RoleGuard role = lr_schedule_guard(program, true);
  const NameScope name_scope("scale_with_param_lr");
  return *rate * own;
}

}  // namespace trireme
