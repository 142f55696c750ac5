// The state of one run of a plan: its variables, bound and placed, and how far the run has come.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"
#include "compile/plan.h"
#include "core/scope.h"
#include "cpu/team.h"
#include "ops/run_context.h"
#include "runtime/binding.h"
#include "runtime/collective_step.h"
#include "runtime/device_queues.h"
#include "runtime/memory_placement.h"
#include "runtime/profiler.h"
#include "runtime/replays.h"
#include "runtime/run_rings.h"
#include "runtime/slot_variables.h"

namespace trireme {

class GraphSteps;
class JsonWriter;
class RegionRunner;

// Below this an instruction is not worth sharing out: it takes about as long as two barriers.
inline constexpr size_t kCutBytes = size_t{32} << 10;

struct RunSettings {
  uint64_t process_seed = 1;
  bool check_nan_inf = false;
  std::function<void()> poll;    // called about every 100 ms; throws to end the run (Ctrl-C)
  TeamLease* team = nullptr;     // shares out instructions that may be cut; null: the caller alone
  size_t cut_bytes = kCutBytes;  // instructions that touch less run whole
  bool counts_step = true;       // a run that writes states is one training step
  bool shapes_only = false;      // only to bind: what feeds hold is not what will be fed
  const std::atomic<bool>* stop = nullptr;  // set by others: the run ends with RunStopped
};

// A run ended because another one failed; that one's error is the news.
struct RunStopped {};

class Frame : public RunContext {
 public:
  // How far advance() came: to the end; to where other members have to come first; to what the
  // first replica runs for all, when the others have ended.
  enum class Progress { ended, waits, for_all };

  explicit Frame(const Plan& plan, const Place& place = cpu_place());
  Frame(const Plan& plan, Frame& outer);  // of a sub-block
  ~Frame() override;

  // A run: feeds by the plan's feed numbers, whose memory is only read, then the rest. Binds what
  // is not bound yet.
  Variable& fed(size_t number) const { return slots_.of(plan_.graph.feeds[number].value); }
  void feed(size_t number, const Tensor& tensor) { fed(number).tensor() = tensor; }
  void run(Scope& scope, const RunSettings& settings);
  // The same in parts, for a member of a group: after begin, advance goes on until nothing is left,
  // and then comes finish. It never waits for other members.
  void begin(Scope& scope, const RunSettings& settings);
  Progress advance();
  void run_for_all(const RunSettings& settings);  // from Progress::for_all to the end
  void finish();
  void poll();  // where 100 ms have passed since the last time
  // What other replicas take part in goes through the group, which must outlive the frame.
  void join_group(Group& group);
  // Where the random numbers of this replica begin, by instruction.
  void set_stream_offsets(std::vector<StreamOffset> offsets) {
    stream_offsets_ = std::move(offsets);
  }
  // Taken before the scope's, by every later bind; must outlive the frame. Empty: none.
  void use_local_states(const LocalStates* states) { local_states_ = states; }
  // Begins a run; before it, for whoever looks at the states' variables first.
  void find_states(Scope& scope);
  Variable& state(int slot) const { return slots_[slot]; }
  // Only binds what is fed, as far as shapes are known before the run. Feeds need no memory then.
  void bind(Scope& scope, const RunSettings& settings) { begin(scope, settings); }
  // After run: what a kept value holds; one variable per fetch, with memory of its own.
  const Variable& value(int value) const { return slots_.of(value); }
  std::vector<Variable> take_fetches();
  bool is_for_all(int value) const;  // the first replica has it for all of them

  const Binding& binding() const { return binding_; }
  const MemoryPlacement& placement() const { return placement_; }
  // Stretches that the device runs as one piece of work by now.
  size_t replayed() const { return replays_ ? replays_->captured() : 0; }
  uint64_t bound_scope() const { return slots_.scope_id(); }
  // What is known of its memory are all bytes that the coming run asks for; or it has run, and they
  // are what it took.
  bool knows_its_memory() const { return binding_.knows_all() || ran_; }
  // As bound now: the memory with its largest owners, the kernels by op.
  std::string report() const;
  // This plan and those of its sub-blocks.
  void list_plans(std::vector<const Plan*>& plans) const;
  // The same whole, for other programs. `graph` is its graph's number among those of `graphs`;
  // plans go by their places in the list.
  void write_json(JsonWriter& out, const GraphSteps& graphs, int graph,
                  const std::vector<const Plan*>& plans) const;
  // Of the instructions, the lives of values and, where shapes follow from the feeds' shapes, their
  // places in memory: equal digests run the same way.
  std::string digest() const;

  // RunContext
  void run_region(int index, StepScopes* keep) override;
  void begin_iterations(int index, int64_t rows) override;
  void run_iteration(int index, const Iteration& iteration) override;
  void end_iterations(int index) override;
  Scope& scope() override { return *top_->scope_; }
  uint64_t step() const override { return top_->step_; }
  uint64_t process_seed() const override { return settings().process_seed; }
  uint64_t iteration() const override { return iteration_; }
  StreamOffset stream_offset() const override;
  std::function<void(Error&)> error_context() const override;

 private:
  friend class RegionRunner;
  Frame(const Plan& plan, const Place& place, Frame* outer);

  const RunSettings& settings() const { return *top_->settings_; }
  RegionRunner& region(int index) const;  // of the instruction that runs
  void forget_iterations();

  // Binding and memory together (frame_bind.cc).
  void look_at_states(const Scope& scope);
  void bind_entries();
  void look_ahead();
  void settle_ahead(bool running);
  void settle_late(int instruction);
  [[nodiscard]] Problem settle(size_t segment);
  void enter_segment(size_t segment);
  void leave_segment(size_t segment);
  void check_held(const Segment& segment) const;

  void run_segments();
  void find_exchanges_by_ring();
  bool take_part(int index);
  bool end_exchanges(const std::vector<int>* awaited);
  int replica() const { return top_->group_ ? top_->group_->rank() : 0; }
  void run_instruction(int index);
  void run_kernel(int index);
  bool replay(Replays::Stretch& stretch);  // false: it is to be run one by one
  void run_phase(const BoundKernel& phase, bool cut, KernelArgs args);
  void wait_for_others(const Instruction& instruction);
  void synchronize() const;  // what is in the device's queues has ended
  void write_slots(JsonWriter& out) const;
  ProfileEvent event_of(int index, ProfileEvent::Kind kind) const;
  void check_finite(int index) const;
  void explain_partial_writes(Error& error, int failed) const;

  const Plan& plan_;
  const Place place_;
  Frame* const outer_;
  Frame* const top_;
  std::unique_ptr<DeviceQueues> queues_;        // the top frame's, where there is a device
  std::vector<std::unique_ptr<Event>> events_;  // by instruction that signals
  std::unique_ptr<Replays> replays_;            // where there is a device
  SlotVariables slots_;
  Binding binding_;
  MemoryPlacement placement_;
  std::vector<std::unique_ptr<RegionRunner>> regions_;
  const LocalStates* local_states_ = nullptr;
  Group* group_ = nullptr;                              // null: it is alone
  std::vector<std::unique_ptr<CollectiveStep>> steps_;  // by instruction; null: it runs alone
  std::vector<size_t> ring_of_;  // by instruction, where some exchange by a ring: its number
  std::vector<StreamOffset> stream_offsets_;  // by instruction, in a data-parallel run

  // Of the top frame alone.
  Scope* scope_ = nullptr;
  const RunSettings* settings_ = nullptr;
  RunRings rings_;
  uint64_t step_ = 0;
  unsigned ticks_ = 0;  // short instructions run
  std::chrono::steady_clock::time_point next_poll_{};
  bool ran_ = false;
  std::array<uint64_t, 3>
      states_seen_{};            // as the last run found them, in a plan whose states stay
  bool made_of_states_ = false;  // what follows from them is there
  bool made_to_end_ = false;     // the last run made it

  uint64_t iteration_ = 0;                                 // of a sub-block, through the whole run
  std::chrono::steady_clock::time_point waiting_since_{};  // while a collective is under way
  int current_ = 0;                                        // instruction
  size_t segment_ = 0;                                     // where advance() goes on
  int next_ = -1;               // instruction; -1: the segment is not entered yet
  bool for_all_ = false;        // the others have ended
  std::vector<int> under_way_;  // exchanges that instructions behind them did not wait for
};

}  // namespace trireme
