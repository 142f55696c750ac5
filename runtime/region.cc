// Passes over sub-blocks: what they begin with, what they leave, what is kept for their gradients.
#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

// Adds rows below those of `total`, in its memory where they fit.
void append_rows(const Tensor& more, Tensor& total) {
  const size_t held = total.byte_size(), needed = held + more.byte_size();
  Shape shape = total.shape();
  shape[0] = shape[0] + more.shape()[0];
  const bool fits =
      total.buffer().use_count() == 1 && total.offset() == 0 && total.buffer()->size() >= needed;
  if (fits) {
    total.resize(total.dtype(), shape);  // keeps the buffer, and with it the rows
  } else {
    // For as many rows again: more passes are coming.
    Tensor both(total.dtype(), shape, Buffer::allocate(2 * needed), 0);
    if (held > 0) std::memcpy(both.raw(), total.raw(), held);
    both.set_lod(total.lod());
    total = std::move(both);
  }
  if (more.byte_size() > 0) {
    std::memcpy(static_cast<std::byte*>(total.raw()) + held, more.raw(), more.byte_size());
  }
}

// Cut by size alone.
void add_shared_out(TeamLease* lease, const Tensor& part, const Tensor& total) {
  constexpr size_t kBytesPerPart = size_t{64} << 10;
  struct {
    const Tensor &part, &total;
    int parts;
  } const sum{part, total,
              static_cast<int>(std::clamp<size_t>(part.byte_size() / kBytesPerPart, 1, 16))};
  Team* team = lease && sum.parts > 1 ? lease->team() : nullptr;
  if (!team) return add_tensor(part, total);
  team->run(sum.parts, [&sum](int i) { add_tensor(sum.part, sum.total, i, sum.parts); });
}

// Adds the result of one pass to those of the passes before it.
void accumulate(Variable& total, const Variable& part, TeamLease* lease) {
  switch (part.kind()) {
    case Kind::dense:
      return add_shared_out(lease, part.tensor(), total.tensor());
    case Kind::rows: {
      SelectedRows& sum = total.rows();
      const SelectedRows& more = part.rows();
      sum.rows.insert(sum.rows.end(), more.rows.begin(), more.rows.end());
      return append_rows(more.value, sum.value);
    }
    case Kind::array: {
      TensorArray& sum = total.array();
      const TensorArray& more = part.array();
      if (sum.size() < more.size()) sum.resize(more.size());
      for (size_t i = 0; i < more.size(); ++i) {
        if (!more[i].initialized()) continue;
        if (sum[i].initialized()) {
          add_tensor(more[i], sum[i]);
        } else {
          sum.renew(i).copy_from(more[i]);
        }
      }
      return;
    }
    case Kind::none:
    case Kind::host:
      return;
  }
}

// In the memory it has where that fits, also in an arena.
void make_room(Variable& target, DType dtype, const Shape& shape) {
  if (target.kind() != Kind::dense) target.clear();
  Tensor& tensor = target.tensor();
  const bool fits = tensor.initialized() && tensor.dtype() == dtype && tensor.shape() == shape;
  if (!fits) tensor.resize(dtype, shape);
}

// Arrays change hands, so that a loop over an array does not copy it in every pass.
void hand_over(Variable& target, Variable& source) {
  if (&target == &source) return;
  if (source.kind() == Kind::array) {
    std::swap(target, source);
  } else if (source.initialized()) {
    target.copy_from(source);
  }
}

void set_empty_array(Variable& target) {
  if (target.kind() != Kind::array) target.clear();
  target.array().clear();
}

void set_zeros_like(Variable& target, const Variable* like) {
  if (!like || !like->initialized()) {
    target.clear();
  } else if (like->kind() == Kind::dense) {
    const Tensor& model = like->tensor();
    make_room(target, model.dtype(), model.shape());
    fill(target.tensor(), 0, 0, model.numel());
    target.tensor().mutable_lod() = model.lod();
  } else if (like->kind() == Kind::array) {
    set_empty_array(target);
  } else {
    target.clear();
  }
}

Tensor row_of(const Tensor& sequence, int64_t row) {
  Shape shape;
  for (int i = 1; i < sequence.shape().rank(); ++i) shape.push_back(sequence.shape()[i]);
  return sequence.slice_rows(row, row + 1).reshaped(shape);
}

// `first`: of these passes, which decides the shape.
void put_row(Variable& sequence, const Tensor& value, int64_t row, int64_t rows, bool first) {
  if (first) {
    Shape shape;
    shape.push_back(rows);
    for (int i = 0; i < value.shape().rank(); ++i) shape.push_back(value.shape()[i]);
    make_room(sequence, value.dtype(), shape);
    sequence.tensor().mutable_lod().clear();
  }
  const Tensor target = row_of(sequence.tensor(), row);
  if (!(target.shape() == value.shape())) {
    throw Error(cat("pass ", row, " gives ", value.describe(), " but earlier ones gave ",
                    target.describe()));
  }
  std::memcpy(target.raw(), value.raw(), value.byte_size());
}

// What a pass borrowed has its owner's memory for itself again; shape and LoD stay known.
void give_back(Variable& borrowed) {
  if (borrowed.kind() == Kind::host) borrowed.clear();
  if (borrowed.kind() != Kind::dense) return;
  Tensor& tensor = borrowed.tensor();
  Tensor left = Tensor::without_memory(tensor.dtype(), tensor.shape());
  left.set_lod(std::move(tensor.mutable_lod()));
  tensor = std::move(left);
}

}  // namespace

int Frame::region_number(int index) const {
  return plan_.instructions[current_].region_plans.at(static_cast<size_t>(index));
}

// Results hold nothing until the sub-block runs; then it fills the memory they had.
void Frame::set_aside(int index) {
  const Instruction& instruction = plan_.instructions[index];
  for (int position : instruction.cleared) {
    const int slot = plan_.slot_of[plan_.graph.nodes[instruction.node].outs[position]];
    Variable& result = *slots_[slot];
    if (result.initialized()) std::swap(result, set_aside_[static_cast<size_t>(slot)]);
    result.clear();
  }
}

// Passes are numbered through the whole run, so that no two of them draw the same numbers.
void Frame::restart_iterations() {
  for (const auto& region : regions_) {
    region->iteration_ = 0;
    region->restart_iterations();
  }
}

// True when some stand elsewhere than before.
bool Frame::tie_outer_slots() {
  bool moved = false;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind != SlotKind::outer) continue;
    Variable* variable = outer_->slots_[plan_.slots[s].index];
    moved |= slots_[s] != variable;
    slots_[s] = variable;
  }
  return moved;
}

void Frame::run_inner(int number, StepScopes* keep) {
  const int resumed = current_;
  Frame& inner = *regions_[number];
  const Graph& graph = inner.plan_.graph;
  inner.settings_ = settings_;
  inner.scope_ = scope_;
  inner.step_ = step_;
  inner.next_poll_ = next_poll_;
  if (inner.tie_outer_slots()) inner.forget_bindings();
  if (inner.entry_facts_changed()) inner.unbind();
  if (!inner.looked_ahead_) inner.look_ahead();

  StepScopes::Values* kept = nullptr;
  if (keep && graph.saves_iterations) kept = &keep->add(graph.saved.size());
  const auto save = [&](bool beginning) {
    for (size_t i = 0; kept && i < graph.saved.size(); ++i) {
      const Value& saved = graph.values[graph.saved[i]];
      Variable& value = inner.at(graph.saved[i]);
      if (saved.node >= 0 && saved.info.type == VarType::step_scopes) {
        std::swap((*kept)[i], value);  // a loop inside writes where it is kept
      } else if ((saved.node < 0) == beginning) {
        (*kept)[i].copy_from(value);
      }
    }
  };
  save(/*beginning=*/true);
  inner.run_segments();
  save(/*beginning=*/false);
  for (const auto& carry : plan_.regions[number].carries) {
    Variable& outer = *slots_[carry.outer_slot];
    if (!outer.initialized() && !set_aside_.empty()) {
      std::swap(outer, set_aside_[static_cast<size_t>(carry.outer_slot)]);
    }
    outer.copy_from(inner.at(carry.inner_value));
  }
  ++inner.iteration_;
  next_poll_ = inner.next_poll_;
  current_ = resumed;
  if (settings_->poll) poll();
}

void Frame::run_region(int index, StepScopes* keep) { run_inner(region_number(index), keep); }

void Frame::begin_iterations(int index, int64_t rows) {
  const int number = region_number(index);
  Frame& inner = *regions_[number];
  inner.rows_ = rows;
  inner.has_result_.assign(plan_.regions[number].ports.size(), false);
  inner.appended_.assign(plan_.regions[number].ports.size(), 0);
  for (const auto& port : plan_.regions[number].ports) {
    if (port.how != RegionLink::How::carry) continue;
    Variable& entry = inner.at(port.entry);
    if (port.from >= 0 && slots_[port.from]->initialized()) {
      entry.copy_from(*slots_[port.from]);
    } else {
      set_zeros_like(entry, port.like < 0 ? nullptr : slots_[port.like]);
      const bool array = inner.facts_[port.entry].type == VarType::lod_tensor_array;
      if (array && entry.kind() != Kind::array) set_empty_array(entry);
    }
  }
}

void Frame::run_iteration(int index, const Iteration& pass) {
  const int number = region_number(index);
  const Plan::RegionPlan& region = plan_.regions[number];
  Frame& inner = *regions_[number];
  for (const auto& port : region.ports) {
    if (port.how == RegionLink::How::slice && slots_[port.from]->initialized()) {
      const Variable& sequence = *slots_[port.from];
      inner.at(port.entry).tensor() = row_of(sequence.tensor(), pass.row);
    }
  }
  for (const auto& load : region.loads) {
    promise(pass.load && static_cast<size_t>(load.saved) < pass.load->size(),
            "a forward pass keeps what its gradient reads");
    inner.at(load.entry) = (*pass.load)[static_cast<size_t>(load.saved)];
  }
  run_inner(number, pass.keep);
  for (size_t i = 0; i < region.ports.size(); ++i) {
    const auto& port = region.ports[i];
    if (port.last < 0) continue;
    Variable& last = inner.at(port.last);
    if (port.how == RegionLink::How::carry) {
      hand_over(inner.at(port.entry), last);
      continue;
    }
    if (port.to < 0 || (port.how == RegionLink::How::sum && !last.initialized())) continue;
    if (port.how == RegionLink::How::append) {
      append(port.to, last.tensor(), inner.appended_[i]);
      continue;
    }
    Variable& result = *slots_[port.to];
    const bool first = !inner.has_result_[i];
    inner.has_result_[i] = true;
    if (port.how == RegionLink::How::stack) {
      put_row(result, last.tensor(), pass.row, inner.rows_, first);
    } else if (first) {
      result.copy_from(last);
    } else {
      accumulate(result, last, settings_->team);
    }
  }
}

// Rows of one pass, below those of the passes before it. Where all are foreseen there is room for
// them.
void Frame::append(int slot, const Tensor& rows, int64_t& before) {
  Variable& result = *slots_[slot];
  const int64_t count = rows.shape().at(0);
  if (home_[slot] == Home::ahead) {
    std::memcpy(result.tensor().slice_rows(before, before + count).raw(), rows.raw(),
                rows.byte_size());
  } else {
    if (before == 0) {
      Shape none = rows.shape();
      none[0] = Dim(0);
      result_of_shape(result, rows.dtype(), none);
    }
    append_rows(rows, result.tensor());
  }
  before += count;
}

// What the passes borrowed is given back: its owners write over it in their next run.
void Frame::end_iterations(int index) {
  const int number = region_number(index);
  const Plan::RegionPlan& region = plan_.regions[number];
  Frame& inner = *regions_[number];
  for (size_t i = 0; i < region.ports.size(); ++i) {
    const auto& port = region.ports[i];
    if (port.how == RegionLink::How::slice) {
      give_back(inner.at(port.entry));
      continue;
    }
    if (port.to < 0) continue;
    Variable& result = *slots_[port.to];
    if (port.how == RegionLink::How::carry) {
      Variable& entry = inner.at(port.entry);
      if (entry.kind() != Kind::array && !entry.initialized()) result.clear();
      hand_over(result, entry);
    } else if (port.how == RegionLink::How::append) {
      if (inner.appended_[i] > 0) continue;
      const ValueInfo& row = inner.plan_.graph.values[port.last].info;
      Shape none = row.shape;
      none[0] = Dim(0);
      result_of_shape(result, row.dtype, none);
    } else if (!inner.has_result_[i]) {
      set_zeros_like(result, port.like < 0 ? nullptr : slots_[port.like]);
    }
  }
  for (const auto& load : region.loads) {
    give_back(inner.at(load.entry));
  }
}

}  // namespace trireme
