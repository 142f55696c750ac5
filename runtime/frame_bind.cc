// Binding: what a frame decides when shapes, or the variables of a scope, are new to it.
#include "compile/memory_plan.h"
#include "compile/views.h"
#include "core/text.h"
#include "runtime/frame.h"
#include "runtime/half.h"

namespace trireme {
namespace {

// What can be read off a variable. The name and compile-time kind stay.
void take_facts(const Variable& variable, ValueInfo& info) {
  switch (variable.kind()) {
    case Kind::dense: {
      const Tensor& tensor = variable.tensor();
      info.type = VarType::lod_tensor;
      info.dtype = tensor.dtype();
      info.shape = tensor.shape();
      info.lod = tensor.lod();
      info.lod_level = static_cast<int>(tensor.lod().size());
      break;
    }
    case Kind::rows:
      info.type = VarType::selected_rows;
      info.dtype = variable.rows().value.dtype();
      info.shape = variable.rows().value.shape();
      info.height = variable.rows().height;
      break;
    case Kind::array:
      info.type = VarType::lod_tensor_array;
      break;
    case Kind::none:
    case Kind::host:
      break;
  }
}

bool same_facts(const Variable& variable, const ValueInfo& info) {
  switch (variable.kind()) {
    case Kind::dense:
      return info.type == VarType::lod_tensor && variable.tensor().dtype() == info.dtype &&
             variable.tensor().shape() == info.shape && variable.tensor().lod() == info.lod;
    case Kind::rows:
      return info.type == VarType::selected_rows && variable.rows().value.dtype() == info.dtype &&
             variable.rows().value.shape() == info.shape && variable.rows().height == info.height;
    default:
      return true;
  }
}

size_t byte_count(const ValueInfo& info) {
  return info.shape.known() ? static_cast<size_t>(info.shape.count()) * size_of(info.dtype) : 0;
}

}  // namespace

void Frame::bind_slots(Scope& scope) {
  scope_ = &scope;
  if (bound_scope_id_ == scope.id() && bound_epoch_ == scope.epoch()) return;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::state) continue;
    const std::string& name = plan_.graph.states[plan_.slots[s].index].name;
    Variable* variable = nullptr;
    if (local_states_) {
      if (const auto it = local_states_->find(name); it != local_states_->end())
        variable = &it->second;
    }
    if (!variable) variable = scope.find(name);
    if (!variable) {
      Scope* root = &scope;
      while (root->parent()) root = root->parent();
      variable = &root->var(name);
    }
    slots_[s] = variable;
  }
  bound_scope_id_ = scope.id();
  bound_epoch_ = scope.epoch();
  forget_bindings();
}

bool Frame::entry_facts_changed() {
  bool changed = false;
  const auto compare = [&](int value) {
    const Variable& variable = at(value);
    if (same_facts(variable, facts_[value])) return;
    take_facts(variable, facts_[value]);
    changed = true;
  };
  for (const auto& feed : plan_.graph.feeds) compare(feed.value);
  for (size_t s = 0; s < plan_.graph.states.size(); ++s) {
    const auto& state = plan_.graph.states[s];
    if (state.entry < 0) continue;
    if (plan_.state_must_exist[s] && !at(state.entry).initialized()) {
      throw Error(ErrorKind::precondition,
                  cat("variable ", state.name, " holds no value in this scope"))
          .fix("run the startup program first (exe.run(startup_program)), or load the variable");
    }
    compare(state.entry);
  }
  for (int value : plan_.graph.given) compare(value);
  for (size_t value = 0; value < plan_.graph.values.size(); ++value) {
    const int slot = plan_.slot_of[value];
    if (plan_.graph.values[value].node >= 0 || slot < 0) continue;
    if (plan_.slots[slot].kind == SlotKind::outer) compare(static_cast<int>(value));
  }
  return changed;
}

void Frame::bind(Scope& scope, const RunSettings& settings) {
  begin(scope, settings);
  if (!plan_.segments.empty() && plan_.segments[0].reads_values.empty() && !segment_bound_[0]) {
    settle_segment(0);
  }
}

bool Frame::known_before_run(int value) const {
  if (!facts_[value].shape.known()) return false;
  const int node = plan_.graph.values[value].node;
  if (node < 0) return true;  // fed, or a state
  if (!segment_bound_[0] || !plan_.segments[0].reads_values.empty()) return false;
  for (int i = plan_.segments[0].begin; i < plan_.segments[0].end; ++i) {
    if (plan_.instructions[i].node == node) return !plan_.instructions[i].late;
  }
  return false;
}

// Binds it where it is not bound, or where values that decide its shapes have changed.
void Frame::enter_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  if (!segment.checks.empty()) check_held(segment);
  if (segment_bound_[index] && same_values(segment.reads_values, present_[index])) return;
  settle_segment(index);
  for (size_t later = index + 1; later < segment_bound_.size(); ++later)
    segment_bound_[later] = false;
}

void Frame::leave_segment(size_t index) {
  const Instruction& last = plan_.instructions[plan_.segments[index].end - 1];
  if (!last.late) return;
  if (late_facts_changed(last)) {
    for (size_t later = index + 1; later < segment_bound_.size(); ++later)
      segment_bound_[later] = false;
  }
  rebind_reshaped(last);
}

void Frame::check_held(const Segment& segment) {
  for (const Segment::Check& check : segment.checks) {
    if (at(check.value).initialized()) continue;
    Error error(ErrorKind::precondition,
                cat("it reads ", facts_[check.value].name,
                    ", which holds nothing: the block that writes it did not run"));
    error.fix(cat("give ", facts_[check.value].name, " a value before that block"));
    const Node& node = plan_.graph.nodes[plan_.instructions[check.instruction].node];
    const auto reader = std::find_if(node.members.begin(), node.members.end(), [&](const Node& m) {
      return std::find(m.ins.begin(), m.ins.end(), check.value) != m.ins.end();
    });
    throw add_node_context(error, reader == node.members.end() ? node : *reader, fact_pointers_);
  }
}

void Frame::bind_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  begin_binding(index);
  const auto explained = [&](int i, auto step) {
    try {
      step();
    } catch (Error& e) {
      throw add_node_context(e, plan_.graph.nodes[plan_.instructions[i].node], fact_pointers_);
    }
  };
  for (int i = segment.begin; i < segment.end; ++i) explained(i, [&] { infer_instruction(i); });
  place_segment(index);
  for (int i = segment.begin; i < segment.end; ++i) explained(i, [&] { bind_instruction(i); });
  end_binding(index);
}

void Frame::infer_instruction(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  if (instruction.late) return;
  infer_whole(node);
}

// A fused node part by part, a group member by member.
void Frame::infer_whole(const Node& node) {
  for (const auto* inner : {&node.parts, &node.members}) {
    for (const Node& part : *inner) {
      try {
        infer_whole(part);
      } catch (Error& e) {
        throw add_node_context(e, part, fact_pointers_);
      }
    }
  }
  if (node.schema->shape_rule()) infer_node(node);
}

void Frame::infer_node(const Node& node) {
  OpView view = view_of(node, fact_pointers_);
  for (size_t i = 0; i < view.out_size(); ++i) {
    if (ValueInfo* info = view.out_at(i)) {
      info->lod.clear();
      info->lod_level = 0;
    }
  }
  node.schema->shape_rule()(view);
  for (int value : node.outs) {
    if (value < 0 || facts_[value].type == VarType::lod_tensor_array) continue;
    if (!facts_[value].shape.known()) {
      throw InternalError(cat("the shape rule of ", node.schema->type(), " leaves ",
                              facts_[value].shape.to_string(),
                              " unknown when all operands are known"));
    }
  }
}

// Gives every value that lives within the segment its place in the arena.
void Frame::place_segment(size_t index) {
  std::vector<int> slots;
  std::vector<Interval> intervals;
  std::vector<size_t> bytes(plan_.slots.size(), 0);
  const Segment& segment = plan_.segments[index];
  for (int i = segment.begin; i < segment.end; ++i) {
    for (int value : plan_.graph.nodes[plan_.instructions[i].node].outs) {
      if (value < 0) continue;
      const int slot = plan_.slot_of[value];
      if (plan_.lifetimes[slot].segment != static_cast<int>(index)) continue;
      const ValueInfo& info = facts_[value];
      const size_t need = static_cast<size_t>(info.shape.count()) * size_of(info.dtype);
      bytes[slot] = std::max(bytes[slot], need);
    }
  }
  const std::vector<int> place = places_in_segment(plan_, static_cast<int>(index), facts_);
  check_places(plan_, static_cast<int>(index), place);
  std::vector<size_t> interval(plan_.slots.size());  // by slot; a view comes after what it views
  for (const bool views : {false, true}) {
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      const Lifetime& life = plan_.lifetimes[s];
      if (life.segment != static_cast<int>(index)) continue;
      if (views != (place[s] != static_cast<int>(s))) continue;
      slots.push_back(static_cast<int>(s));
      if (views) {
        Interval& shared = intervals[interval[s] = interval[static_cast<size_t>(place[s])]];
        shared.last = std::max(shared.last, life.last);
      } else {
        interval[s] = intervals.size();
        intervals.push_back({bytes[s], life.first, life.last});
      }
    }
  }
  if (slots.empty()) return;
  const MemoryPlan memory = plan_memory(intervals);
  check_memory(intervals, memory);
  live_bytes_ = std::max(live_bytes_, memory.live_bytes);
  if (!arena_ || arena_->size() < memory.arena_bytes) {
    arena_ = Buffer::allocate(memory.arena_bytes);
    segment_bound_.assign(segment_bound_.size(), false);  // their values move there, too
  }
  for (int slot : slots) {
    arena_offset_[static_cast<size_t>(slot)] = memory.offsets[interval[static_cast<size_t>(slot)]];
  }
}

void Frame::bind_instruction(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  Bound& bound = bound_[index];
  bound.ins.clear();
  bound.outs.clear();
  bound.chosen.clear();
  for (int value : node.ins) bound.ins.push_back(value < 0 ? nullptr : &at(value));
  for (int value : node.outs) bound.outs.push_back(value < 0 ? nullptr : &at(value));
  prepare_results(index);
  bound.cut = !instruction.late && touched_by(node) >= settings_->cut_bytes;
  bound.kernel = node.members.empty() ? kernel_for(node, instruction.late, bound)
                                      : grouped(members_of(node, bound));
  const auto pair = renamed(node);
  if (pair &&
      at(node.ins[pair->first]).tensor().raw() == at(node.outs[pair->second]).tensor().raw()) {
    bound.kernel = BoundKernel([](const KernelArgs&) {});  // there already
  }
  const size_t scratch = bound.kernel.scratch;
  if (scratch > scratch_bytes()) scratch_ = Buffer::allocate(scratch);
}

size_t Frame::touched_by(const Node& node) const {
  size_t bytes = 0;
  for (const auto* values : {&node.ins, &node.outs}) {
    for (int value : *values) bytes += value < 0 ? 0 : byte_count(facts_[value]);
  }
  return bytes;
}

// The first kernel that takes the operands; its name goes to the bound instruction.
BoundKernel Frame::kernel_for(const Node& node, bool late, Bound& bound) {
  const OpView view = view_of(node, fact_pointers_);
  std::vector<std::string> refusals;
  for (const Kernel& kernel : node.schema->kernels()) {
    if (kernel.device != Device::cpu) continue;
    std::string why_not;
    if (std::optional<BoundKernel> made = kernel.make(view, &why_not)) {
      bound.chosen.push_back(&kernel);
      return std::move(*made);
    }
    refusals.push_back(cat(kernel.name, ": ", why_not));
  }
  if (!late) {
    if (std::optional<BoundKernel> made = bind_in_float(node, fact_pointers_, refusals)) {
      return std::move(*made);
    }
  }
  for (int value : node.ins) {
    if (value < 0 || facts_[value].type != VarType::selected_rows) continue;
    throw Error(cat(facts_[value].name, " holds selected rows, but this op takes tensors"))
        .fix(
            "build the embedding with is_sparse=False, or convert its gradient first with "
            "get_tensor_from_selected_rows");
  }
  throw Error(ErrorKind::unimplemented,
              cat("no kernel takes these operands (", join(refusals, "; "), ")"))
      .fix("cast the operands to float32");
}

std::vector<GroupMember> Frame::members_of(const Node& group, Bound& bound) {
  std::vector<GroupMember> members;
  for (const Node& node : group.members) {
    GroupMember& member = members.emplace_back();
    member.explain = [this, &node](Error& e) { add_node_context(e, node, fact_pointers_); };
    try {
      member.kernel = kernel_for(node, false, bound);
    } catch (Error& e) {
      member.explain(e);
      throw;
    }
    for (int value : node.ins) member.ins.push_back(value < 0 ? nullptr : &at(value));
    for (int value : node.outs) member.outs.push_back(value < 0 ? nullptr : &at(value));
    member.bytes = touched_by(node);
    member.cut = member.bytes >= settings_->cut_bytes;
  }
  return members;
}

void Frame::prepare_results(int index) {
  if (plan_.instructions[index].late) return;
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    if (value < 0) continue;
    bool shared = false;
    for (int in : node.ins) shared |= in >= 0 && plan_.slot_of[in] == plan_.slot_of[value];
    prepare(value, shared);
  }
}

void Frame::prepare(int value, bool shared) {
  Variable& variable = at(value);
  const ValueInfo& info = facts_[value];
  if (info.type == VarType::selected_rows) {
    if (variable.kind() != Kind::rows) variable.clear();
    SelectedRows& rows = variable.rows();
    rows.value.resize(info.dtype, info.shape);
    rows.rows.resize(static_cast<size_t>(info.shape.at(0)));
    rows.height = info.height;
    return;
  }
  if (info.type != VarType::lod_tensor) return;
  if (variable.kind() != Kind::dense) variable.clear();
  Tensor& tensor = variable.tensor();
  const int slot = plan_.slot_of[value];
  if (plan_.lifetimes[slot].segment >= 0) {
    Lod lod = std::move(tensor.mutable_lod());  // for its memory
    lod = info.lod;
    tensor = Tensor(info.dtype, info.shape, arena_, arena_offset_[slot]);
    tensor.set_lod(std::move(lod));
    return;
  }
  const bool fits =
      tensor.initialized() && tensor.dtype() == info.dtype && tensor.shape() == info.shape;
  if (!fits) {
    if (shared) {
      throw Error(cat("it writes ", info.name, " in place, but the result is ", name_of(info.dtype),
                      " ", info.shape.to_string(), " and the variable is ", tensor.describe()))
          .fix("give the result a variable of its own");
    }
    tensor.resize(info.dtype, info.shape);
  }
  if (tensor.lod() != info.lod) tensor.mutable_lod() = info.lod;
}

bool Frame::late_facts_changed(const Instruction& instruction) {
  bool changed = false;
  for (int value : plan_.graph.nodes[instruction.node].outs) {
    if (value < 0 || same_facts(at(value), facts_[value])) continue;
    take_facts(at(value), facts_[value]);
    changed = true;
  }
  return changed;
}

// A sub-block may leave another shape in a slot than the value it found there had. Whoever writes
// that value in the next run or pass prepares the slot again.
void Frame::rebind_reshaped(const Instruction& instruction) {
  const Node& node = plan_.graph.nodes[instruction.node];
  for (const auto& [in, out] : node.shared) {
    const int writer = plan_.graph.values[node.ins[in]].node;
    if (writer < 0 || same_facts(at(node.outs[out]), facts_[node.ins[in]])) continue;
    for (size_t s = 0; s < plan_.segments.size(); ++s) {
      const Segment& segment = plan_.segments[s];
      if (writer >= segment.begin && writer < segment.end) segment_bound_[s] = false;
    }
  }
}

}  // namespace trireme
