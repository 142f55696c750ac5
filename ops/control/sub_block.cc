// Ops that own a sub-block: conditional_block, while, recurrent, and their gradients.
#include <algorithm>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/run_context.h"

namespace trireme {
namespace {

using How = RegionLink::How;

// ---- forward

void check_condition(const KernelSite& site, std::string_view slot) {
  if (site.count(slot) == 0) {
    throw site.error(cat(slot, " is missing")).fix("give the block a condition");
  }
  const ValueInfo& condition = site.in(slot);
  if (condition.dtype != DType::boolean) {
    throw site.error(cat(slot, " is ", name_of(condition.dtype), ", not bool"))
        .fix("compare two values to get a bool");
  }
}

// The one bool that decides. A block inside the loop may give the variable another shape.
bool decides(const KernelArgs& k, int at) {
  const Tensor& condition = k.in(at);
  if (condition.dtype() != DType::boolean || condition.numel() != 1) {
    throw Error(cat("the condition is ", condition.describe(), ", not one bool"))
        .fix("reduce it to one element, for instance with reduce_all");
  }
  return *condition.data<bool>();
}

// Where the iterations of this run leave what the gradient reads.
StepScopes* restarted(const KernelArgs& k, int at) {
  if (at < 0) return nullptr;
  StepScopes& steps = reused_host<StepScopes>(*k.outs[at]);
  steps.restart();
  return &steps;
}

KernelFn conditional_block(const KernelSite& site) {
  const int first = site.position("Cond");
  const int count = static_cast<int>(site.count("Cond"));
  const bool scalar = site.attr<bool>("is_scalar_condition");
  if (count == 0) throw site.error("Cond is missing").fix("give the block a condition");
  if (scalar) check_condition(site, "Cond");
  return [=, steps_at = site.out_position("Scope")](const KernelArgs& k) {
    bool runs = true;
    for (int i = first; i < first + count; ++i) {
      runs = runs && (scalar ? decides(k, i) : k.in(i).numel() > 0);
    }
    StepScopes* steps = restarted(k, steps_at);
    if (runs) k.run->run_region(0, steps);
  };
}

KernelFn while_loop(const KernelSite& site) {
  check_condition(site, "Condition");
  return [condition = site.position("Condition"), steps_at = site.out_position("StepScopes"),
          keeps = !site.attr<bool>("is_test")](const KernelArgs& k) {
    StepScopes* steps = keeps ? restarted(k, steps_at) : nullptr;
    while (decides(k, condition)) k.run->run_region(0, steps);
    if (steps_at >= 0 && !keeps) k.outs[steps_at]->set_host(nullptr);
  };
}

KernelFn recurrent(const KernelSite& site) {
  const int first = site.position("inputs"), count = static_cast<int>(site.count("inputs"));
  const bool reverse = site.attr<bool>("reverse");
  if (count == 0) {
    throw site.error("inputs is empty").fix("give the loop a sequence to go through");
  }
  return [=, steps_at = site.out_position("step_scopes")](const KernelArgs& k) {
    const int64_t length = k.in(first).shape().at(0);
    for (int i = 0; i < count; ++i) {
      if (k.in(first + i).shape().rank() < 1 || k.in(first + i).shape().at(0) != length) {
        throw Error(cat("the sequence inputs[", i, "] is ", k.in(first + i).describe(),
                        " but the first one has ", length, " steps"))
            .fix("give sequences of one length");
      }
    }
    if (length == 0) throw Error("the sequences have no steps").fix("give at least one step");
    StepScopes* steps = restarted(k, steps_at);
    k.run->begin_iterations(0, length);
    for (int64_t t = 0; t < length; ++t) {
      k.run->run_iteration(0, {.row = reverse ? length - 1 - t : t, .keep = steps});
    }
    k.run->end_iterations(0);
  };
}

std::vector<RegionLink> recurrent_links(const Op& op) {
  std::vector<RegionLink> links;
  for (const std::string& name : op.input("inputs")) {
    links.push_back({.how = How::slice, .entry = name, .from = name});
  }
  const auto before = op.attr_or<std::vector<std::string>>("ex_states", {});
  const auto after = op.attr_or<std::vector<std::string>>("states", {});
  const auto& initial = op.input("initial_states");
  if (before.size() != after.size() || before.size() != initial.size()) {
    throw Error(cat("there are ", before.size(), " ex_states, ", after.size(), " states and ",
                    initial.size(), " initial_states"))
        .fix("give every state its variable before and after a step and its first value");
  }
  for (size_t i = 0; i < before.size(); ++i) {
    links.push_back({.how = How::carry, .entry = before[i], .last = after[i], .from = initial[i]});
  }
  for (const std::string& name : op.output("outputs")) {
    links.push_back({.how = How::stack, .last = name, .to = name});
  }
  return links;
}

// ---- borders

using Names = std::vector<std::string>;

Border conditional_border(const Op& op) {
  return {.outs = "Out",
          .inputs = {{"Input", op.input("Input"), op.input("Input")}},
          .condition = "Cond"};
}

Border while_border(const Op& op) {
  const Names& read = op.input("X");
  Border border{.outs = "Out",
                .inputs = {{"X", read, read}},
                .arriving_attr = "original_output_grad",
                .unread = {"Condition"}};
  for (const std::string& name : op.output("Out")) {
    const bool handed = std::find(read.begin(), read.end(), name) != read.end();
    if (handed) border.handed.push_back({name, name});
  }
  return border;
}

Border recurrent_border(const Op& op) {
  const Names before = op.attr_or<Names>("ex_states", {}), after = op.attr_or<Names>("states", {});
  Border border{.outs = "outputs",
                .inputs = {{"inputs", op.input("inputs"), op.input("inputs")},
                           {"initial_states", op.input("initial_states"), before},
                           {"parameters", op.input("parameters"), op.input("parameters")}}};
  const auto name_at = [](const Names& names, size_t i) {
    return i < names.size() ? names[i] : std::string();
  };
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    border.handed.push_back({name_at(after, i), name_at(before, i)});
  }
  return border;
}

// ---- gradients

// Runs the gradient block over the forward iterations, last to first.
KernelFn iterations_back(const KernelSite& site, const char* scopes, bool reverse) {
  return [at = site.position(scopes), reverse](const KernelArgs& k) {
    const auto steps = at < 0 ? nullptr : k.ins[at]->host<StepScopes>();
    if (!steps) {
      throw Error(ErrorKind::precondition, "the forward op has kept nothing for its gradient")
          .fix("build the loop with is_test=False");
    }
    const auto length = static_cast<int64_t>(steps->size());
    k.run->begin_iterations(0, length);
    for (int64_t t = length; t-- > 0;) {
      k.run->run_iteration(
          0, {.row = reverse ? length - 1 - t : t, .load = &(*steps)[static_cast<size_t>(t)]});
    }
    k.run->end_iterations(0);
  };
}

bool is_array(const Op& op, const std::string& name) {
  const Var* var = op.block().find_var_recursive(name);
  return var && var->type() == VarType::lod_tensor_array;
}

// Gradients of what the block changes go from iteration to iteration: `arriving` names them inside,
// `from` outside. Those of what it only reads add up.
std::vector<RegionLink> gradient_links(const Op& op, const std::string& slot,
                                       const std::vector<std::string>& arriving,
                                       const std::vector<std::string>& from,
                                       const std::vector<std::string>& written) {
  std::vector<RegionLink> links;
  const auto& inputs = op.input(slot);
  const auto& results = op.output(grad_name(slot));
  const auto result_of = [&](const std::string& gradient) -> std::string {
    for (size_t i = 0; i < inputs.size() && i < results.size(); ++i) {
      if (grad_name(inputs[i]) == gradient && results[i] != kEmptyVar) return results[i];
    }
    return {};
  };
  // An array that iterations write: each takes and adds elements of its gradient, which is made as
  // long as the array where nothing arrives.
  const auto handed_on = [&](const std::string& name) {
    return is_array(op, name) && std::find(written.begin(), written.end(), name) != written.end();
  };
  const auto array_of = [&](const std::string& gradient) -> std::string {
    for (const std::string& name : inputs) {
      if (grad_name(name) == gradient && handed_on(name)) return name;
    }
    return {};
  };
  for (size_t i = 0; i < arriving.size() && i < from.size(); ++i) {
    if (from[i] == kEmptyVar) continue;
    const std::string array = array_of(arriving[i]);
    std::string to = result_of(arriving[i]);
    // Where nobody wants it, what arrived is changed: its elements keep their memory for the next
    // step.
    if (to.empty() && !array.empty()) to = from[i];
    links.push_back({.how = How::carry,
                     .entry = arriving[i],
                     .last = arriving[i],
                     .from = from[i],
                     .to = std::move(to),
                     .like = array});
  }
  for (size_t i = 0; i < inputs.size() && i < results.size(); ++i) {
    const std::string gradient = grad_name(inputs[i]);
    const bool linked = std::any_of(links.begin(), links.end(),
                                    [&](const RegionLink& link) { return link.entry == gradient; });
    if (linked || results[i] == kEmptyVar) continue;
    const bool carried = handed_on(inputs[i]);
    RegionLink link{.how = carried ? How::carry : How::sum,
                    .last = gradient,
                    .to = results[i],
                    .like = inputs[i]};
    if (carried) link.entry = gradient;
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<RegionLink> while_grad_links(const Op& op) {
  return gradient_links(op, "X", op.attr_or<std::vector<std::string>>("original_output_grad", {}),
                        op.input("Out@GRAD"), op.input("Out"));
}

std::vector<RegionLink> conditional_grad_links(const Op& op) {
  std::vector<std::string> arriving;
  for (const std::string& name : op.input("Out")) arriving.push_back(grad_name(name));
  return gradient_links(op, "Input", arriving, op.input("Out@GRAD"), op.input("Out"));
}

std::vector<RegionLink> recurrent_grad_links(const Op& op) {
  std::vector<RegionLink> links;
  const auto& outputs = op.input("outputs");
  const auto& arriving = op.input("outputs@GRAD");
  for (size_t i = 0; i < outputs.size() && i < arriving.size(); ++i) {
    if (arriving[i] == kEmptyVar) continue;
    links.push_back({.how = How::slice, .entry = grad_name(outputs[i]), .from = arriving[i]});
  }
  const auto before = op.attr_or<std::vector<std::string>>("ex_states", {});
  const auto after = op.attr_or<std::vector<std::string>>("states", {});
  const auto& initial = op.input("initial_states");
  const auto& initial_grads = op.output("initial_states@GRAD");
  for (size_t i = 0; i < before.size() && i < after.size() && i < initial.size(); ++i) {
    const bool wanted = i < initial_grads.size() && initial_grads[i] != kEmptyVar;
    links.push_back({.how = How::carry,
                     .entry = grad_name(after[i]),
                     .last = grad_name(before[i]),
                     .to = wanted ? initial_grads[i] : std::string(),
                     .like = initial[i]});
  }
  const auto each = [&](const char* slot, How how) {
    const auto& names = op.input(slot);
    const auto& results = op.output(grad_name(slot));
    for (size_t i = 0; i < names.size() && i < results.size(); ++i) {
      if (results[i] == kEmptyVar) continue;
      links.push_back(
          {.how = how, .last = grad_name(names[i]), .to = results[i], .like = names[i]});
    }
  };
  each("inputs", How::stack);
  each("parameters", How::sum);
  return links;
}

constexpr const char* kKept = "kept for files; not used";

void register_conditional_block(Registry& ops) {
  ops.op("conditional_block")
      .doc(
          "Runs its sub-block when the condition holds. Variables of outer blocks that the "
          "sub-block writes keep their old value otherwise.")
      .in_optional_list(
          "Cond", "one bool, or with is_scalar_condition=False tensors that must not be empty")
      .in_optional_list("Input", "outer variables the sub-block reads")
      .out_optional_list("Out", "outer variables the sub-block writes")
      .out_optional("Scope", "what the gradient reads")
      .required_attr<BlockRef>("sub_block", "the block to run")
      .attr("is_scalar_condition", false, "Cond is one bool")
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, kKept)
      .grad({"Cond", "Input", "Out", "Scope"})
      .no_grad({"Cond"})
      .traits({.host = true, .no_inference = true, .once = true, .decides = {"Cond"}})
      .border(conditional_border)
      .kernel(untyped(conditional_block));
  ops.op("conditional_block_grad")
      .doc("The gradient of conditional_block: zero where the block did not run.")
      .in_optional_list("Cond", "the condition")
      .in_optional_list("Input", "outer variables the sub-block reads")
      .in_optional_list("Out", "outer variables the sub-block writes")
      .in_optional_list("Out@GRAD", "their gradients")
      .in_optional("Scope", "what the forward op kept")
      .out_optional_list("Input@GRAD", "gradients of Input")
      .required_attr<BlockRef>("sub_block", "the gradient block")
      .attr("is_scalar_condition", false, "Cond is one bool")
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, kKept)
      .traits(
          {.host = true, .no_inference = true, .once = true, .decides = {"Cond"}, .linear = true})
      .region(conditional_grad_links)
      .kernel(
          untyped([](const KernelSite& site) { return iterations_back(site, "Scope", false); }));
}

void register_while(Registry& ops) {
  ops.op("while")
      .doc(
          "Runs its sub-block as long as Condition holds. Outer variables that the sub-block "
          "writes, Condition among them, are seen by the next iteration.")
      .in_optional_list("X", "outer variables the sub-block reads or writes")
      .in_list("Condition", "one bool, looked at before each iteration")
      .out_optional_list("Out", "outer variables the sub-block writes")
      .out_optional("StepScopes", "what the gradient reads")
      .required_attr<BlockRef>("sub_block", "the block to run")
      .attr("is_test", false, "nothing is kept for a gradient")
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, kKept)
      .grad({"X", "Out", "StepScopes"})
      .no_grad({"Condition"})
      .traits({.host = true, .no_inference = true, .decides = {"Condition"}})
      .border(while_border)
      .kernel(untyped(while_loop));
  ops.op("while_grad")
      .doc(
          "The gradient of while. Gradients of variables that the loop changes go from "
          "iteration to iteration, last to first; those of variables that it only reads add up in "
          "that order.")
      .in_optional_list("X", "outer variables the sub-block reads or writes")
      .in_optional_list("Out", "outer variables the sub-block writes")
      .in_optional("StepScopes", "what the forward op kept")
      .in_optional_list("Out@GRAD", "gradients of Out, as many as arrive")
      .out_optional_list("X@GRAD", "gradients of X")
      .required_attr<BlockRef>("sub_block", "the gradient block")
      .attr("original_output_grad", std::vector<std::string>{},
            "the names of Out@GRAD inside the gradient block")
      .attr("is_test", false, "as in the forward op")
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, kKept)
      .traits({.host = true, .no_inference = true, .linear = true})
      .region(while_grad_links)
      .kernel(untyped(
          [](const KernelSite& site) { return iterations_back(site, "StepScopes", false); }));
}

OpSchema& recurrent_attrs(OpSchema& row) {
  return row.attr("has_states", false, "there are states")
      .attr("ex_states", std::vector<std::string>{}, "states as a step begins, inside")
      .attr("states", std::vector<std::string>{}, "states as a step ends, inside")
      .required_attr<BlockRef>("sub_block", "one step")
      .attr("reverse", false, "go from the last step to the first")
      .attr("is_train", true, kKept)
      .attr("skip_eager_deletion_vars", std::vector<std::string>{}, kKept);
}

void register_recurrent(Registry& ops) {
  recurrent_attrs(
      ops.op("recurrent")
          .doc("Runs its sub-block once per row of the inputs. Inside, inputs and outputs have the "
               "names they have outside; each state begins as its initial value and is handed on.")
          .in_optional_list("inputs", "sequences [T, ...]: a step sees one row of each")
          .in_optional_list("initial_states", "what ex_states are in the first step")
          .in_optional_list("parameters", "outer variables the sub-block reads")
          .out_optional_list("outputs", "sequences [T, ...] of what the steps give")
          .out_optional("step_scopes", "what the gradient reads"))
      .grad({"inputs", "initial_states", "parameters", "outputs", "step_scopes"})
      .traits({.host = true, .no_inference = true})
      .region(recurrent_links)
      .border(recurrent_border)
      .kernel(untyped(recurrent));
  recurrent_attrs(ops.op("recurrent_grad")
                      .doc("The gradient of recurrent: the same steps, last to first.")
                      .in_optional_list("inputs", "as in the forward op")
                      .in_optional_list("initial_states", "as in the forward op")
                      .in_optional_list("parameters", "as in the forward op")
                      .in_optional_list("outputs", "as in the forward op")
                      .in_optional_list("outputs@GRAD", "gradients of outputs")
                      .in_optional("step_scopes", "what the forward op kept")
                      .out_optional_list("inputs@GRAD", "gradients of inputs")
                      .out_optional_list("initial_states@GRAD", "gradients of initial_states")
                      .out_optional_list("parameters@GRAD", "gradients of parameters"))
      .traits({.host = true, .no_inference = true, .linear = true})
      .region(recurrent_grad_links)
      .kernel(untyped([](const KernelSite& site) {
        return iterations_back(site, "step_scopes", site.attr<bool>("reverse"));
      }));
}

}  // namespace

void register_sub_block(Registry& ops) {
  register_conditional_block(ops);
  register_while(ops);
  register_recurrent(ops);
}

}  // namespace trireme
