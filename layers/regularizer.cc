// Weight decay as ops on gradients.
#include "layers/regularizer.h"

#include <cstdio>

#include "layers/defaults.h"
#include "layers/layer_helper.h"

namespace trireme {
namespace {

Var& temporary_like(const Var& param, Block& block) {
  return block.create_var(
      {.dtype = param.dtype(), .shape = param.shape(), .lod_level = param.lod_level()});
}

Var& scaled_by(const std::string& x, double coeff, const Var& param, Block& block) {
  Var& out = temporary_like(param, block);
  block.append_op({.type = "scale",
                   .inputs = {{"X", {x}}},
                   .outputs = {{"Out", {out.name()}}},
                   .attrs = {{"scale", static_cast<float>(coeff)}}});
  return out;
}

std::string with_coefficient(const char* name, double coeff) {
  char text[64];
  std::snprintf(text, sizeof text, "%s, regularization_coeff=%f", name, coeff);
  return text;
}

}  // namespace

Var* L2Decay::operator()(Var& param, Var&, Block& block) {
  return &scaled_by(param.name(), coeff_, param, block);
}

std::string L2Decay::describe() const { return with_coefficient("L2Decay", coeff_); }

Var* L1Decay::operator()(Var& param, Var&, Block& block) {
  Var& sign = temporary_like(param, block);
  block.append_op(
      {.type = "sign", .inputs = {{"X", {param.name()}}}, .outputs = {{"Out", {sign.name()}}}});
  return &scaled_by(sign.name(), coeff_, param, block);
}

std::string L1Decay::describe() const { return with_coefficient("L1Decay", coeff_); }

ParamGrads append_regularization_ops(const ParamGrads& params_grads,
                                     const std::shared_ptr<Regularizer>& regularizer) {
  ParamGrads result;
  for (const auto& [param, grad] : params_grads) {
    const ParameterInfo* info = param->parameter();
    Regularizer* decay = info && info->regularizer ? info->regularizer.get() : regularizer.get();
    if (!grad || !decay) {
      result.emplace_back(param, grad);
      continue;
    }
    Block& block = grad->block();
    Program& program = block.program();
    const RoleGuard role = optimized_guard(program, {param->name(), grad->name()});
    const NameScope scope("regularization", &program);
    Var* term = (*decay)(*param, *grad, block);
    if (!term) {
      result.emplace_back(param, grad);
      continue;
    }
    Var* sum = grad;
    if (grad->type() == VarType::selected_rows) {
      // Rows that were not touched decay as well, so the sum is dense.
      sum = &block.create_var({.name = grad->name() + "@NEWGRAD@",
                               .dtype = param->dtype(),
                               .shape = param->shape(),
                               .lod_level = param->lod_level()});
    }
    block.append_op({.type = "sum",
                     .inputs = {{"X", {grad->name(), term->name()}}},
                     .outputs = {{"Out", {sum->name()}}}});
    result.emplace_back(param, sum);
  }
  return result;
}

}  // namespace trireme
