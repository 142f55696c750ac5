// Names, parameters and temporaries of layers.
#include "layers/layer_helper.h"

#include <algorithm>

#include "core/text.h"
#include "ir/near_match.h"
#include "ir/schema.h"
#include "ir/unique_name.h"
#include "layers/weight_norm.h"

namespace trireme {
namespace {

Slots to_slots(const VarSlots& slots) {
  Slots names;
  for (const auto& [slot, vars] : slots) {
    if (!vars.empty()) names[slot] = vars.names();
  }
  return names;
}

size_t writers_of(const std::string& name, const Block& block) {
  size_t count = 0;
  for (const Op* op : block.ops()) {
    const std::vector<std::string> outputs = op->output_names();
    count += std::find(outputs.begin(), outputs.end(), name) != outputs.end();
  }
  return count;
}

bool is_activation(const OpSchema& row) {
  return !row.trait().primitive && row.find_input("X") && row.find_output("Out") &&
         std::count_if(row.inputs().begin(), row.inputs().end(),
                       [](const SlotSpec& slot) { return !slot.dispensable; }) == 1;
}

Error unknown_activation(const LayerHelper& helper, const std::string& act) {
  std::vector<std::string> known;
  for (const OpSchema* row : op_table().rows()) {
    if (is_activation(*row) && !row->forward()) known.push_back(row->type());
  }
  Error error = helper.error(cat("there is no activation \"", act, "\""));
  const std::vector<std::string> near = near_matches(act, known);
  if (near.empty()) return error.fix("act is the name of an op with one input, such as \"relu\"");
  return error.fix(cat("did you mean \"", near.front(), "\"?"));
}

// Ops name their variables: one of another program is right where this one has the name, too.
void check_program(const LayerHelper& helper, const VarSlots& slots) {
  for (const auto& [slot, vars] : slots) {
    for (const Var* var : vars) {
      if (&var->block().program() == &helper.main_program()) continue;
      if (helper.main_program().current_block().find_var_recursive(var->name())) continue;
      throw helper.error(cat(slot, " is the variable ", var->name(), " of another program"))
          .fix(
              "build the layer inside program_guard() of the program that has the variable, or "
              "take "
              "a variable of this one");
    }
  }
}

}  // namespace

SourceLine user_line() {
  const SourceLine* line = LineScope::current();
  return line ? *line : SourceLine{};
}

LayerHelper::LayerHelper(std::string layer_type, const std::string& name)
    : layer_type_(std::move(layer_type)),
      name_(name.empty() ? unique_names().generate(layer_type_) : name) {}

Var* LayerHelper::create_parameter(const ParameterRequest& request) {
  if (!request.attr.wanted()) return nullptr;
  const ParamAttr& attr = request.attr.attr();
  if (attr.weight_norm) return &weight_normalized(*this, request);
  const std::string name = attr.name.empty()
                               ? unique_names().generate(cat(name_, request.is_bias ? ".b" : ".w"))
                               : attr.name;
  std::shared_ptr<Initializer> initializer = attr.initializer;
  if (!initializer) initializer = request.default_initializer;
  if (!initializer) {
    if (!is_floating(request.dtype)) {
      throw error(ErrorKind::type_mismatch, cat("parameter ", name, " is ", name_of(request.dtype),
                                                " and has no initializer"))
          .fix("give it one; the default initializers make floating point numbers only");
    }
    initializer = request.is_bias ? initializer::constant(0) : initializer::xavier();
  }
  const VarSpec spec = {.name = name,
                        .dtype = request.dtype,
                        .shape = Shape(request.shape),
                        .persistable = true,
                        .stop_gradient = request.stop_gradient};
  const ParameterInfo info = {.trainable = attr.trainable,
                              .learning_rate = attr.learning_rate,
                              .regularizer = attr.regularizer,
                              .do_model_average = attr.do_model_average,
                              .need_clip = attr.need_clip};
  try {
    Block& startup = startup_program().global_block();
    const bool shared = startup.find_var(name) != nullptr;
    Var& initialized = startup.create_parameter(spec, info);
    const size_t writers = shared ? writers_of(name, startup) : 0;
    if (writers > 1) {
      throw Error(ErrorKind::precondition, cat("parameter ", name, " is initialized by ", writers,
                                               " ops of the startup program"));
    }
    if (writers == 0) (*initializer)(initialized, startup);
    return &main_program().global_block().create_parameter(spec, info);
  } catch (Error& failure) {
    failure.in(layer_type_).at(user_line());
    throw;
  }
}

Var& LayerHelper::create_variable_for_type_inference(DType dtype, bool stop_gradient) {
  return create_variable({.name = unique_names().generate(cat(name_, ".tmp")),
                          .dtype = dtype,
                          .stop_gradient = stop_gradient,
                          .has_shape = false});
}

Var& LayerHelper::create_variable(VarSpec spec) {
  return main_program().current_block().create_var(std::move(spec));
}

Var& LayerHelper::create_global_variable(const GlobalVarRequest& request) {
  return main_program().global_block().create_var({.name = request.name,
                                                   .dtype = request.dtype,
                                                   .shape = Shape(request.shape),
                                                   .persistable = request.persistable,
                                                   .stop_gradient = request.stop_gradient});
}

std::pair<Var*, bool> LayerHelper::create_or_get_global_variable(const GlobalVarRequest& request) {
  if (Var* held = main_program().global_block().find_var(request.name)) return {held, false};
  return {&create_global_variable(request), true};
}

void LayerHelper::set_variable_initializer(Var& var, Initializer& initializer) {
  Block& startup = startup_program().global_block();
  const bool known = startup.find_var(var.name()) && writers_of(var.name(), startup) > 0;
  Var& initialized = startup.create_var({.name = var.name(),
                                         .type = var.type(),
                                         .dtype = var.dtype(),
                                         .shape = var.shape(),
                                         .persistable = true});
  if (!known) initializer(initialized, startup);
}

Op& LayerHelper::append_op(std::string type, const VarSlots& inputs, const VarSlots& outputs,
                           Attrs attrs) {
  check_program(*this, inputs);
  return main_program().current_block().append_op({.type = std::move(type),
                                                   .inputs = to_slots(inputs),
                                                   .outputs = to_slots(outputs),
                                                   .attrs = std::move(attrs)},
                                                  user_line());
}

Var& LayerHelper::append_bias_op(Var& x, const ParamArg& bias_attr, int dim_start, int dim_end) {
  if (!bias_attr.wanted()) return x;
  const int rank = x.shape().rank();
  if (dim_start >= rank) {
    throw error(
        cat("the bias starts at dimension ", dim_start, " but the layer's result has ", rank));
  }
  std::vector<int64_t> shape = x.shape().to_vector();
  shape.erase(shape.begin() + (dim_end < 0 ? rank : dim_end), shape.end());
  shape.erase(shape.begin(), shape.begin() + dim_start);
  Var* bias =
      create_parameter({.attr = bias_attr, .shape = shape, .dtype = x.dtype(), .is_bias = true});
  Var& out = create_variable_for_type_inference(x.dtype());
  append_op("elementwise_add", {{"X", x}, {"Y", *bias}}, {{"Out", out}}, {{"axis", dim_start}});
  return out;
}

Var& LayerHelper::append_activation(Var& x, const std::string& act, Attrs attrs) {
  if (act.empty()) return x;
  const OpSchema* row = op_table().find(act);
  if (!row || !is_activation(*row)) throw unknown_activation(*this, act);
  Var& out = create_variable_for_type_inference(x.dtype());
  append_op(act, {{"X", x}}, {{"Out", out}}, std::move(attrs));
  return out;
}

Error LayerHelper::error(std::string message) const {
  return error(ErrorKind::invalid_argument, std::move(message));
}

Error LayerHelper::error(ErrorKind kind, std::string message) const {
  Error error(kind, std::move(message));
  error.in(layer_type_).at(user_line());
  return error;
}

void LayerHelper::check_dtype(const Var& x, std::string_view argument,
                              std::initializer_list<DType> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), x.dtype()) != allowed.end()) return;
  std::string choices;
  for (const DType dtype : allowed) choices += cat(choices.empty() ? "" : ", ", name_of(dtype));
  Error wrong = error(ErrorKind::type_mismatch,
                      cat(argument, " is ", name_of(x.dtype()), "; it must be one of ", choices));
  wrong.operand(cat(argument, "   ", x.name(), "   ", x.describe()));
  throw wrong.fix("cast it first");
}

void LayerHelper::check_rank(const Var& x, std::string_view argument, int rank) const {
  if (x.shape().rank() == rank) return;
  Error wrong = error(cat(argument, " has ", x.shape().rank(), " dimensions; it must have ", rank));
  throw wrong.operand(cat(argument, "   ", x.name(), "   ", x.describe()));
}

}  // namespace trireme
