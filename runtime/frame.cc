// Running a bound plan, instruction by instruction.
#include "runtime/frame.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/text.h"
#include "runtime/profiler.h"
#include "runtime/region_runner.h"

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

Frame::Frame(const Plan& plan, const Place& place) : Frame(plan, place, nullptr) {}
Frame::Frame(const Plan& plan, Frame& outer) : Frame(plan, outer.place_, &outer) {}

Frame::Frame(const Plan& plan, const Place& place, Frame* outer)
    : plan_(plan),
      place_(place),
      outer_(outer),
      top_(outer ? outer->top_ : this),
      slots_(plan),
      binding_(plan, slots_, in_host_memory(place) ? nullptr : &device_of(place)),
      placement_(plan, binding_, slots_, place) {
  if (!outer && !in_host_memory(place))
    queues_ = std::make_unique<DeviceQueues>(device_of(place), plan.target);
  if (plan.has_queues) {
    for (const Instruction& instruction : plan.instructions) {
      events_.push_back(instruction.signals ? device_of(place).make_event() : nullptr);
    }
    replays_ = std::make_unique<Replays>(plan);
  }
  for (const auto& region : plan.regions) {
    Frame& body = regions_.emplace_back(std::make_unique<RegionRunner>(*this, region))->body();
    binding_.add_region(body.binding_, region);
    placement_.add_region(body.placement_);
  }
  find_exchanges_by_ring();
}

Frame::~Frame() = default;

void Frame::begin(Scope& scope, const RunSettings& settings) {
  settings_ = &settings;
  scope_ = &scope;
  next_poll_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  step_ = scope.step().load(std::memory_order_relaxed);
  find_states(scope);
  rings_.find(scope);
  slots_.move_states(scope, place_);
  placement_.make_buckets();
  forget_iterations();
  bind_entries();
  if (plan_.graph.states_stay) look_at_states(scope);
  segment_ = 0;
  next_ = -1;
  for_all_ = false;
  under_way_.clear();
}

// What was made of the states is made again where they may have changed: since the last run, or
// while somebody else holds their memory. A run that does not end makes all of it again as well.
void Frame::look_at_states(const Scope& scope) {
  const std::array<uint64_t, 3> now{scope.contents_epoch(), scope.memory_epoch(),
                                    binding_.change_count()};
  made_of_states_ = made_to_end_ && now == states_seen_ && slots_.states_are_alone();
  states_seen_ = now;
  made_to_end_ = false;
  if (!made_of_states_) placement_.forget_packed();
}

void Frame::find_states(Scope& scope) {
  if (slots_.find_states(scope, local_states_)) binding_.forget();
}

void Frame::find_exchanges_by_ring() {
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    if (!plan_.instructions[i].exchange) continue;
    auto step = std::make_unique<CollectiveStep>(plan_, static_cast<int>(i));
    if (step->ring().empty()) continue;
    steps_.resize(plan_.instructions.size());
    ring_of_.resize(plan_.instructions.size());
    ring_of_[i] = top_->rings_.add(step->ring());
    steps_[i] = std::move(step);
  }
}

void Frame::join_group(Group& group) {
  group_ = &group;
  steps_.resize(plan_.instructions.size());
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    if (!plan_.instructions[i].exchange) continue;
    steps_[i] = std::make_unique<CollectiveStep>(plan_, static_cast<int>(i));
    steps_[i]->join(group);
  }
  if (group.rank() > 0) binding_.leave_out_by_first();
}

void Frame::run(Scope& scope, const RunSettings& settings) {
  begin(scope, settings);
  run_segments();
  finish();
}

// What the caller does next may touch anything: its feeds, the scope, what is fetched.
void Frame::finish() {
  synchronize();
  for (const auto& back : plan_.write_backs) {
    if (back.by_first && replica() > 0) continue;
    slots_[back.slot].copy_from(slots_.of(back.value));
  }
  if (plan_.writes_states && settings_->counts_step) {
    scope_->step().fetch_add(1, std::memory_order_relaxed);
  }
  ran_ = true;
  made_to_end_ = slots_.states_are_alone();
}

void Frame::run_segments() {
  segment_ = 0;
  next_ = -1;
  std::optional<Pauses> pauses;  // the clock is looked at by those who wait
  for (Progress progress; (progress = advance()) != Progress::ended; pauses->pause()) {
    promise(progress == Progress::waits && !ring_of_.empty(), "a run of its own waits for ranks");
    if (!pauses) pauses.emplace();
    if (settings().poll) poll();
  }
}

void Frame::run_for_all(const RunSettings& settings) {
  settings_ = &settings;
  for_all_ = true;
  const Progress progress = advance();
  promise(progress == Progress::ended, "nobody is there to wait for");
}

Frame::Progress Frame::advance() {
  const RunSettings& settings = *top_->settings_;
  for (; segment_ < binding_.segment_count(); ++segment_) {
    const Segment& segment = plan_.segments[segment_];
    if (segment.by_first && group_ && !for_all_) {
      return end_exchanges(nullptr) ? Progress::for_all : Progress::waits;
    }
    if (next_ < 0) {
      enter_segment(segment_);
      next_ = segment.begin;
    }
    while (next_ < segment.end) {
      if (settings.stop && settings.stop->load(std::memory_order_relaxed)) throw RunStopped{};
      Replays::Stretch* stretch = replays_ ? replays_->at(next_) : nullptr;
      if (stretch && replay(*stretch)) {
        next_ = stretch->end;
        continue;
      }
      if (!under_way_.empty() && !end_exchanges(&plan_.instructions[next_].finishes)) {
        return Progress::waits;
      }
      if (!steps_.empty() && steps_[static_cast<size_t>(next_)]) {
        if (!take_part(next_)) {
          if (!plan_.instructions[next_].goes_on) return Progress::waits;
          under_way_.push_back(next_);
        }
      } else {
        run_instruction(next_);
      }
      ++next_;
    }
    leave_segment(segment_);
    next_ = -1;
  }
  return end_exchanges(nullptr) ? Progress::ended : Progress::waits;
}

// Moves on what travels; false: some of `awaited`, or of all, has not ended.
bool Frame::end_exchanges(const std::vector<int>* awaited) {
  std::erase_if(under_way_, [this](int index) { return take_part(index); });
  if (!awaited) return under_way_.empty();
  return std::none_of(awaited->begin(), awaited->end(), [this](int index) {
    return std::find(under_way_.begin(), under_way_.end(), index) != under_way_.end();
  });
}

bool Frame::take_part(int index) {
  const Instruction& instruction = plan_.instructions[index];
  current_ = index;
  if (!instruction.waits.empty()) wait_for_others(instruction);
  const bool timed = profiling_on();
  constexpr std::chrono::steady_clock::time_point kNever{};
  if (timed && waiting_since_ == kNever) waiting_since_ = std::chrono::steady_clock::now();
  CollectiveStep& step = *steps_[static_cast<size_t>(index)];
  try {
    if (!ring_of_.empty()) step.join(top_->rings_.group(ring_of_[static_cast<size_t>(index)]));
    const bool done = step.run(binding_.instruction(index));
    if (done && timed) record_event(event_of(index, ProfileEvent::Kind::wait), waiting_since_);
    if (done) waiting_since_ = kNever;
    return done;
  } catch (Error& e) {
    throw add_node_context(e, plan_.graph.nodes[instruction.node], binding_.fact_pointers());
  }
}

void Frame::run_instruction(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const BoundInstruction& bound = binding_.instruction(index);
  const RunSettings& settings = *top_->settings_;
  current_ = index;
  if (instruction.once && made_of_states_) return;
  if (!instruction.cleared.empty()) placement_.put_aside(instruction);
  for (int number : instruction.region_plans) {
    regions_[static_cast<size_t>(number)]->forget_packed();
  }
  const bool timed = profiling_on();
  const auto start =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  try {
    if (!instruction.waits.empty()) wait_for_others(instruction);
    run_kernel(index);
    if (instruction.signals) {
      top_->queues_->device().record(*top_->queues_->of(instruction.runner), *events_[index]);
    }
    if (timed && plan_.has_queues) synchronize();  // its time is the kernel's, not the call's
    if (timed) record_event(event_of(index, ProfileEvent::Kind::op), start);
    if (settings.check_nan_inf) check_finite(index);
  } catch (Error& e) {
    add_node_context(e, plan_.graph.nodes[instruction.node], binding_.fact_pointers());
    explain_partial_writes(e, index);
    throw;
  }
  // The clock is looked at behind what takes long, and now and then behind the rest.
  if (settings.poll && (bound.cut || (++top_->ticks_ & 15) == 0)) poll();
}

void Frame::run_kernel(int index) {
  const BoundInstruction& bound = binding_.instruction(index);
  if (bound.alias) return;
  KernelArgs args;
  args.ins = bound.ins.data();
  args.outs = bound.outs.data();
  args.scratch = placement_.scratch(index, bound);
  args.run = this;
  if (plan_.has_queues) args.queue = top_->queues_->of(plan_.instructions[index].runner);
  const bool packed = bound.keeps_scratch && placement_.is_packed(index);
  const auto run = [&](const BoundKernel& phase) {
    if (!packed || phase.packs < 0) run_phase(phase, bound.cut, args);
  };
  run(bound.kernel);
  for (const BoundKernel& phase : bound.kernel.then) run(phase);
  if (bound.keeps_scratch) placement_.set_packed(index);
}

// Waits before and signals behind the whole stretch: later than need be, never too early.
bool Frame::replay(Replays::Stretch& stretch) {
  const RunSettings& settings = *top_->settings_;
  if (settings.check_nan_inf || profiling_on()) return false;
  const auto scratch = [this](int index, const BoundInstruction& bound) {
    return placement_.scratch(index, bound);
  };
  if (!Replays::repeats(stretch, binding_, segment_, scratch)) return false;
  Device& device = top_->queues_->device();
  Queue& queue = *top_->queues_->of(Runner::compute);
  if (!stretch.work) {
    stretch.work = device.capture(queue, [&] {
      for (current_ = stretch.begin; current_ < stretch.end; ++current_) {
        try {
          run_kernel(current_);
        } catch (Error& e) {
          throw add_node_context(e, plan_.graph.nodes[plan_.instructions[current_].node],
                                 binding_.fact_pointers());
        }
      }
    });
  }
  for (const int waited : stretch.waits) device.wait(queue, *events_[waited]);
  stretch.work->replay(queue);
  for (const int index : stretch.signals) device.record(queue, *events_[index]);
  if (settings.poll) poll();
  return true;
}

RunContext::StreamOffset Frame::stream_offset() const {
  const StreamOffset by_number{.before = 0, .replica = static_cast<uint64_t>(replica())};
  return outer_ || stream_offsets_.empty() ? by_number
                                           : stream_offsets_[static_cast<size_t>(current_)];
}

ProfileEvent Frame::event_of(int index, ProfileEvent::Kind kind) const {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  return {.op = node.origin ? node.origin->op_type : node.schema->type(),
          .kind = kind,
          .plan = &plan_,
          .origin = node.origin.get(),
          .instruction = index,
          .replica = replica(),
          .runner = static_cast<int>(instruction.runner),
          .remote = node.origin && (node.origin->role & op_role::kRpc) != 0};
}

void Frame::poll() {
  const auto now = std::chrono::steady_clock::now();
  if (now < top_->next_poll_) return;
  top_->next_poll_ = now + std::chrono::milliseconds(100);
  settings().poll();
}

void Frame::wait_for_others(const Instruction& instruction) {
  for (int waited : instruction.waits) top_->queues_->wait(instruction.runner, *events_[waited]);
}

void Frame::synchronize() const {
  if (top_->queues_) top_->queues_->synchronize();
}

// Kept by kernels that fail when this instruction is long past.
std::function<void(Error&)> Frame::error_context() const {
  return [this, index = current_](Error& error) {
    add_node_context(error, plan_.graph.nodes[plan_.instructions[index].node],
                     binding_.fact_pointers());
  };
}

// The number of parts is the kernel's, whoever runs them: results do not depend on the team.
void Frame::run_phase(const BoundKernel& phase, bool cut, KernelArgs args) {
  args.parts = cut ? phase.parts : 1;
  TeamLease* lease = settings().team;
  Team* team = args.parts > 1 && lease && !args.queue ? lease->team() : nullptr;
  if (team) {
    const bool timed = profiling_on();
    const auto run_part = [&](int part) {
      KernelArgs mine = args;
      mine.part = part;
      if (!timed) return phase.run(mine);
      const auto start = std::chrono::steady_clock::now();
      phase.run(mine);
      record_event(event_of(current_, ProfileEvent::Kind::part), start);
    };
    team->run(args.parts,
              std::ref(run_part));  // what is larger than a reference would be copied to the heap
  } else {
    for (args.part = 0; args.part < args.parts; ++args.part) phase.run(args);
  }
}

void Frame::check_finite(int index) const {
  synchronize();
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    if (value < 0) continue;
    const Variable& variable = slots_.of(value);
    const Tensor* tensor = variable.kind() == Kind::dense  ? &variable.tensor()
                           : variable.kind() == Kind::rows ? &variable.rows().value
                                                           : nullptr;
    if (!tensor || !tensor->initialized()) continue;
    if (tensor->dtype() != DType::float32 && tensor->dtype() != DType::float64) continue;
    const Tensor held = tensor->on_host();
    const bool fine =
        held.dtype() == DType::float32 ? all_finite<float>(held) : all_finite<double>(held);
    if (!fine) {
      const std::string& name = binding_.facts(value).name;
      throw Error(ErrorKind::precondition,
                  cat("its result ", name.empty() ? "(computed)" : name, " holds nan or inf"))
          .fix("look at the operands above; FLAGS_check_nan_inf=0 turns this check off");
    }
  }
}

void Frame::explain_partial_writes(Error& error, int failed) const {
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

bool Frame::is_for_all(int value) const {
  const int writer = plan_.graph.values[value].node;
  return writer >= 0 &&
         (plan_.graph.nodes[writer].by_first || plan_.graph.nodes[writer].decided.to_first);
}

std::vector<Variable> Frame::take_fetches() {
  std::vector<Variable> results;
  results.reserve(plan_.graph.fetches.size());
  const auto slot_of = [this](size_t i) { return plan_.slot_of[plan_.graph.fetches[i].value]; };
  for (size_t i = 0; i < plan_.graph.fetches.size(); ++i) {
    const int slot = slot_of(i);
    Variable& variable = slots_[slot];
    results.emplace_back();
    if (replica() > 0 && is_for_all(plan_.graph.fetches[i].value)) continue;
    size_t first = 0;  // fetched under several names: the first took its memory
    while (slot_of(first) != slot) ++first;
    if (first < i) {
      if (results[first].initialized()) results.back().copy_from(results[first]);
      continue;
    }
    const bool give = plan_.slots[slot].kind == SlotKind::own && variable.kind() == Kind::dense &&
                      variable.tensor().initialized() &&
                      !placement_.is_in_bucket(variable.tensor());
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

RegionRunner& Frame::region(int index) const {
  const std::vector<int>& plans = plan_.instructions[current_].region_plans;
  return *regions_[static_cast<size_t>(plans.at(static_cast<size_t>(index)))];
}

// They are numbered through the whole run, so that no two of them draw the same numbers.
void Frame::forget_iterations() {
  iteration_ = 0;
  for (const auto& region : regions_) region->body().forget_iterations();
}

void Frame::run_region(int index, StepScopes* keep) { region(index).run(keep); }
void Frame::begin_iterations(int index, int64_t rows) { region(index).begin(rows); }
void Frame::run_iteration(int index, const Iteration& iteration) {
  region(index).iterate(iteration);
}
void Frame::end_iterations(int index) { region(index).end(); }

}  // namespace trireme
