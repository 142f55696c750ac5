// Passes over sub-blocks: what they begin with, what they leave, what is kept for their gradients.
#include <cstring>

#include "core/text.h"
#include "ops/host_operands.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

Tensor joined_rows(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[0] = shape[0] + b.shape()[0];
  Tensor both(a.dtype(), shape);
  std::memcpy(both.raw(), a.raw(), a.byte_size());
  std::memcpy(static_cast<std::byte*>(both.raw()) + a.byte_size(), b.raw(), b.byte_size());
  return both;
}

// Adds the result of one pass; an empty total takes it over.
void accumulate(Variable& total, Variable& part) {
  if (!part.initialized()) return;
  if (!total.initialized()) {
    total.clear();
    total.copy_from(part);
    return;
  }
  switch (part.kind()) {
    case Kind::dense:
      return add_tensor(part.tensor(), total.tensor());
    case Kind::rows: {
      SelectedRows &sum = total.rows(), &more = part.rows();
      sum.rows.insert(sum.rows.end(), more.rows.begin(), more.rows.end());
      sum.value = joined_rows(sum.value, more.value);
      return;
    }
    case Kind::array: {
      TensorArray &sum = total.array(), &more = part.array();
      if (sum.size() < more.size()) sum.resize(more.size());
      for (size_t i = 0; i < more.size(); ++i) {
        if (!more[i].initialized()) continue;
        if (sum[i].initialized()) {
          add_tensor(more[i], sum[i]);
        } else {
          sum[i] = more[i].clone();
        }
      }
      return;
    }
    case Kind::none:
    case Kind::host:
      return;
  }
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

void set_zeros_like(Variable& target, const Variable* like) {
  target.clear();
  if (!like || !like->initialized()) return;
  if (like->kind() == Kind::dense) {
    target.tensor() = filled(like->tensor().dtype(), like->tensor().shape(), 0);
    target.tensor().set_lod(like->tensor().lod());
  } else if (like->kind() == Kind::array) {
    target.array() = {};
  }
}

Tensor row_of(const Tensor& sequence, int64_t row) {
  Shape shape;
  for (int i = 1; i < sequence.shape().rank(); ++i) shape.push_back(sequence.shape()[i]);
  return sequence.slice_rows(row, row + 1).reshaped(shape);
}

void put_row(Variable& sequence, const Tensor& value, int64_t row, int64_t rows) {
  if (!sequence.initialized()) {
    Shape shape;
    shape.push_back(rows);
    for (int i = 0; i < value.shape().rank(); ++i) shape.push_back(value.shape()[i]);
    sequence.clear();
    sequence.tensor().resize(value.dtype(), shape);
  }
  const Tensor target = row_of(sequence.tensor(), row);
  if (!(target.shape() == value.shape())) {
    throw Error(cat("pass ", row, " gives ", value.describe(), " but earlier ones gave ",
                    target.describe()));
  }
  std::memcpy(target.raw(), value.raw(), value.byte_size());
}

}  // namespace

int Frame::region_number(int index) const {
  return plan_.instructions[current_].region_plans.at(static_cast<size_t>(index));
}

// Passes are numbered through the whole run, so that no two of them draw the same numbers.
void Frame::restart_iterations() {
  for (const auto& region : regions_) {
    region->iteration_ = 0;
    region->restart_iterations();
  }
}

void Frame::run_inner(int number, StepScopes* keep) {
  const int resumed = current_;
  Frame& inner = *regions_[number];
  const Graph& graph = inner.plan_.graph;
  inner.settings_ = settings_;
  inner.scope_ = scope_;
  inner.step_ = step_;
  inner.next_poll_ = next_poll_;
  bool moved = false;
  for (size_t s = 0; s < inner.plan_.slots.size(); ++s) {
    if (inner.plan_.slots[s].kind != SlotKind::outer) continue;
    Variable* variable = slots_[inner.plan_.slots[s].index];
    moved |= inner.slots_[s] != variable;
    inner.slots_[s] = variable;
  }
  if (inner.entry_facts_changed() || moved) {
    inner.segment_bound_.assign(inner.segment_bound_.size(), false);
  }

  std::vector<Variable>* kept = nullptr;
  if (keep && graph.saves_passes) kept = &keep->steps.emplace_back(graph.saved.size());
  const auto save = [&](bool beginning) {
    for (size_t i = 0; kept && i < graph.saved.size(); ++i) {
      if ((graph.values[graph.saved[i]].node < 0) != beginning) continue;
      (*kept)[i].copy_from(inner.at(graph.saved[i]));
    }
  };
  save(/*beginning=*/true);
  inner.run_segments();
  save(/*beginning=*/false);
  for (const auto& carry : plan_.regions[number].carries) {
    slots_[carry.outer_slot]->copy_from(inner.at(carry.inner_value));
  }
  ++inner.iteration_;
  next_poll_ = inner.next_poll_;
  current_ = resumed;
  if (settings_->poll) poll();
}

void Frame::run_region(int index, StepScopes* keep) { run_inner(region_number(index), keep); }

void Frame::begin_passes(int index, int64_t rows) {
  const int number = region_number(index);
  Frame& inner = *regions_[number];
  inner.rows_ = rows;
  for (const auto& port : plan_.regions[number].ports) {
    if (port.to >= 0) slots_[port.to]->clear();
    if (port.how != RegionLink::How::carry) continue;
    Variable& entry = inner.at(port.entry);
    entry.clear();
    if (port.from >= 0 && slots_[port.from]->initialized()) {
      entry.copy_from(*slots_[port.from]);
    } else {
      set_zeros_like(entry, port.like < 0 ? nullptr : slots_[port.like]);
      const bool array = inner.facts_[port.entry].type == VarType::lod_tensor_array;
      if (array && entry.kind() != Kind::array) entry.array() = {};
    }
  }
}

void Frame::run_pass(int index, const Pass& pass) {
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
  for (const auto& port : region.ports) {
    if (port.last < 0) continue;
    Variable& last = inner.at(port.last);
    switch (port.how) {
      case RegionLink::How::carry:
        hand_over(inner.at(port.entry), last);
        break;
      case RegionLink::How::sum:
        if (port.to >= 0) accumulate(*slots_[port.to], last);
        break;
      case RegionLink::How::stack:
        if (port.to >= 0) put_row(*slots_[port.to], last.tensor(), pass.row, inner.rows_);
        break;
      case RegionLink::How::slice:
        break;
    }
  }
}

void Frame::end_passes(int index) {
  const int number = region_number(index);
  Frame& inner = *regions_[number];
  for (const auto& port : plan_.regions[number].ports) {
    if (port.to < 0) continue;
    Variable& result = *slots_[port.to];
    if (port.how == RegionLink::How::carry) {
      hand_over(result, inner.at(port.entry));
    } else if (!result.initialized() && port.like >= 0) {
      set_zeros_like(result, slots_[port.like]);
    }
  }
}

}  // namespace trireme
