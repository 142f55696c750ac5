// Binding: what a frame decides when shapes, or the variables of a scope, are new to it.
#include <algorithm>

#include "compile/memory_plan.h"
#include "compile/views.h"
#include "core/text.h"
#include "ir/device_kernels.h"
#include "runtime/facts.h"
#include "runtime/frame.h"
#include "runtime/half.h"

namespace trireme {

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

bool Frame::known_before_run(int value) const {
  if (!facts_[value].shape.known()) return false;
  const int node = plan_.graph.values[value].node;
  if (node < 0) return true;  // fed, or a state
  if (segment_of(node) >= static_cast<int>(ahead_)) return false;
  return !plan_.instructions[node].late || knows_late(node);
}

// Binds it where it is not bound, or where values that decide its shapes have changed.
void Frame::enter_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  if (!segment.checks.empty()) check_held(segment);
  if (segment_bound_[index] && same_values(segment.reads_values, present_[index])) return;
  settle_facts(index);
  place_late(index);
  settle(index);
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

namespace {

bool same_memory(const Variable& a, const Variable& b) {
  return a.kind() == Kind::dense && b.kind() == Kind::dense && a.initialized() &&
         a.tensor().raw() == b.tensor().raw();
}

}  // namespace

// Facts and places are known: kernels are chosen and results stand in their places.
void Frame::settle(size_t index) {
  const Segment& segment = plan_.segments[index];
  Binding& present = present_[index];
  for (int i = segment.begin; i < segment.end; ++i) {
    try {
      prepare_results(i);
      if (!present.has_kernels) bind_instruction(i);
    } catch (Error& e) {
      throw add_node_context(e, plan_.graph.nodes[plan_.instructions[i].node], fact_pointers_);
    }
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    const auto pair = renamed(node);
    bound_[i].moot = pair && same_memory(at(node.ins[pair->first]), at(node.outs[pair->second]));
  }
  place_kept();
  if (!present.has_kernels) ++binds_;
  present.has_kernels = true;
  segment_bound_[index] = true;
  ++changes_;
}

void Frame::infer_segment(size_t index) {
  const Segment& segment = plan_.segments[index];
  for (int i = segment.begin; i < segment.end; ++i) {
    if (plan_.instructions[i].late) continue;
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    try {
      infer_whole(node);
    } catch (Error& e) {
      throw add_node_context(e, node, fact_pointers_);
    }
  }
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

void Frame::bind_instruction(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  Bound& bound = bound_[index];
  bound.ins.clear();
  bound.outs.clear();
  bound.chosen.clear();
  for (int value : node.ins) bound.ins.push_back(value < 0 ? nullptr : &at(value));
  for (int value : node.outs) bound.outs.push_back(value < 0 ? nullptr : &at(value));
  bound.cut = !instruction.late && touched_by(node) >= settings_->cut_bytes;
  bound.kernel = node.members.empty() ? kernel_for(node, instruction.late, bound)
                                      : grouped(members_of(node, bound));
  give_scratch(node, bound);
}

void Frame::give_scratch(const Node& node, Bound& bound) {
  const auto look_at = [&](BoundKernel& phase) {
    if (phase.packs < 0) return;
    const int slot = plan_.slot_of[node.ins[static_cast<size_t>(phase.packs)]];
    const bool stays = !plan_.stays_in_loop.empty() && plan_.stays_in_loop[slot];
    if (!stays) phase.packs = -1;
    bound.keeps |= stays;
  };
  bound.keeps = false;
  bound.scratch_at = 0;
  look_at(bound.kernel);
  for (BoundKernel& phase : bound.kernel.then) look_at(phase);
  std::shared_ptr<Buffer>& shared = top_->scratch_;
  const size_t bytes = bound.keeps ? 0 : bound.kernel.scratch;
  if (bytes > (shared ? shared->size() : 0)) shared = Buffer::allocate(bytes);
}

// The instructions that keep their scratch have it one behind the other; nothing is in it yet.
void Frame::place_kept() {
  if (plan_.stays_in_loop.empty()) return;
  size_t bytes = 0;
  for (Bound& bound : bound_) {
    if (!bound.keeps) continue;
    bound.scratch_at = bytes;
    bytes += arena_aligned(bound.kernel.scratch);
  }
  if (bytes > (kept_ ? kept_->size() : 0)) kept_ = Buffer::allocate(bytes);
  packed_.assign(packed_.size(), false);
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
  for (const Kernel& kernel : kernels_for(*node.schema, plan_.target.device)) {
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
  if (home_[slot] != Home::own) {
    const bool ahead = home_[slot] == Home::ahead;
    Lod lod = std::move(tensor.mutable_lod());  // for its memory
    lod = info.lod;
    tensor = Tensor(info.dtype, info.shape, ahead ? arena_ : late_arena_,
                    ahead ? base_ + arena_offset_[slot] : arena_offset_[slot]);
    tensor.set_lod(std::move(lod));
    stood_in_arena_[slot] = true;
    return;
  }
  if (stood_in_arena_[slot] && !shared) {
    tensor = Tensor();
    stood_in_arena_[slot] = false;
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
