// Iterations of sub-blocks: copies between their values and those around them.
#include "runtime/region_runner.h"

#include <algorithm>

#include "core/device.h"
#include "core/text.h"
#include "ops/host/host_operands.h"

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
    // For as many rows again: more iterations are coming.
    Tensor both(total.dtype(), shape, Buffer::allocate(2 * needed, total.place()), 0);
    copy_memory(both.place(), both.address(), total.place(), total.address(), held);
    both.set_lod(total.lod());
    total = std::move(both);
  }
  copy_memory(total.place(), static_cast<std::byte*>(total.address()) + held, more.place(),
              more.address(), more.byte_size());
}

// Sums of iterations are the host's to make; of what lies elsewhere it adds copies.
void add_elsewhere(const Variable& part, Variable& total) {
  if (part.kind() == Kind::dense) {
    const Tensor sum = total.tensor().to(cpu_place());
    add_tensor(part.tensor().on_host(), sum);
    return copy_contents(sum, total.tensor());
  }
  SelectedRows& sum = total.rows();
  const Place place = sum.value.place();
  const RowNumbers more = part.rows().rows.to(cpu_place());
  RowNumbers rows = sum.rows.to(cpu_place());
  rows.insert(rows.end(), more.begin(), more.end());
  sum.rows = rows.to(place);
  append_rows(part.rows().value, sum.value);
}

bool on_host(const Variable& variable) {
  const Tensor* tensor = variable.kind() == Kind::dense  ? &variable.tensor()
                         : variable.kind() == Kind::rows ? &variable.rows().value
                                                         : nullptr;
  return !tensor || in_host_memory(tensor->place());
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

// Adds the result of one iteration to those of the iterations before it.
void accumulate(Variable& total, const Variable& part, TeamLease* lease) {
  if (!on_host(total) || !on_host(part)) return add_elsewhere(part, total);
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
void make_room(Variable& target, DType dtype, const Shape& shape, const Place& place) {
  if (target.kind() != Kind::dense) target.clear();
  Tensor& tensor = target.tensor();
  const bool fits = tensor.initialized() && tensor.dtype() == dtype && tensor.shape() == shape &&
                    tensor.place() == place;
  if (!fits) tensor.resize(dtype, shape, place);
}

// A deep copy at `place`, in the memory that is there where it fits.
void copy_to(Variable& target, const Place& place, const Variable& source) {
  if (source.kind() == Kind::dense && source.initialized()) {
    make_room(target, source.tensor().dtype(), source.tensor().shape(), place);
  } else if (source.kind() == Kind::rows && source.initialized()) {
    if (target.kind() != Kind::rows) target.clear();
    SelectedRows& rows = target.rows();
    rows.value.resize(source.rows().value.dtype(), source.rows().value.shape(), place);
    rows.rows.resize(source.rows().rows.size(), place);
  }
  target.copy_from(source);
}

// Arrays change hands, so that a loop over an array does not copy it in every iteration.
void hand_over(Variable& target, const Place& place, Variable& source) {
  if (&target == &source) return;
  if (source.kind() == Kind::array) {
    std::swap(target, source);
  } else if (source.initialized()) {
    copy_to(target, place, source);
  }
}

void set_empty_array(Variable& target) {
  if (target.kind() != Kind::array) target.clear();
  target.array().clear();
}

void set_zeros_like(Variable& target, const Place& place, const Variable* like) {
  if (like && like->initialized() && like->kind() == Kind::dense) {
    const Tensor& model = like->tensor();
    make_room(target, model.dtype(), model.shape(), place);
    if (in_host_memory(place)) {
      fill(target.tensor(), 0, 0, model.numel());
    } else {
      copy_contents(filled(model.dtype(), model.shape(), 0), target.tensor());
    }
    target.tensor().mutable_lod() = model.lod();
  } else if (like && like->initialized() && like->kind() == Kind::array) {
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

// `first`: of these iterations, which decides the shape.
void put_row(Variable& sequence, const Place& place, const Tensor& value, int64_t row, int64_t rows,
             bool first) {
  if (first) {
    Shape shape;
    shape.push_back(rows);
    for (int i = 0; i < value.shape().rank(); ++i) shape.push_back(value.shape()[i]);
    make_room(sequence, value.dtype(), shape, place);
    sequence.tensor().mutable_lod().clear();
  }
  const Tensor target = row_of(sequence.tensor(), row);
  if (!(target.shape() == value.shape())) {
    throw Error(cat("iteration ", row, " gives ", value.describe(), " but earlier ones gave ",
                    target.describe()));
  }
  copy_contents(value, target);
}

// What an iteration borrowed has its owner's memory for itself again; shape and LoD stay known.
void give_back(Variable& borrowed) {
  if (borrowed.kind() == Kind::host) borrowed.clear();
  if (borrowed.kind() != Kind::dense) return;
  Tensor& tensor = borrowed.tensor();
  Tensor left = Tensor::without_memory(tensor.dtype(), tensor.shape());
  left.set_lod(std::move(tensor.mutable_lod()));
  tensor = std::move(left);
}

}  // namespace

RegionRunner::RegionRunner(Frame& outer, const Plan::RegionPlan& region)
    : outer_(outer), region_(region), body_(*region.plan, outer) {}

// What it copies itself, the host copies: the device's work on it has ended then.
void RegionRunner::run(StepScopes* keep) {
  const Graph& graph = region_.plan->graph;
  outer_.synchronize();
  if (body_.slots_.find_outer(outer_.slots_)) body_.binding_.forget();
  body_.bind_entries();

  StepScopes::Values* kept = nullptr;
  if (keep && graph.saves_iterations) kept = &keep->add(graph.saved.size());
  const auto save = [&](bool beginning) {
    for (size_t i = 0; kept && i < graph.saved.size(); ++i) {
      const Value& saved = graph.values[graph.saved[i]];
      Variable& value = inner(graph.saved[i]);
      if (saved.node >= 0 && saved.info.type == VarType::step_scopes) {
        std::swap((*kept)[i], value);  // a loop inside writes where it is kept
      } else if ((saved.node < 0) == beginning) {
        (*kept)[i].copy_from(value);
      }
    }
  };
  save(/*beginning=*/true);
  body_.run_segments();
  outer_.synchronize();
  save(/*beginning=*/false);
  for (const auto& carry : region_.carries) {
    outer_.placement_.take_again(carry.outer_slot);
    copy_to(outer(carry.outer_slot), outer_place(carry.outer_slot), inner(carry.inner_value));
  }
  ++body_.iteration_;
  if (outer_.settings().poll) outer_.poll();
}

void RegionRunner::begin(int64_t rows) {
  outer_.synchronize();
  rows_ = rows;
  has_result_.assign(region_.ports.size(), false);
  appended_.assign(region_.ports.size(), 0);
  for (const auto& port : region_.ports) {
    if (port.how != RegionLink::How::carry) continue;
    Variable& entry = inner(port.entry);
    if (port.from >= 0 && outer(port.from).initialized()) {
      copy_to(entry, inner_place(port.entry), outer(port.from));
      continue;
    }
    set_zeros_like(entry, inner_place(port.entry), port.like < 0 ? nullptr : &outer(port.like));
    const bool array = body_.binding_.facts(port.entry).type == VarType::lod_tensor_array;
    if (array && entry.kind() != Kind::array) set_empty_array(entry);
  }
}

void RegionRunner::iterate(const RunContext::Iteration& iteration) {
  for (const auto& port : region_.ports) {
    if (port.how != RegionLink::How::slice || port.from < 0) continue;
    if (!outer(port.from).initialized()) continue;
    const Variable& sequence = outer(port.from);
    inner(port.entry).tensor() = row_of(sequence.tensor(), iteration.row);
  }
  for (const auto& load : region_.loads) {
    promise(iteration.load && static_cast<size_t>(load.saved) < iteration.load->size(),
            "a forward iteration keeps what its gradient reads");
    inner(load.entry) = (*iteration.load)[static_cast<size_t>(load.saved)];
  }
  run(iteration.keep);
  for (size_t i = 0; i < region_.ports.size(); ++i) {
    if (region_.ports[i].last >= 0) take_result(i, iteration);
  }
}

void RegionRunner::take_result(size_t number, const RunContext::Iteration& iteration) {
  const auto& port = region_.ports[number];
  Variable& last = inner(port.last);
  if (port.how == RegionLink::How::carry) {
    return hand_over(inner(port.entry), inner_place(port.entry), last);
  }
  if (port.to < 0 || (port.how == RegionLink::How::sum && !last.initialized())) return;
  if (port.how == RegionLink::How::append) {
    return append(port.to, last.tensor(), appended_[number]);
  }
  Variable& result = outer(port.to);
  const bool first = !has_result_[number];
  has_result_[number] = true;
  if (port.how == RegionLink::How::stack) {
    put_row(result, outer_place(port.to), last.tensor(), iteration.row, rows_, first);
  } else if (first) {
    copy_to(result, outer_place(port.to), last);
  } else {
    accumulate(result, last, outer_.settings().team);
  }
}

// Rows of one iteration, below those of the iterations before it. Where all are known ahead there
// is room for them.
void RegionRunner::append(int slot, const Tensor& rows, int64_t& before) {
  Variable& result = outer(slot);
  const int64_t count = rows.shape().at(0);
  if (outer_.placement_.is_ahead(slot)) {
    copy_contents(rows, result.tensor().slice_rows(before, before + count));
  } else {
    if (before == 0) {
      Shape none = rows.shape();
      none[0] = Dim(0);
      make_room(result, rows.dtype(), none, outer_place(slot));
      result.tensor().mutable_lod().clear();
    }
    append_rows(rows, result.tensor());
  }
  before += count;
}

// What the iterations borrowed is given back: its owners write over it in their next run.
void RegionRunner::end() {
  for (size_t i = 0; i < region_.ports.size(); ++i) {
    const auto& port = region_.ports[i];
    if (port.how == RegionLink::How::slice) {
      if (port.entry >= 0) give_back(inner(port.entry));
      continue;
    }
    if (port.to < 0) continue;
    Variable& result = outer(port.to);
    if (port.how == RegionLink::How::carry) {
      Variable& entry = inner(port.entry);
      if (entry.kind() != Kind::array && !entry.initialized()) result.clear();
      hand_over(result, outer_place(port.to), entry);
    } else if (port.how == RegionLink::How::append) {
      if (appended_[i] > 0) continue;
      const ValueInfo& row = region_.plan->graph.values[port.last].info;
      Shape none = row.shape;
      none[0] = Dim(0);
      make_room(result, row.dtype, none, outer_place(port.to));
      result.tensor().mutable_lod().clear();
    } else if (!has_result_[i]) {
      set_zeros_like(result, outer_place(port.to), port.like < 0 ? nullptr : &outer(port.like));
    }
  }
  for (const auto& load : region_.loads) give_back(inner(load.entry));
}

}  // namespace trireme
