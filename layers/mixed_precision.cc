// The casts of mixed precision, and the optimizer that scales the loss.
#include "layers/mixed_precision.h"

#include <algorithm>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/defaults.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme::mixed_precision {

OpLists op_lists(const std::set<std::string>& custom_white,
                 const std::set<std::string>& custom_black,
                 const std::set<std::string>& custom_black_varnames) {
  OpLists lists{.white = {"conv2d", "depthwise_conv2d", "matmul", "matmul_v2", "mul"},
                .black = {"exp", "square", "log", "mean", "sum", "cos_sim", "softmax",
                          "softmax_with_cross_entropy", "sigmoid_cross_entropy_with_logits",
                          "cross_entropy", "cross_entropy2", "reduce_sum", "reduce_mean"},
                .gray = {"elementwise_add",
                         "elementwise_sub",
                         "elementwise_mul",
                         "elementwise_div",
                         "elementwise_max",
                         "elementwise_min",
                         "elementwise_pow",
                         "elementwise_mod",
                         "elementwise_floordiv",
                         "batch_norm",
                         "layer_norm",
                         "tanh",
                         "sigmoid",
                         "gelu",
                         "lookup_table",
                         "lookup_table_v2",
                         "top_k",
                         "top_k_v2",
                         "pool2d",
                         "pool3d",
                         "dropout",
                         "relu",
                         "relu6",
                         "leaky_relu",
                         "soft_relu",
                         "flatten2",
                         "concat",
                         "split",
                         "stack",
                         "unstack",
                         "squeeze2",
                         "unsqueeze2",
                         "expand",
                         "slice",
                         "rank",
                         "scale",
                         "transpose2",
                         "reshape2",
                         "gather",
                         "fill_constant",
                         "pad",
                         "pad2d",
                         "get_tensor_from_selected_rows",
                         "sign",
                         "cast",
                         "fused_bn_add_activation"},
                .black_varnames = custom_black_varnames};
  for (const std::string& op : custom_white) {
    if (custom_black.contains(op)) {
      throw Error(cat(op, " is in the white list and in the black list"))
          .in("mixed_precision")
          .fix("leave it in one of them");
    }
    lists.black.erase(op);
    lists.gray.erase(op);
    lists.white.insert(op);
  }
  for (const std::string& op : custom_black) {
    lists.white.erase(op);
    lists.gray.erase(op);
    lists.black.insert(op);
  }
  return lists;
}

namespace {

enum class Shade { neither, half, full };

// Statistics and affine parameters of norms stay float32 beside a half-precision input.
bool keeps_float(const std::string& op, const std::string& slot) {
  const bool norm = op == "batch_norm" || op == "fused_bn_add_activation" || op == "layer_norm";
  return norm && slot != "X" && slot != "Z" && slot != "Y";
}

class Rewriter {
 public:
  Rewriter(Program& program, const OpLists& lists, DType half)
      : block_(program.global_block()), lists_(lists), half_(half) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      Op& op = block_.op(i);
      const Shade shade = shade_of(op);
      if (shade == Shade::neither) continue;
      const bool half = shade == Shade::half;
      i += cast_inputs(i, half ? DType::float32 : half_, half ? half_ : DType::float32);
      if (half) halve_outputs(op);
      for (const std::string& name : op.output_names()) shades_[name] = shade;
    }
  }

 private:
  Shade shade_of(const Op& op) const {
    const std::string& type = op.type();
    if (type == "feed" || type == "fetch" || type == "read" || type == "create_py_reader") {
      return Shade::neither;
    }
    for (const auto& names : {op.input_names(), op.output_names()}) {
      for (const std::string& name : names) {
        if (lists_.black_varnames.contains(name)) return Shade::full;
      }
    }
    if (lists_.white.contains(type)) return Shade::half;
    if (!lists_.gray.contains(type)) return Shade::full;
    Shade shade = Shade::neither;
    for (const std::string& name : op.input_names()) {
      const auto found = shades_.find(name);
      if (found == shades_.end()) continue;
      if (found->second == Shade::full) return Shade::full;
      shade = found->second;
    }
    return shade;
  }

  // How many casts were put before op `index`.
  size_t cast_inputs(size_t index, DType from, DType to) {
    size_t casts = 0;
    const Slots inputs = block_.op(index).inputs();
    for (const auto& [slot, names] : inputs) {
      Op& op = block_.op(index + casts);
      if (from == DType::float32 && keeps_float(op.type(), slot)) continue;
      for (const std::string& name : names) {
        Var* var = block_.find_var_recursive(name);
        if (!var || var->dtype() != from || var->type() != VarType::lod_tensor) continue;
        check_no_sub_block(op, *var);
        casts += cast_one(index + casts, *var, to);
        block_.op(index + casts).rename_input(name, cast_name(name, to));
      }
    }
    return casts;
  }

  static std::string cast_name(const std::string& name, DType to) {
    return cat(name, ".cast_",
               to == DType::float32   ? "fp32"
               : to == DType::float16 ? "fp16"
                                      : "bf16");
  }

  // One cast serves all readers until the variable is written again.
  size_t cast_one(size_t index, Var& var, DType to) {
    const std::string name = cast_name(var.name(), to);
    const size_t version = writes_before(var.name(), index);
    const auto known = cast_version_.find(name);
    if (known != cast_version_.end() && known->second == version) return 0;
    cast_version_[name] = version;
    if (!block_.find_var(name)) {
      block_.create_var({.name = name,
                         .dtype = to,
                         .shape = var.shape(),
                         .lod_level = var.lod_level(),
                         .stop_gradient = var.stop_gradient()});
    }
    block_.insert_op(
        index,
        {.type = "cast",
         .inputs = {{"X", {var.name()}}},
         .outputs = {{"Out", {name}}},
         .attrs = {{"in_dtype", wire_number(var.dtype())}, {"out_dtype", wire_number(to)}}},
        block_.op(index).line());
    return 1;
  }

  size_t writes_before(const std::string& name, size_t index) const {
    size_t writes = 0;
    for (size_t i = 0; i < index; ++i) {
      const std::vector<std::string> outs = block_.op(i).output_names();
      writes += std::count(outs.begin(), outs.end(), name);
    }
    return writes;
  }

  void halve_outputs(Op& op) {
    for (const auto& [slot, names] : op.outputs()) {
      if (keeps_float(op.type(), slot)) continue;
      for (const std::string& name : names) {
        Var* var = block_.find_var_recursive(name);
        if (!var || var->type() != VarType::lod_tensor || var->dtype() != DType::float32) continue;
        if (var->persistable()) {
          throw Error(ErrorKind::unimplemented, cat(op.type(), " would write ", name,
                                                    " in half precision, but it is "
                                                    "persistable and stays float32"))
              .in("mixed_precision")
              .at(op.line())
              .fix(cat("add \"", name, "\" to custom_black_varnames"));
        }
        var->set_dtype(half_);
      }
    }
    for (const char* attr : {"out_dtype", "dtype"}) {
      if (op.has_attr(attr) && op.attr<int>(attr) == wire_number(DType::float32)) {
        op.set_attr(attr, wire_number(half_));
      }
    }
  }

  // Inside, the op's block knows the variable by its own name.
  static void check_no_sub_block(const Op& op, const Var& var) {
    if (!op.sub_block()) return;
    throw Error(ErrorKind::unimplemented,
                cat(op.type(), " reads ", var.name(), ", which is ", name_of(var.dtype()),
                    ", but casts are not made inside of blocks"))
        .in("mixed_precision")
        .at(op.line())
        .fix(cat("add \"", var.name(), "\" to custom_black_varnames"));
  }

  Block& block_;
  const OpLists& lists_;
  DType half_;
  std::map<std::string, Shade> shades_;  // of the last op that wrote a variable
  std::map<std::string, size_t> cast_version_;
};

}  // namespace

void rewrite_program(Program& program, const OpLists& lists, DType half) {
  if (half != DType::float16 && half != DType::bfloat16) {
    throw Error(cat("mixed precision in ", name_of(half))).fix("use float16 or bfloat16");
  }
  Rewriter(program, lists, half).run();
}

namespace {

const Optimizer& required(const std::shared_ptr<Optimizer>& inner) {
  if (inner) return *inner;
  throw Error(ErrorKind::type_mismatch, "the optimizer to decorate is missing")
      .in("mixed_precision")
      .fix("give an optimizer such as SGD(0.01)");
}

}  // namespace

OptimizerWithMixedPrecision::OptimizerWithMixedPrecision(std::shared_ptr<Optimizer> inner,
                                                         DecorateOptions options)
    : Optimizer("mixed_precision", required(inner).learning_rate(), required(inner).options()),
      inner_(std::move(inner)),
      amp_(std::move(options)) {}

const std::vector<std::string>& OptimizerWithMixedPrecision::get_opti_var_name_list() const {
  return inner_->get_opti_var_name_list();
}

Var* OptimizerWithMixedPrecision::learning_rate_var(const Program* program) const {
  return inner_->learning_rate_var(program);
}

void OptimizerWithMixedPrecision::create_scale() {
  const auto number = [](const char* name, double value, DType dtype) {
    return &layers::create_global_var({1}, value, dtype,
                                      {.persistable = true, .name = unique_names().generate(name)});
  };
  loss_scaling_ = number("loss_scaling", amp_.init_loss_scaling, DType::float32);
  if (!amp_.use_dynamic_loss_scaling) return;
  good_steps_ = number("num_good_steps", 0, DType::int32);
  bad_steps_ = number("num_bad_steps", 0, DType::int32);
}

ParamGrads OptimizerWithMixedPrecision::backward(Var& loss, const MinimizeOptions& options,
                                                 SourceLine line) {
  const LineScope scope(line);
  Program& program = loss.block().program();
  const ProgramGuard guard(program.shared_from_this(), options.startup);
  rewrite_program(program, amp_.lists ? *amp_.lists : op_lists(), amp_.half);
  create_scale();
  Var& full = loss.dtype() == DType::float32 ? loss : layers::cast(loss, DType::float32);
  scaled_loss_ = &(full * *loss_scaling_);
  return inner_->backward(*scaled_loss_, options, line);
}

ParamGrads OptimizerWithMixedPrecision::unscaled(const ParamGrads& params_grads) {
  ParamGrads result;
  std::vector<Var*> grads;
  for (const auto& [param, grad] : params_grads) {
    if (!grad) continue;
    result.emplace_back(param, grad);
    grads.push_back(grad);
  }
  if (grads.empty()) return result;
  const RoleGuard role = optimized_guard(default_main_program(), {});
  LayerHelper helper("check_finite_and_unscale");
  Var& found = helper.create_variable({.name = unique_names().generate("find_infinite_scale"),
                                       .dtype = DType::boolean,
                                       .shape = {1},
                                       .stop_gradient = true});
  const Vars all(grads);
  helper.append_op("check_finite_and_unscale", {{"X", all}, {"Scale", *loss_scaling_}},
                   {{"Out", all}, {"FoundInfinite", found}});
  if (!amp_.use_dynamic_loss_scaling) return result;
  helper.append_op("update_loss_scaling",
                   {{"X", all},
                    {"FoundInfinite", found},
                    {"PrevLossScaling", *loss_scaling_},
                    {"InGoodSteps", *good_steps_},
                    {"InBadSteps", *bad_steps_}},
                   {{"Out", all},
                    {"LossScaling", *loss_scaling_},
                    {"OutGoodSteps", *good_steps_},
                    {"OutBadSteps", *bad_steps_}},
                   {{"incr_every_n_steps", amp_.incr_every_n_steps},
                    {"decr_every_n_nan_or_inf", amp_.decr_every_n_nan_or_inf},
                    {"incr_ratio", static_cast<float>(amp_.incr_ratio)},
                    {"decr_ratio", static_cast<float>(amp_.decr_ratio)},
                    {"stop_update", false}});
  return result;
}

std::vector<Op*> OptimizerWithMixedPrecision::apply_gradients(const ParamGrads& params_grads,
                                                              SourceLine line) {
  const LineScope scope(line);
  if (!loss_scaling_) {
    throw Error(ErrorKind::precondition, "apply_gradients is called before backward")
        .in("mixed_precision")
        .at(line)
        .fix("call backward, or minimize");
  }
  return inner_->apply_gradients(unscaled(params_grads), line);
}

std::vector<Op*> OptimizerWithMixedPrecision::apply_optimize(
    Var& loss, const std::shared_ptr<Program>& startup, const ParamGrads& params_grads,
    SourceLine line) {
  const LineScope scope(line);
  const ProgramGuard guard(loss.block().program().shared_from_this(), startup);
  return apply_gradients(params_grads, line);
}

Op& OptimizerWithMixedPrecision::append_optimize_op(Block& block, Var& param, Var& grad) {
  return inner_->append_optimize_op(block, param, grad);
}

}  // namespace trireme::mixed_precision
