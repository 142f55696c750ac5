// Gradients of ops that own a sub-block: a gradient block beside the forward one, and the op that
// runs it.
//
// Inside, gradients have their plain names. Those that arrive from outside are there when an
// iteration begins, and the gradients of what the block reads are there when it ends; the op's
// slots say which is which. Where iterations follow each other, what one leaves is what the one
// before it finds.
#include <algorithm>

#include "core/text.h"
#include "ir/grad_ops.h"
#include "ir/schema.h"
#include "ir/unique_name.h"

namespace trireme {
namespace {

using Names = std::vector<std::string>;

bool holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_array(const Block& block, const std::string& name) {
  const Var* var = block.find_var_recursive(name);
  return var && var->type() == VarType::lod_tensor_array;
}

// A counter: its gradient block counts down, so that indices are what they were.
bool counts(const Op& op, const std::set<std::string>& no_grad) {
  return traits_of(op).counts && op.input("X") == op.output("Out") &&
         no_grad.contains(op.input("X").at(0));
}

// The gradient counts down from where the loop left its counter.
void require_last_writer(const Op& loop, const BlockUses& uses, const std::string& counter) {
  const std::vector<size_t>& writers = uses.of(counter).writes;
  const auto after = std::upper_bound(writers.begin(), writers.end(), uses.place_of(loop));
  if (after == writers.end()) return;
  Error error(ErrorKind::unimplemented,
              cat(counter, " counts the iterations of a loop and is written again after it, by ",
                  uses.op(*after).type(), "; the loop's gradient cannot count back"));
  throw add_op_context(error.fix("use another variable after the loop"), loop);
}

std::set<std::string> inputs_of(const std::vector<Op*>& ops) {
  std::set<std::string> names;
  for (const Op* op : ops) names.merge(names_in(op->inputs()));
  return names;
}

}  // namespace

// What of a sub-block gradients go through.
struct ReachedBody {
  // Gradients that are there when an iteration begins: those from outside, and those that the one
  // after it leaves.
  std::set<std::string> begun;
  std::vector<Op*> path = {};
  std::set<std::string> inputs = {};  // of the ops on the path
};

namespace {

ReachedBody reach(const Block& body, const Border& border, std::set<std::string> begun,
                  const std::set<std::string>& no_grad) {
  ReachedBody reached{.begun = std::move(begun)};
  for (size_t known = 0; known != reached.begun.size();) {
    known = reached.begun.size();
    reached.path = find_path(body.ops(), reached.begun, {}, no_grad);
    reached.inputs = inputs_of(reached.path);
    for (const Border::Handed& handed : border.handed) {
      if (handed.written.empty() || handed.read.empty()) continue;
      if (reached.inputs.contains(handed.read) && !no_grad.contains(handed.read)) {
        reached.begun.insert(handed.written);
      }
    }
  }
  return reached;
}

}  // namespace

// Copies that keep_version inserts write names of their own, so what was noted stays right.
const BlockUses& GradList::uses_of(const Block& block) {
  const auto found = uses_.find(&block);
  return found != uses_.end() ? found->second : uses_.emplace(&block, block).first->second;
}

// A gradient block reads forward values by name. A name stands for its last version, and for the
// first one if it is a variable outside that the block reads before it writes it. Where another
// version is needed, the forward block keeps a copy of it. Returns the name to read. Outside of all
// sub-blocks that is done for whole numbers only, the indices of arrays: programs count them up and
// use them again.
std::string GradList::keep_version(const Op& op, const std::string& name, bool before) {
  Block& body = op.block();
  if (is_array(body, name)) return name;
  const BlockUses& uses = uses_of(body);
  const auto& [readers, writers] = uses.of(name);
  if (writers.empty()) return name;
  const bool begins_read = !readers.empty() && readers.front() <= writers.front();
  const bool counter = std::all_of(writers.begin(), writers.end(),
                                   [&](size_t place) { return counts(uses.op(place), no_grad_); });
  const Var* var = body.find_var_recursive(name);
  const bool outermost = block_.forward_index() < 0;
  if ((counter && !outermost) || !var) return name;
  if (outermost && (is_floating(var->dtype()) || var->persistable())) return name;
  const size_t at = uses.place_of(op);
  const bool first = !outermost && begins_read && !body.find_var(name);
  const bool stands = first    ? before && writers.front() >= at
                      : before ? writers.back() < at
                               : writers.back() <= at;
  if (stands) return name;
  Var& copy = body.create_var({.name = unique_names().generate(name + ".kept"),
                               .dtype = var->dtype(),
                               .shape = var->shape(),
                               .lod_level = var->lod_level(),
                               .stop_gradient = true,
                               .has_shape = var->has_shape()});
  const auto stands_at = static_cast<size_t>(op.index());  // copies are inserted meanwhile
  body.insert_raw_op(before ? stands_at : stands_at + 1,
                     {.type = "assign",
                      .inputs = {{"X", {name}}},
                      .outputs = {{"Out", {copy.name()}}},
                      .attrs = {{"op_role", int32_t{op.role()}}}},
                     op.line());
  return copy.name();
}

// The values that the gradient op of `op` reads, each in the version that `op` saw or made.
void GradList::keep_versions(const Op& op, const ForwardNames& forward, OpSpec& spec) {
  for (auto& [slot, names] : spec.inputs) {
    for (std::string& name : names) {
      const bool read = forward.read.contains(name), written = forward.written.contains(name);
      if (!read && !written) continue;  // a gradient
      const bool before = read && written ? op.inputs().contains(slot) : read;
      name = keep_version(op, name, before);
    }
  }
}

// The same for what the gradient block of an op inside `op`'s block reads from this block.
void GradList::keep_versions_inside(const Op& op, GradList& inner) {
  const Block& body = *op.sub_block();
  std::set<std::string> made;
  for (const Op* each : body.ops()) made.merge(names_in(each->outputs()));
  for (GradOp& each : inner.ops_) {
    for (auto& [slot, names] : each.spec.inputs) {
      for (std::string& name : names) {
        if (is_grad_name(name) || name == kEmptyVar || made.contains(name)) continue;
        if (body.find_var(name) || !op.block().find_var_recursive(name)) continue;
        name = keep_version(op, name, /*before=*/true);
      }
    }
    if (each.inner) keep_versions_inside(op, *each.inner);
  }
}

// Where the block ran, what a variable held before is lost and has no gradient.
void GradList::zero_where_run(const Op& op, const std::string& condition, const std::string& name) {
  const std::string gradient = current_name(grad_name(name));
  const std::string kept = unique_names().generate(condition + ".not");
  const std::string factor = unique_names().generate(condition + ".factor");
  const Var* var = block_.find_var_recursive(name);
  const DType dtype = var ? var->dtype() : DType::float32;
  const bool scalar = op.attr_or<bool>("is_scalar_condition", false);
  repeat({{.type = scalar ? "logical_not" : "is_empty",
           .inputs = {{"X", {condition}}},
           .outputs = {{"Out", {kept}}}},
          op.line()});
  repeat({{.type = "cast",
           .inputs = {{"X", {kept}}},
           .outputs = {{"Out", {factor}}},
           .attrs = {{"in_dtype", static_cast<int32_t>(DType::boolean)},
                     {"out_dtype", static_cast<int32_t>(dtype)}}},
          op.line()});
  add({{.type = "elementwise_mul",
        .inputs = {{"X", {gradient}}, {"Y", {factor}}},
        .outputs = {{"Out", {gradient}}}},
       op.line()});
}

std::shared_ptr<GradList> GradList::differentiate_body(const Op& op, const ReachedBody& reached,
                                                       const Border& border,
                                                       const std::set<std::string>& no_grad) {
  const Block& body = *op.sub_block();
  Program& program = block_.program();
  const int current = program.current_index();
  Block& block = program.create_block(block_.index());
  program.set_current(current);
  block.set_forward_index(body.index());
  auto inner = std::make_shared<GradList>(block, no_grad, order_);
  for (const std::string& name : reached.begun) inner->arrive(name);
  const std::vector<Op*> ops = body.ops();
  const std::set<const Op*> on_path(reached.path.begin(), reached.path.end());
  for (size_t i = ops.size(); i > 0; --i) {
    const Op& each = *ops[i - 1];
    if (on_path.contains(&each)) {
      inner->differentiate(each);
    } else if (counts(each, no_grad) && reached.inputs.contains(each.input("X").at(0))) {
      require_last_writer(op, uses_of(op.block()), each.input("X").at(0));
      inner->repeat({{.type = each.type(),
                      .inputs = {{"X", each.output("Out")}},
                      .outputs = {{"Out", each.input("X")}},
                      .attrs = {{"step", -each.attr_or<float>("step", 1.0f)}}},
                     each.line()});
    }
    inner->overwrite(each);
  }
  // What an iteration overwrites without reading it gets nothing from it. Where nothing goes on
  // from there, no zeros are written: written inside, the name would be another than outside for
  // the original.
  const bool goes_on = !border.arriving_attr.empty();
  for (const std::string& name : reached.begun) {
    const bool read = goes_on || std::any_of(border.inputs.begin(), border.inputs.end(),
                                             [&](const Border::Input& input) {
                                               return holds(input.inside, name);
                                             });
    if (!read || inner->arrives(name) || is_array(body, name)) continue;
    inner->add({{.type = "fill_zeros_like",
                 .inputs = {{"X", {name}}},
                 .outputs = {{"Out", {grad_name(name)}}}},
                op.line()});
  }
  return inner;
}

// Gradients of arrays that nothing arrives at from outside begin empty. They are named among those
// that arrive, where the original looks for what goes from one iteration to the next.
void GradList::name_empty_arrays(const ReachedBody& reached, const Border& border, OpSpec& spec) {
  Names& arriving = spec.inputs[grad_name(border.outs)];
  Names inside = attr_as<Names>(spec.attrs.at(border.arriving_attr), border.arriving_attr);
  const std::set<std::string> given = names_in(spec.outputs);
  for (const std::string& name : reached.begun) {
    const std::string outside = current_name(grad_name(name));
    if (holds(inside, grad_name(name)) || !given.contains(outside)) continue;
    arriving.push_back(outside);
    inside.push_back(grad_name(name));
  }
  spec.attrs.insert_or_assign(border.arriving_attr, std::move(inside));
}

// The op that runs the gradient block.
OpSpec GradList::sub_block_gradient(const Op& op, const Border& border, const ReachedBody& reached,
                                    const std::set<std::string>& no_grad, const GradList& inner) {
  OpSpec spec{
      .type = op_table().get(op.type()).grad_op_type(), .inputs = op.inputs(), .attrs = op.attrs()};
  for (const auto& [slot, names] : op.outputs()) spec.inputs[slot] = names;
  for (const char* attr : {"op_role", "op_role_var", "op_callstack"}) spec.attrs.erase(attr);
  spec.attrs.insert_or_assign("sub_block", BlockRef{inner.block().index()});
  // An array that the loop alone writes: nobody before it wants what arrives, and the original
  // would put zeros into it.
  const auto begins_inside = [&](const std::string& outside, const std::string& inside) {
    if (border.arriving_attr.empty() || reached.inputs.contains(inside)) return false;
    const BlockUses& uses = uses_of(op.block());
    const std::vector<size_t>& writers = uses.of(outside).writes;
    return op.block().find_var(outside) && is_array(op.block(), outside) && !writers.empty() &&
           writers.front() >= uses.place_of(op);
  };
  // Gradients of a list of variables, @EMPTY@ where there is none inside.
  const auto gradients = [&](const Names& outside, const Names& inside) {
    Names names;
    for (size_t i = 0; i < outside.size() && i < inside.size(); ++i) {
      const bool has = !no_grad_.contains(outside[i]) && !no_grad.contains(inside[i]) &&
                       !inner.gradient_of(inside[i]).empty() &&
                       !begins_inside(outside[i], inside[i]);
      names.push_back(has ? grad_name(outside[i]) : std::string(kEmptyVar));
    }
    return names;
  };
  for (const std::string& slot : border.unread) spec.inputs.erase(slot);
  Names& arriving = spec.inputs[grad_name(border.outs)];
  if (border.arriving_attr.empty()) {
    for (const std::string& name : op.output(border.outs)) {
      const bool there = reached.begun.contains(name) && arrives(name);
      arriving.push_back(there ? grad_name(name) : std::string(kEmptyVar));
    }
  } else {
    for (const std::string& name : reached.begun) {
      if (arrives(name) || !is_array(*op.sub_block(), name)) arriving.push_back(grad_name(name));
    }
    spec.attrs.insert_or_assign(border.arriving_attr, arriving);
  }
  for (const Border::Input& input : border.inputs) {
    spec.outputs[grad_name(input.slot)] = gradients(input.outside, input.inside);
  }
  return spec;
}

void GradList::differentiate_sub_block(const Op& op) {
  const Block& body = *op.sub_block();
  const OpSchema& row = op_table().get(op.type());
  promise(static_cast<bool>(row.border_rule()),
          "an op with a sub-block and a gradient has a border");
  const Border border = row.border_rule()(op);
  const Names& outs = op.output(border.outs);
  Names inputs;  // as they are called inside
  for (const Border::Input& input : border.inputs) {
    inputs.insert(inputs.end(), input.inside.begin(), input.inside.end());
  }
  const std::set<std::string> no_grad = without_gradient(body, no_grad_);

  std::set<std::string> begun;
  for (const std::string& name : outs) {
    if (arrives(name) && !no_grad.contains(name)) begun.insert(name);
  }
  if (begun.empty()) return;
  const ReachedBody reached = reach(body, border, std::move(begun), no_grad);
  const bool wanted = std::any_of(inputs.begin(), inputs.end(), [&](const std::string& name) {
    return !no_grad.contains(name) &&
           (reached.inputs.contains(name) || reached.begun.contains(name));
  });
  if (!wanted) return;

  const std::shared_ptr<GradList> inner = differentiate_body(op, reached, border, no_grad);
  keep_versions_inside(op, *inner);
  OpSpec spec = sub_block_gradient(op, border, reached, no_grad, *inner);
  const ForwardNames forward(op);
  rename_gradients(forward, spec);
  complete_arriving(op, forward, spec, {});
  if (!border.arriving_attr.empty()) name_empty_arrays(reached, border, spec);
  add({std::move(spec), op.line(), inner});

  if (border.condition.empty()) return;
  for (const std::string& name : outs) {
    if (!reached.begun.contains(name) || holds(inputs, name) || is_array(body, name)) continue;
    const Var* var = op.block().find_var(name);
    const BlockUses& uses = uses_of(op.block());
    const std::vector<size_t>& writers = uses.of(name).writes;
    const bool held = var == nullptr || var->persistable() ||  // had a value before the block
                      (!writers.empty() && writers.front() < uses.place_of(op));
    if (held && arrives(name)) zero_where_run(op, op.input(border.condition).at(0), name);
  }
}

}  // namespace trireme
