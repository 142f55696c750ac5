// Gradient clips as ops, and the clip that backward puts behind one variable's gradient.
#include "layers/clip.h"

#include <algorithm>
#include <map>

#include "core/text.h"
#include "layers/defaults.h"
#include "layers/layer_helper.h"
#include "layers/ops.h"
#include "layers/tensor.h"

namespace trireme {
namespace {

RoleGuard role_of(const Var& param, const Var& grad) {
  return optimized_guard(param.block().program(), {param.name(), grad.name()});
}

// Ops are appended while the old gradient is the only one known; at the end their op_role_var names
// the clipped one, by which data parallelism and transpilers find them.
class RoleVars {
 public:
  explicit RoleVars(Program& program) : block_(program.current_block()), first_(block_.size()) {}

  void correct(const ParamGrads& clipped) {
    std::map<std::string, std::string> new_grads;
    for (const auto& [param, grad] : clipped) {
      if (grad) new_grads[param->name()] = grad->name();
    }
    for (size_t i = first_; i < block_.size(); ++i) {
      Op& op = block_.op(i);
      const auto vars = op.attr_or<std::vector<std::string>>("op_role_var", {});
      if (vars.empty()) continue;
      if (const auto found = new_grads.find(vars.front()); found != new_grads.end()) {
        op.set_attr("op_role_var", std::vector<std::string>{found->first, found->second});
      }
    }
  }

 private:
  Block& block_;
  size_t first_;
};

// The program clips append to: the layers below build into the default one.
Program& program_of(const ParamGrads& params_grads) {
  for (const auto& [param, grad] : params_grads) {
    if (!grad) continue;
    Program& program = grad->block().program();
    if (&program != &default_main_program()) {
      throw Error(ErrorKind::precondition,
                  "gradients are clipped in another program than the default main program")
          .fix("open a program_guard on the program of the loss");
    }
    return program;
  }
  return default_main_program();
}

// Those that are wanted get clip(gradient) in place of their gradient.
template <class Clip>
ParamGrads clipped(const ParamGrads& params_grads, const std::function<bool(const Var&)>& wants,
                   RoleVars& role_vars, const Clip& clip) {
  ParamGrads result;
  for (const auto& [param, grad] : params_grads) {
    if (!grad || !wants(*param)) {
      result.emplace_back(param, grad);
      continue;
    }
    const RoleGuard role = role_of(*param, *grad);
    result.emplace_back(param, &clip(*grad));
  }
  role_vars.correct(result);
  return result;
}

template <class Clip>
ParamGrads clip_each(const ParamGrads& params_grads, const std::function<bool(const Var&)>& wants,
                     const Clip& clip) {
  const NameScope scope("gradient_clip");
  RoleVars role_vars(program_of(params_grads));
  return clipped(params_grads, wants, role_vars, clip);
}

}  // namespace

bool GradientClip::wants(const Var& param) const {
  if (param.parameter() && !param.parameter()->need_clip) return false;
  return !need_clip || need_clip(param);
}

GradientClipByValue::GradientClipByValue(double max, std::optional<double> min)
    : max_(max), min_(min.value_or(-max)) {
  if (min_ > max_) throw Error(cat("gradients cannot be clipped into [", min_, ", ", max_, "]"));
}

ParamGrads GradientClipByValue::operator()(const ParamGrads& params_grads) {
  return clip_each(
      params_grads, [this](const Var& p) { return wants(p); },
      [this](Var& grad) -> Var& { return layers::clip(grad, min_, max_); });
}

std::string GradientClipByValue::describe() const {
  return cat("GradientClipByValue(max=", max_, ", min=", min_, ")");
}

ParamGrads GradientClipByNorm::operator()(const ParamGrads& params_grads) {
  return clip_each(
      params_grads, [this](const Var& p) { return wants(p); },
      [this](Var& grad) -> Var& { return layers::clip_by_norm(grad, clip_norm_); });
}

std::string GradientClipByNorm::describe() const {
  return cat("GradientClipByNorm(clip_norm=", clip_norm_, ")");
}

ParamGrads GradientClipByGlobalNorm::operator()(const ParamGrads& params_grads) {
  const NameScope scope("gradient_clip");
  RoleVars role_vars(program_of(params_grads));
  std::vector<Var*> squares;
  std::pair<Var*, Var*> last;
  for (const auto& [param, grad] : params_grads) {
    if (!grad || !wants(*param)) continue;
    const RoleGuard role = role_of(*param, *grad);
    Var* dense = grad;
    if (grad->type() == VarType::selected_rows) {
      // Rows given twice count as one sum, and only the merged ones have the true norm.
      dense = &layers::get_tensor_from_selected_rows(layers::merge_selected_rows(*grad));
    }
    squares.push_back(defaults().style == Style::static_2_4
                          ? &layers::apply("squared_l2_norm", {{"X", *dense}})
                          : &layers::reduce_sum(layers::square(*dense)));
    last = {param, grad};
  }
  if (squares.empty()) return params_grads;

  Var* factor = nullptr;
  {
    const RoleGuard role = role_of(*last.first, *last.second);
    Var& norm = layers::sqrt(layers::sums(squares));
    Var& limit = layers::fill_constant({1}, norm.dtype(), clip_norm_);
    factor = &layers::elementwise_div(limit, layers::elementwise_max(limit, norm));
  }
  return clipped(
      params_grads, [this](const Var& p) { return wants(p); }, role_vars,
      [&](Var& grad) -> Var& { return layers::elementwise_mul(grad, *factor); });
}

std::string GradientClipByGlobalNorm::describe() const {
  return cat("GradientClipByGlobalNorm(clip_norm=", clip_norm_, ")");
}

void set_gradient_clip(const std::shared_ptr<GradientClip>& clip,
                       const std::vector<std::string>& params, Program* program, SourceLine line) {
  const LineScope scope(line);
  Block& block = (program ? *program : default_main_program()).global_block();
  std::vector<std::string> names = params;
  if (names.empty()) {
    for (const Var* var : block.vars()) {
      if (var->is_parameter()) names.push_back(var->name());
    }
  }
  for (const std::string& name : names) {
    Var* var = block.find_var(name);
    if (!var || !var->is_parameter()) {
      throw Error(cat("the program has no parameter ", name))
          .in("set_gradient_clip")
          .at(user_line());
    }
    var->edit_parameter().gradient_clip = clip;
  }
}

ParamGrads append_gradient_clip_ops(const ParamGrads& params_grads) {
  // Parameters of one group are clipped together, by the clip given first.
  std::vector<std::pair<GradientClip*, ParamGrads>> groups;
  for (const auto& pair : params_grads) {
    const ParameterInfo* info = pair.first->parameter();
    if (!pair.second || !info || !info->gradient_clip) continue;
    GradientClip* clip = info->gradient_clip.get();
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.first == clip ||
             (!clip->group().empty() && group.first->group() == clip->group());
    });
    if (same == groups.end()) {
      groups.push_back({clip, {pair}});
      continue;
    }
    if (same->first->describe() != clip->describe()) {
      throw Error(cat("parameters of clip group ", clip->group(),
                      " disagree: ", same->first->describe(), " and ", clip->describe()))
          .in("set_gradient_clip")
          .at(user_line())
          .fix("give them one clip_norm, or two group names");
    }
    same->second.push_back(pair);
  }
  if (groups.empty()) return params_grads;
  const NameScope scope("gradient_clip_@CLIP");
  std::map<const Var*, Var*> clipped;
  for (auto& [clip, pairs] : groups) {
    for (const auto& [param, grad] : (*clip)(pairs)) clipped[param] = grad;
  }
  ParamGrads result = params_grads;
  for (auto& [param, grad] : result) {
    if (const auto found = clipped.find(param); found != clipped.end()) grad = found->second;
  }
  return result;
}

ErrorClipByValue::ErrorClipByValue(double max_value, std::optional<double> min_value)
    : max(max_value), min(min_value.value_or(-max_value)) {}

void set_error_clip(Var& var, const ErrorClipByValue& clip) {
  var.error_clip = {static_cast<float>(clip.min), static_cast<float>(clip.max)};
  var.block().program().touch();
}

void error_clip_callback(Block& block, Op& grad_op) {
  for (const std::string& name : grad_op.output_names()) {
    if (!name.ends_with(kGradSuffix)) continue;
    const Var* var = block.find_var_recursive(name.substr(0, name.size() - kGradSuffix.size()));
    if (!var || !var->error_clip) continue;
    block.insert_op(static_cast<size_t>(grad_op.index()) + 1,
                    {.type = "clip",
                     .inputs = {{"X", {name}}},
                     .outputs = {{"Out", {name}}},
                     .attrs = {{"min", var->error_clip->first},
                               {"max", var->error_clip->second},
                               {"op_role", int32_t{op_role::kBackward}}}},
                    grad_op.line());
  }
}

}  // namespace trireme
