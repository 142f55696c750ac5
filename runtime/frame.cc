#include "runtime/frame.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/text.h"
#include "runtime/profiler.h"

namespace trireme {
namespace {

template <class T>
bool all_finite(const Tensor& tensor) {
  const T* data = tensor.data<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (!std::isfinite(static_cast<double>(data[i]))) return false;
  }
  return true;
}

}  // namespace

Frame::Frame(const Plan& plan)
    : plan_(plan),
      own_(plan.slots.size()),
      slots_(plan.slots.size(), nullptr),
      bound_(plan.instructions.size()),
      segment_bound_(plan.segments.size(), false),
      present_(plan.segments.size()),
      put_away_(plan.segments.size()),
      home_(plan.slots.size(), Home::own),
      arena_offset_(plan.slots.size(), 0),
      stood_in_arena_(plan.slots.size(), false),
      settled_late_(plan.segments.size(), false),
      placements_(plan.segments.size()),
      packed_(plan.instructions.size(), false) {
  for (const Value& value : plan.graph.values) facts_.push_back(value.info);
  for (ValueInfo& info : facts_) fact_pointers_.push_back(&info);
  for (size_t s = 0; s < plan.slots.size(); ++s) {
    if (plan.slots[s].kind == SlotKind::own || plan.slots[s].kind == SlotKind::feed) {
      slots_[s] = &own_[s];
    }
  }
  for (const Instruction& instruction : plan.instructions) {
    if (!instruction.cleared.empty()) set_aside_.resize(plan.slots.size());
  }
  for (const auto& region : plan.regions) {
    regions_.push_back(std::make_unique<Frame>(*region.plan));
    regions_.back()->outer_ = this;
    regions_.back()->as_region_ = &region;
    regions_.back()->set_top(this);
  }
}

void Frame::set_top(Frame* top) {
  top_ = top;
  for (const auto& region : regions_) region->set_top(top);
}

void Frame::make_buckets() {
  for (const Plan::Bucket& bucket : plan_.buckets) {
    const Tensor& all = buckets_.emplace_back(filled(bucket.dtype, {bucket.elements}, 0));
    for (const auto& [value, first] : bucket.entries) {
      at(value).tensor() = Tensor(bucket.dtype, plan_.graph.values[value].info.shape, all.buffer(),
                                  static_cast<size_t>(first) * size_of(bucket.dtype));
    }
  }
}

void Frame::begin(Scope& scope, const RunSettings& settings) {
  settings_ = &settings;
  next_poll_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  step_ = scope.step().load(std::memory_order_relaxed);
  bind_slots(scope);
  if (buckets_.size() != plan_.buckets.size()) make_buckets();
  restart_iterations();
  if (entry_facts_changed() || (blindly_ && !settings.shapes_only)) unbind();
  if (!looked_ahead_) look_ahead();
  segment_ = 0;
  next_ = -1;
}

void Frame::set_replica(int number, std::vector<StreamOffset> draws) {
  replica_ = number;
  draws_ = std::move(draws);
}

void Frame::run(Scope& scope, const RunSettings& settings) {
  begin(scope, settings);
  run_segments();
  finish();
}

void Frame::finish() {
  write_back();
  if (plan_.writes_states && settings_->counts_step) {
    scope_->step().fetch_add(1, std::memory_order_relaxed);
  }
  ran_ = true;
}

void Frame::run_segments() {
  segment_ = 0;
  next_ = -1;
  const int met = advance();
  promise(met < 0, "a run of its own meets nobody");
}

int Frame::advance() {
  for (; segment_ < plan_.segments.size(); ++segment_) {
    const Segment& segment = plan_.segments[segment_];
    if (next_ < 0) {
      enter_segment(segment_);
      next_ = segment.begin;
    }
    while (next_ < segment.end) {
      if (settings_->stop && settings_->stop->load(std::memory_order_relaxed)) throw RunStopped{};
      const int index = next_++;
      if (settings_->meets && plan_.instructions[index].exchange) return index;
      run_instruction(index);
    }
    leave_segment(segment_);
    next_ = -1;
  }
  return -1;
}

void Frame::run_instruction(int index) {
  const Bound& bound = bound_[index];
  current_ = index;
  KernelArgs args;
  args.ins = bound.ins.data();
  args.outs = bound.outs.data();
  const std::shared_ptr<Buffer>& scratch = bound.keeps ? kept_ : top_->scratch_;
  args.scratch = scratch ? scratch->data() + bound.scratch_at : nullptr;
  args.run = this;
  if (!plan_.instructions[index].cleared.empty()) set_aside(index);
  for (int region : plan_.instructions[index].region_plans) {
    Frame& inner = *regions_[static_cast<size_t>(region)];
    inner.packed_.assign(inner.packed_.size(), false);
  }
  const bool timed = profiling_on();
  const auto start =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  try {
    if (!bound.moot) {
      const bool packed = bound.keeps && packed_[index];
      const auto run = [&](const BoundKernel& phase) {
        if (!packed || phase.packs < 0) run_phase(phase, bound.cut, args);
      };
      run(bound.kernel);
      for (const BoundKernel& phase : bound.kernel.then) run(phase);
      if (bound.keeps) packed_[index] = true;
    }
    if (timed) record(index, start);
    if (settings_->check_nan_inf) check_finite(index);
  } catch (Error& e) {
    add_node_context(e, plan_.graph.nodes[plan_.instructions[index].node], fact_pointers_);
    explain_partial_writes(e, index);
    throw;
  }
  // The clock is looked at behind what takes long, and now and then behind the rest.
  if (settings_->poll && (bound.cut || (++ticks_ & 15) == 0)) poll();
}

RunContext::StreamOffset Frame::stream_offset() const {
  const StreamOffset by_number{.before = 0, .replica = static_cast<uint64_t>(top_->replica_)};
  return outer_ || draws_.empty() ? by_number : draws_[current_];
}

void Frame::record(int index, std::chrono::steady_clock::time_point start) const {
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  record_instruction(node.origin.get(), index,
                     node.origin ? node.origin->op_type : node.schema->type(), start);
}

void Frame::poll() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_poll_) return;
  next_poll_ = now + std::chrono::milliseconds(100);
  settings_->poll();
}

// The number of parts is the kernel's, whoever runs them: results do not depend on the team.
void Frame::run_phase(const BoundKernel& phase, bool cut, KernelArgs args) {
  args.parts = cut ? phase.parts : 1;
  Team* team = args.parts > 1 && settings_->team ? settings_->team->team() : nullptr;
  if (team) {
    team->run(args.parts, [&](int part) {
      KernelArgs mine = args;
      mine.part = part;
      phase.run(mine);
    });
  } else {
    for (args.part = 0; args.part < args.parts; ++args.part) phase.run(args);
  }
}

void Frame::write_back() {
  for (const auto& back : plan_.write_backs) slots_[back.slot]->copy_from(at(back.value));
}

void Frame::check_finite(int index) {
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    if (value < 0) continue;
    const Variable& variable = at(value);
    const Tensor* tensor = variable.kind() == Kind::dense  ? &variable.tensor()
                           : variable.kind() == Kind::rows ? &variable.rows().value
                                                           : nullptr;
    if (!tensor || !tensor->initialized()) continue;
    const bool fine = tensor->dtype() == DType::float32   ? all_finite<float>(*tensor)
                      : tensor->dtype() == DType::float64 ? all_finite<double>(*tensor)
                                                          : true;
    if (!fine) {
      throw Error(ErrorKind::precondition,
                  cat("its result ", facts_[value].name.empty() ? "(computed)" : facts_[value].name,
                      " holds nan or inf"))
          .fix("look at the operands above; FLAGS_check_nan_inf=0 turns this check off");
    }
  }
}

void Frame::explain_partial_writes(Error& error, int failed) {
  if (outer_) return;
  std::set<std::string> written;
  for (int i = 0; i < failed; ++i) {
    for (int value : plan_.graph.nodes[plan_.instructions[i].node].outs) {
      if (value < 0) continue;
      const Slot& slot = plan_.slots[plan_.slot_of[value]];
      if (slot.kind == SlotKind::state) written.insert(plan_.graph.states[slot.index].name);
    }
  }
  if (!written.empty()) error.note("already written in this step: " + join(written));
}

std::vector<Variable> Frame::take_fetches() {
  std::vector<Variable> results;
  results.reserve(plan_.graph.fetches.size());
  const auto slot_of = [this](size_t i) { return plan_.slot_of[plan_.graph.fetches[i].value]; };
  for (size_t i = 0; i < plan_.graph.fetches.size(); ++i) {
    const int slot = slot_of(i);
    Variable& variable = *slots_[slot];
    results.emplace_back();
    size_t first = 0;  // fetched under several names: the first took its memory
    while (slot_of(first) != slot) ++first;
    if (first < i) {
      if (results[first].initialized()) results.back().copy_from(results[first]);
      continue;
    }
    const bool give = plan_.slots[slot].kind == SlotKind::own && variable.kind() == Kind::dense &&
                      variable.tensor().initialized();
    if (!give) {
      if (variable.initialized()) results.back().copy_from(variable);
      continue;
    }
    // The caller gets the memory itself; the slot gets fresh memory for the next step.
    Tensor& tensor = variable.tensor();
    results.back().tensor() = tensor;
    Tensor fresh(tensor.dtype(), tensor.shape());
    fresh.set_lod(tensor.lod());
    tensor = std::move(fresh);
  }
  return results;
}

}  // namespace trireme
