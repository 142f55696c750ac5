// Gradient ops made from forward rows: the <type>_grad row, and the op that append_backward adds.
#include <algorithm>
#include <utility>

#include "ir/schema.h"

namespace trireme {
namespace {

// X@GRAD has X's facts where the gradient op reads X, else those of the first gradient that
// arrives.
void default_grad_shape(OpView& op) {
  const OpSchema& forward = *op.schema().forward();
  const ValueInfo* arriving = nullptr;
  for (const SlotSpec& slot : op.schema().inputs()) {
    if (!arriving && slot.name.ends_with(kGradSuffix) && op.position(slot.name) >= 0) {
      arriving = &op.in(slot.name);
    }
  }
  for (const SlotSpec& slot : op.schema().outputs()) {
    const std::string of = slot.name.substr(0, slot.name.size() - kGradSuffix.size());
    const bool reads = op.schema().find_input(of) != nullptr;
    for (size_t i = 0; i < op.out_count(slot.name); ++i) {
      if (op.out_position(slot.name, i) < 0) continue;
      const ValueInfo* like = reads && op.position(of, i) >= 0 ? &op.in(of, i) : arriving;
      if (!like) continue;
      ValueInfo& gradient = op.out(slot.name, i);
      take_facts(*like, gradient);
      if (of == forward.sparse_grad_slot() && op.has_attr("is_sparse") &&
          op.attr<bool>("is_sparse") && like->type == VarType::lod_tensor &&
          like->shape.rank() > 0) {
        gradient.type = VarType::selected_rows;
        gradient.height = like->shape.at(0);
        gradient.shape[0] = Dim();
      }
    }
  }
}

std::vector<std::string> grad_names(const std::vector<std::string>& names) {
  std::vector<std::string> grads;
  for (const std::string& name : names) {
    grads.push_back(name == kEmptyVar ? name : grad_name(name));
  }
  return grads;
}

// Not facts about the computation: append_backward gives the gradient op its own.
bool stays_behind(std::string_view attr) {
  return attr == "op_role" || attr == "op_role_var" || attr == "op_callstack";
}

}  // namespace

std::vector<std::string> GradMaker::out_grad(std::string_view slot) const {
  return grad_names(op_.output(slot));
}

std::vector<std::string> GradMaker::in_grad(std::string_view slot) const {
  std::vector<std::string> grads = grad_names(op_.input(slot));
  bool any = false;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i] != kEmptyVar && wants_grad_(op_.input(slot)[i])) {
      any = true;
    } else {
      grads[i] = kEmptyVar;
    }
  }
  if (!any) grads.clear();
  return grads;
}

bool GradMaker::arrives(std::string_view slot) const {
  const std::vector<std::string>& names = op_.output(slot);
  return !has_grad_ || std::any_of(names.begin(), names.end(), has_grad_);
}

Attrs GradMaker::attrs_for(const OpSchema& row) const {
  Attrs kept;
  for (const auto& [name, value] : op_.attrs()) {
    const bool known = row.find_attribute(name) || is_common_attr(name) || is_ignored_attr(name);
    if (known && !stays_behind(name)) kept.emplace(name, value);
  }
  return kept;
}

std::vector<std::string> OpSchema::grad_out_slots() const {
  std::vector<std::string> slots = grad_outs_;
  if (slots.empty()) {
    for (const SlotSpec& slot : outputs_) {
      if (!slot.intermediate) slots.push_back(slot.name);
    }
  }
  for (const std::string& name : grad_outs_if_any_) {
    if (std::find(slots.begin(), slots.end(), name) == slots.end()) slots.push_back(name);
  }
  return slots;
}

OpSchema OpSchema::make_grad_row() const {
  OpSchema row(grad_op_type());
  row.doc_ = cat("The gradient of ", type_, ".");
  for (const std::string& name : grad_uses_) {
    const SlotSpec* slot = find_input(name) ? find_input(name) : find_output(name);
    if (!slot)
      throw InternalError(cat("the gradient of ", type_, " uses ", name, ", which is no slot"));
    SlotSpec use = *slot;
    // Gradients of gradients leave by inputs and results, not by what was kept on the way.
    use.no_grad |= std::exchange(use.intermediate, false);
    // Which of them are there is then the rule's to say.
    use.dispensable |= grad_rule_ != nullptr;
    row.add_slot(row.inputs_, std::move(use));
  }
  for (const std::string& name : grad_out_slots()) {
    const SlotSpec* slot = find_output(name);
    if (!slot)
      throw InternalError(
          cat("the gradient of ", type_, " reads ", name, "@GRAD, but ", name, " is no output"));
    row.add_slot(row.inputs_, {.name = grad_name(name),
                               .doc = cat("gradient of ", name),
                               .duplicable = slot->duplicable,
                               .dispensable = true});
  }
  for (const SlotSpec& slot : inputs_) {
    if (slot.no_grad) continue;
    row.add_slot(row.outputs_, {.name = grad_name(slot.name),
                                .doc = cat("gradient of ", slot.name),
                                .duplicable = slot.duplicable,
                                .dispensable = true});
  }
  row.attrs_ = attrs_;
  row.shape_ = grad_shape_ ? grad_shape_ : default_grad_shape;
  row.body_ = grad_body_;
  row.kernels_ = grad_kernels_;
  row.definition_ = grad_definition_;
  row.vjp_ = grad_vjp_;
  row.traits_.host = traits_.host;
  for (const std::string& name : traits_.reads_values) {
    if (row.find_input(name)) row.traits_.reads_values.push_back(name);
  }
  row.traits_.linear = true;
  row.traits_.layout_attr = traits_.layout_attr;
  // A gradient's gradient has no kernels of its own, and so none for blocked images.
  if (!forward_) row.traits_.images = traits_.images;
  if (!renaming_.first.empty()) {
    row.renames(grad_name(renaming_.second), grad_name(renaming_.first));
  }
  row.forward_ = this;
  return row;
}

// Of a gradient row: a body, or one derived from the forward body, has its rules; a kernel has what
// the forward row says of it.
bool OpSchema::twice_differentiable() const {
  if (traits_.host || forward_->forward_) return false;
  if (definition_ || vjp_) return true;
  if (!body_) return kernels_.empty() && forward_->body_;
  // What the body reads of the way there moves with the operands, and no gradient goes through it.
  return std::none_of(
      forward_->outputs_.begin(), forward_->outputs_.end(),
      [this](const SlotSpec& slot) { return slot.intermediate && find_input(slot.name); });
}

std::vector<OpSpec> OpSchema::make_grad(GradMaker& maker) const {
  // A rule may have something for inputs without a derivative, too: data_norm's statistics.
  bool wanted = false;
  for (const SlotSpec& slot : inputs_) {
    const bool may_have = grad_rule_ || !slot.no_grad;
    wanted = wanted || (may_have && !maker.in_grad(slot.name).empty());
  }
  if (!wanted || !differentiable()) return {};
  if (grad_rule_) {
    grad_rule_(maker);
    return maker.take();
  }
  // Every slot of the gradient op is written, empty where there is nothing, as the original does.
  OpSpec spec{.type = grad_op_type()};
  for (const std::string& name : grad_uses_) {
    spec.inputs[name] = find_input(name) ? maker.in(name) : maker.out(name);
  }
  for (const std::string& name : grad_out_slots()) {
    const bool if_any = std::find(grad_outs_if_any_.begin(), grad_outs_if_any_.end(), name) !=
                        grad_outs_if_any_.end();
    if (if_any && !maker.arrives(name)) continue;
    spec.inputs[grad_name(name)] = maker.out_grad(name);
  }
  for (const SlotSpec& slot : inputs_) {
    if (!slot.no_grad) spec.outputs[grad_name(slot.name)] = maker.in_grad(slot.name);
  }
  spec.attrs = maker.attrs_for(*this);
  std::vector<OpSpec> made;
  made.push_back(std::move(spec));
  return made;
}

}  // namespace trireme
