// Facts of segments, remembered or inferred, and the kernels chosen for them.
#include "runtime/binding.h"

#include <algorithm>

#include "core/text.h"
#include "ir/device_kernels.h"
#include "runtime/device_queues.h"
#include "runtime/facts.h"
#include "runtime/group.h"
#include "runtime/half.h"

namespace trireme {
namespace {

// Short segments, as the bodies of loops are, meet many shapes: sequences end one by one. Long ones
// hold much for each.
constexpr size_t kMostBindings = 64, kFewestBindings = 4, kInstructionsRemembered = 8192;

size_t most_bindings(const Segment& segment) {
  return std::clamp(kInstructionsRemembered / static_cast<size_t>(segment.end - segment.begin),
                    kFewestBindings, kMostBindings);
}

// A table that parameter servers hold has a shape here and no memory. Only ops that ask servers,
// and gradients of look-ups, make do with that.
bool by_shape_alone(const Graph& graph, int value, const Variable& variable) {
  if (variable.kind() != Kind::dense || variable.tensor().shape().rank() == 0) return false;
  return std::ranges::all_of(graph.nodes, [value](const Node& node) {
    const OpTraits& trait = node.schema->trait();
    return std::ranges::find(node.ins, value) == node.ins.end() || trait.linear ||
           (trait.host && trait.no_inference);
  });
}

// Whether the contents are those that `seen` is a copy of.
bool same_contents(const Tensor& seen, const Variable& variable) {
  if (variable.kind() == Kind::rows) {
    const RowNumbers& rows = variable.rows().rows;
    return seen.dtype() == DType::int64 && seen.numel() == static_cast<int64_t>(rows.size()) &&
           std::equal(rows.begin(), rows.end(), seen.data<int64_t>());
  }
  const Tensor& tensor = variable.tensor();
  return seen.dtype() == tensor.dtype() && seen.shape() == tensor.shape() && seen.initialized() &&
         tensor.initialized() && std::ranges::equal(seen.bytes(), tensor.bytes());
}

// What shapes may be made from: a tensor's elements, or which rows SelectedRows names.
Tensor copy_of_contents(const Variable& variable) {
  if (variable.kind() != Kind::rows) return variable.tensor().clone();
  const RowNumbers& rows = variable.rows().rows;
  return make_tensor<int64_t>({static_cast<int64_t>(rows.size())}, rows);
}

}  // namespace

Binding::Binding(const Plan& plan, SlotVariables& slots, Device* device)
    : plan_(plan),
      slots_(slots),
      device_(device),
      segments_(plan.segments.size()),
      bound_(plan.instructions.size()),
      is_bound_(plan.segments.size(), false),
      present_(plan.segments.size()),
      remembered_(plan.segments.size()) {
  for (const Value& value : plan.graph.values) facts_.push_back(value.info);
  for (ValueInfo& info : facts_) fact_pointers_.push_back(&info);
  for (size_t value = 0; value < plan.graph.values.size(); ++value) {
    const int slot = plan.slot_of[value];
    if (plan.graph.values[value].node >= 0 || slot < 0) continue;
    if (plan.slots[slot].kind == SlotKind::outer) outer_values_.push_back(static_cast<int>(value));
  }
}

void Binding::leave_out_by_first() {
  while (segments_ > 0 && plan_.segments[segments_ - 1].by_first) --segments_;
}

void Binding::add_region(Binding& inner, const Plan::RegionPlan& region) {
  inner.as_region_ = &region;
  regions_.push_back(&inner);
}

bool Binding::take_entries() {
  bool changed = false;
  const auto take = [&](int value) {
    const Variable& variable = slots_.of(value);
    if (same_facts(variable, facts_[value])) return;
    take_facts(variable, facts_[value]);
    changed = true;
  };
  for (const auto& feed : plan_.graph.feeds) take(feed.value);
  for (size_t s = 0; s < plan_.graph.states.size(); ++s) {
    const auto& state = plan_.graph.states[s];
    if (state.entry < 0) continue;
    if (plan_.state_must_exist[s] && !slots_.of(state.entry).initialized() &&
        !by_shape_alone(plan_.graph, state.entry, slots_.of(state.entry))) {
      throw Error(ErrorKind::precondition,
                  cat("variable ", state.name, " holds no value in this scope"))
          .fix("run the startup program first (exe.run(startup_program)), or load the variable");
    }
    take(state.entry);
  }
  for (int value : plan_.graph.given) take(value);
  for (int value : outer_values_) take(value);
  return changed;
}

bool Binding::same_values(size_t segment, const Bound& bound) const {
  const std::vector<int>& values = plan_.segments[segment].reads_values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!same_contents(bound.contents[i], slots_.of(values[i]))) return false;
  }
  return true;
}

bool Binding::is_bound(size_t segment) const {
  return is_bound_[segment] && same_values(segment, present_[segment]);
}

bool Binding::fits(size_t segment, const Bound& bound) const {
  if (bound.number == 0) return false;
  const std::vector<int>& entries = plan_.segments[segment].entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!same_facts(bound.entries[i], facts_[entries[i]])) return false;
  }
  return same_values(segment, bound);
}

Problem Binding::settle_facts(size_t segment) {
  if (fits(segment, present_[segment])) return std::nullopt;
  auto& others = remembered_[segment];
  const auto found = std::find_if(others.begin(), others.end(),
                                  [&](const Bound& other) { return fits(segment, other); });
  if (found == others.end()) {
    begin(segment);
    if (Problem problem = infer_segment(segment)) return problem;
    present_[segment].number = ++last_number_;
    return std::nullopt;
  }
  exchange_parts(segment, present_[segment]);
  std::swap(present_[segment], *found);
  exchange_parts(segment, present_[segment]);
  std::rotate(others.begin(), found, found + 1);
  return std::nullopt;
}

// Between this binding and a remembered one: the parts are in one of the two.
void Binding::exchange_parts(size_t index, Bound& bound) {
  const Segment& segment = plan_.segments[index];
  for (size_t i = 0; i < segment.inferred.size(); ++i) {
    std::swap(facts_[segment.inferred[i]], bound.inferred[i]);
  }
  for (int i = segment.begin; i < segment.end; ++i) {
    std::swap(bound_[i], bound.instructions[static_cast<size_t>(i - segment.begin)]);
  }
}

// The present one is remembered; the parts of a new one are as the plan has them.
void Binding::begin(size_t index) {
  const Segment& segment = plan_.segments[index];
  Bound& present = present_[index];
  if (present.number > 0) {
    exchange_parts(index, present);
    auto& others = remembered_[index];
    if (others.size() == most_bindings(segment)) others.pop_back();
    others.insert(others.begin(), std::move(present));
  }
  present = Bound{};
  present.inferred.resize(segment.inferred.size());
  present.instructions.resize(static_cast<size_t>(segment.end - segment.begin));
  for (int value : segment.inferred) facts_[value] = plan_.graph.values[value].info;
  for (int value : segment.reads_values) {
    present.contents.push_back(copy_of_contents(slots_.of(value)));
    facts_[value].value = &slots_.of(value);
  }
  for (int value : segment.entries) present.entries.push_back(facts_[value]);
}

Problem Binding::in_context(Problem problem, const Node& node) const {
  if (problem) add_node_context(*problem, node, fact_pointers_);
  return problem;
}

Problem Binding::infer_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  for (int i = segment.begin; i < segment.end; ++i) {
    if (plan_.instructions[i].late) continue;
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    if (Problem problem = infer_whole(node)) return in_context(std::move(problem), node);
  }
  return std::nullopt;
}

// A fused node part by part, a group member by member.
Problem Binding::infer_whole(const Node& node) {
  for (const auto* inner : {&node.parts, &node.members}) {
    for (const Node& part : *inner) {
      if (Problem problem = infer_whole(part)) return in_context(std::move(problem), part);
    }
  }
  return node.schema->shape_rule() ? infer_node(node) : std::nullopt;
}

Problem Binding::infer_node(const Node& node) {
  OpView view = view_of(node, fact_pointers_);
  for (size_t i = 0; i < view.out_size(); ++i) {
    if (ValueInfo* info = view.out_at(i)) {
      info->lod.clear();
      info->lod_level = 0;
    }
  }
  Problem problem = problem_of_row([&] { node.schema->shape_rule()(view); });
  if (problem) return problem;
  for (int value : node.outs) {
    if (value < 0 || facts_[value].type == VarType::lod_tensor_array) continue;
    if (!facts_[value].shape.known()) {
      return InternalError(cat("the shape rule of ", node.schema->type(), " leaves ",
                               facts_[value].shape.to_string(),
                               " unknown when all operands are known"));
    }
  }
  return std::nullopt;
}

Problem Binding::choose_kernel(int index, size_t cut_bytes) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  BoundInstruction& bound = bound_[index];
  bound.ins.clear();
  bound.outs.clear();
  bound.chosen.clear();
  for (int value : node.ins) bound.ins.push_back(value < 0 ? nullptr : &slots_.of(value));
  for (int value : node.outs) bound.outs.push_back(value < 0 ? nullptr : &slots_.of(value));
  bound.cut = !instruction.late && touched_bytes(node) >= cut_bytes;
  Problem problem = node.members.empty() ? kernel_for(node, instruction.late, bound, bound.kernel)
                                         : group_kernel(node, bound, cut_bytes);
  if (!problem) find_kept_scratch(node, bound);
  return problem;
}

// A phase that packs what stays the same in a loop need not run in every iteration.
void Binding::find_kept_scratch(const Node& node, BoundInstruction& bound) const {
  const auto look_at = [&](BoundKernel& phase) {
    if (phase.packs < 0) return;
    const int slot = plan_.slot_of[node.ins[static_cast<size_t>(phase.packs)]];
    const bool stays = !plan_.stays_in_loop.empty() && plan_.stays_in_loop[slot];
    if (!stays) phase.packs = -1;
    bound.keeps_scratch |= stays;
  };
  bound.keeps_scratch = false;
  bound.scratch_offset = 0;
  look_at(bound.kernel);
  for (BoundKernel& phase : bound.kernel.then) look_at(phase);
}

size_t Binding::touched_bytes(const Node& node) const {
  size_t bytes = 0;
  for (const auto* values : {&node.ins, &node.outs}) {
    for (int value : *values) bytes += value < 0 ? 0 : byte_count(facts_[value]);
  }
  return bytes;
}

// The first kernel that takes the operands; its name goes to the bound instruction.
Problem Binding::kernel_for(const Node& node, bool late, BoundInstruction& bound,
                            BoundKernel& made) {
  const OpView view = view_of(node, fact_pointers_);
  if (node.schema->trait().transfer != Transfer::none) {
    made = transfer_kernel(*device_);
    return std::nullopt;
  }
  std::vector<std::string> refusals;
  std::optional<BoundKernel> found;
  const DeviceKind kind = node.on_device ? plan_.target.device : DeviceKind::cpu;
  for (const Kernel& kernel : kernels_for(*node.schema, kind)) {
    std::string why_not;
    Problem problem = problem_of_row([&] { found = kernel.make(view, &why_not); });
    if (problem) return problem;
    if (found) {
      bound.chosen.push_back(&kernel);
      break;
    }
    refusals.push_back(cat(kernel.name, ": ", why_not));
  }
  if (!found && !late) {
    const Place place = node.on_device ? device_->place() : cpu_place();
    Problem problem =
        problem_of_row([&] { found = bind_in_float(node, fact_pointers_, place, refusals); });
    if (problem) return problem;
  }
  if (found) {
    made = std::move(*found);
    return std::nullopt;
  }
  for (int value : node.ins) {
    if (value < 0 || facts_[value].type != VarType::selected_rows) continue;
    return Error(cat(facts_[value].name, " holds selected rows, but this op takes tensors"))
        .fix(
            "build the embedding with is_sparse=False, or convert its gradient first with "
            "get_tensor_from_selected_rows");
  }
  return Error(ErrorKind::unimplemented,
               cat("no kernel takes these operands (", join(refusals, "; "), ")"))
      .fix("cast the operands to float32");
}

Problem Binding::group_kernel(const Node& group, BoundInstruction& bound, size_t cut_bytes) {
  std::vector<GroupMember> members;
  for (const Node& node : group.members) {
    GroupMember& member = members.emplace_back();
    member.explain = [this, &node](Error& e) { add_node_context(e, node, fact_pointers_); };
    if (Problem problem = kernel_for(node, false, bound, member.kernel)) {
      return in_context(std::move(problem), node);
    }
    for (int value : node.ins) member.ins.push_back(value < 0 ? nullptr : &slots_.of(value));
    for (int value : node.outs) member.outs.push_back(value < 0 ? nullptr : &slots_.of(value));
    member.bytes = touched_bytes(node);
    member.cut = member.bytes >= cut_bytes;
  }
  bound.kernel = grouped(std::move(members));
  return std::nullopt;
}

void Binding::mark_bound(size_t segment) {
  if (!present_[segment].has_kernels) ++binds_;
  present_[segment].has_kernels = true;
  is_bound_[segment] = true;
  ++changes_;
}

void Binding::unbind_after(size_t segment) {
  std::fill(is_bound_.begin() + static_cast<std::ptrdiff_t>(segment) + 1, is_bound_.end(), false);
}

void Binding::unbind() {
  is_bound_.assign(is_bound_.size(), false);
  is_ahead_ = false;
}

void Binding::forget() {
  unbind();
  present_.assign(present_.size(), {});
  for (auto& others : remembered_) others.clear();
}

void Binding::take_late_facts(const Instruction& instruction, size_t segment) {
  const Node& node = plan_.graph.nodes[instruction.node];
  bool changed = false;
  for (int value : node.outs) {
    if (value < 0 || same_facts(slots_.of(value), facts_[value])) continue;
    take_facts(slots_.of(value), facts_[value]);
    changed = true;
  }
  if (changed) unbind_after(segment);
  // A sub-block may leave another shape in a slot than the value it found there had. Whoever writes
  // that value in the next run or iteration prepares the slot again.
  for (const auto& [in, out] : node.shared) {
    const int writer = plan_.graph.values[node.ins[in]].node;
    if (writer < 0 || same_facts(slots_.of(node.outs[out]), facts_[node.ins[in]])) continue;
    unbind(static_cast<size_t>(segment_of(writer)));
  }
}

}  // namespace trireme
