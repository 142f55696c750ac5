// Averages of parameters over the steps of a training, and the programs that put them in place.
#include "layers/optimizer_average.h"

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/control_flow.h"
#include "layers/defaults.h"
#include "layers/learning_rate_schedule.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::optimizer {
namespace {

constexpr const char* kEmaStepCounter = "@EMA_STEP_COUNTER@";

// The same variable in another program. It is persistable there whatever it was: what one program
// puts aside, another finds.
Var& in_program(Program& program, const Var& var) {
  VarSpec spec = var.spec();
  spec.persistable = true;
  return program.global_block().create_var(std::move(spec));
}

// The parameters that want an average, each with a variable to be put aside in.
std::vector<std::pair<Var*, Var*>> averaged_params(const std::string& prefix,
                                                   const std::string& suffix) {
  std::vector<std::pair<Var*, Var*>> pairs;
  Block& block = default_main_program().global_block();
  for (Var* param : default_main_program().parameters()) {
    if (&param->block() != &block || !param->parameter()->do_model_average) continue;
    Var& aside =
        block.create_var({.name = unique_names().generate(cat(prefix, param->name(), suffix)),
                          .dtype = param->dtype(),
                          .shape = param->shape(),
                          .stop_gradient = true});
    pairs.emplace_back(param, &aside);
  }
  return pairs;
}

// Puts what was set aside back.
std::shared_ptr<Program> restoring(const std::vector<std::pair<Var*, Var*>>& params) {
  std::shared_ptr<Program> program = Program::create();
  const ProgramGuard guard(program);
  for (const auto& [param, aside] : params) {
    layers::assign(in_program(*program, *aside), &in_program(*program, *param));
  }
  return program;
}

}  // namespace

ModelAverage::ModelAverage(double average_window_rate, const ModelAverageOptions& options,
                           SourceLine line)
    : Optimizer("model_average", 0.0,
                {.regularization = options.regularization, .name = options.name}),
      rate_(average_window_rate),
      average_(options) {
  const LineScope scope(line);
  const std::vector<std::pair<Var*, Var*>> params = averaged_params("", ".tmp");
  for (const auto& [param, aside] : params) {
    const RoleGuard role = optimized_guard(default_main_program(), {param->name(), aside->name()});
    const NameScope name_scope("move_average");
    append_accumulate_op(*param);
  }
  apply_ = Program::create();
  {
    const ProgramGuard guard(apply_);
    const auto here = [&](const Var& var) -> Var& { return in_program(*apply_, var); };
    for (const auto& [param, aside] : params) {
      Var& target = here(*param);
      layers::assign(target, &here(*aside));
      Var& count = layers::sums({here(accumulator("num_accumulates", *param)),
                                 here(accumulator("old_num_accumulates", *param))});
      Var& sum =
          layers::sums({here(accumulator("sum_1", *param)), here(accumulator("sum_2", *param)),
                        here(accumulator("sum_3", *param))});
      Var& divisor = layers::cast(count, param->dtype());
      apply_->global_block().append_op({"elementwise_div",
                                        {{"X", {sum.name()}}, {"Y", {divisor.name()}}},
                                        {{"Out", {target.name()}}},
                                        {}});
    }
  }
  restore_ = restoring(params);
}

void ModelAverage::append_accumulate_op(Var& param) {
  OpSpec op{"average_accumulates", {{"param", {param.name()}}}, {}, {}};
  const auto state = [&](const std::string& name, const State& made_as) {
    const std::string& var = add_accumulator(name, param, made_as).name();
    op.inputs["in_" + name] = {var};
    op.outputs["out_" + name] = {var};
  };
  const State counter{.shape = {1}, .dtype = DType::int64, .own_dtype = true};
  for (const char* name : {"sum_1", "sum_2", "sum_3"}) state(name, {});
  for (const char* name : {"num_accumulates", "old_num_accumulates", "num_updates"}) {
    state(name, counter);
  }
  op.attrs = {{"average_window", static_cast<float>(rate_)},
              {"min_average_window", average_.min_average_window},
              {"max_average_window", average_.max_average_window}};
  default_main_program().current_block().append_op(std::move(op));
}

Op& ModelAverage::append_optimize_op(Block&, Var&, Var&) {
  throw Error(ErrorKind::unimplemented, "ModelAverage averages parameters; it does not train them")
      .fix("minimize with another optimizer first, then make a ModelAverage");
}

ExponentialMovingAverage::ExponentialMovingAverage(const EmaOptions& options, SourceLine line)
    : options_(options) {
  const LineScope scope(line);
  decay_ = &make_decay();
  params_ = averaged_params(options_.name, ".ema_tmp");
  for (const auto& [param, aside] : params_) {
    const RoleGuard role = optimized_guard(default_main_program(), {param->name(), aside->name()});
    const NameScope name_scope("moving_average");
    const std::string name = unique_names().generate(cat(options_.name, param->name(), "_ema"));
    averages_[param->name()] = &layers::create_global_var(
        param->shape().to_vector(), 0.0, param->dtype(), {.persistable = true, .name = name});
  }
  apply_ = Program::create();
  {
    const ProgramGuard guard(apply_);
    Var& counter = layers::create_global_var({1}, 0, DType::int64,
                                             {.persistable = true, .name = kEmaStepCounter});
    Var& steps = layers::cast(counter, DType::float32);
    Var& decay_pow = layers::elementwise_pow(in_program(*apply_, *decay_), steps);
    for (const auto& [param, aside] : params_) {
      Var& target = in_program(*apply_, *param);
      Var& average = in_program(*apply_, *averages_.at(param->name()));
      layers::assign(target, &in_program(*apply_, *aside));
      // The average itself stays as it is, so that it may be applied again and training may go on.
      layers::Switch pick;
      pick.when(steps > 0.0, [&] { layers::assign(average / (1.0 - decay_pow), &target); });
      pick.otherwise([&] { layers::assign(average, &target); });
    }
  }
  restore_ = restoring(params_);
}

Var& ExponentialMovingAverage::make_decay() {
  const RoleGuard role = lr_schedule_guard(default_main_program());
  Var& decay = layers::create_global_var({1}, options_.decay, DType::float32,
                                         {.persistable = true, .name = "scheduled_ema_decay_rate"});
  if (!options_.thres_steps) return decay;
  Var& steps = options_.thres_steps->dtype() == DType::float32
                   ? *options_.thres_steps
                   : layers::cast(*options_.thres_steps, DType::float32);
  Var& early = (steps + 1.0) / (steps + 10.0);
  layers::Switch pick;
  pick.when(early < options_.decay, [&] { layers::assign(early, &decay); });
  pick.otherwise([&] {
    layers::assign(make_tensor<float>({1}, {static_cast<float>(options_.decay)}), &decay);
  });
  return decay;
}

void ExponentialMovingAverage::update(SourceLine line) {
  const LineScope scope(line);
  layers::autoincreased_step_counter({.counter_name = kEmaStepCounter});
  for (const auto& [param, aside] : params_) {
    const RoleGuard role = optimized_guard(default_main_program(), {param->name(), aside->name()});
    const NameScope name_scope("moving_average");
    Var& average = *averages_.at(param->name());
    Var& next = average * *decay_ + *param * (1.0 - *decay_);
    layers::assign(next, &average);
  }
}

}  // namespace trireme::optimizer
