// One running instance of a plan: its memory, and the plan bound to shapes and to a scope's slots.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/plan.h"
#include "compile/views.h"
#include "core/scope.h"
#include "cpu/team.h"
#include "ops/run_context.h"
#include "runtime/group.h"

namespace trireme {

// Below this an instruction is not worth sharing out: it takes about as long as two barriers.
inline constexpr size_t kCutBytes = size_t{32} << 10;

struct RunSettings {
  uint64_t process_seed = 1;
  bool check_nan_inf = false;
  std::function<void()> poll;    // called about every 100 ms; throws to end the run (Ctrl-C)
  TeamLease* team = nullptr;     // shares out instructions that may be cut; null: the caller alone
  size_t cut_bytes = kCutBytes;  // instructions that touch less run whole
  bool counts_step = true;       // a run that writes states is one training step
  bool meets = false;            // advance() stops where replicas exchange values
  bool shapes_only = false;      // only to bind: what feeds hold is not what will be fed
  const std::atomic<bool>* stop = nullptr;  // set by others: the run ends with RunStopped
};

// A run ended because another one failed; that one's error is the news.
struct RunStopped {};

// States of one replica: what it writes for itself, instead of the scope's variable of that name.
using LocalStates = std::map<std::string, Variable>;

class Frame : public RunContext {
 public:
  explicit Frame(const Plan& plan);

  // A run: feeds by the plan's feed numbers, whose memory is only read, then the rest. Binds what
  // is not bound yet.
  Variable& fed(size_t number) { return at(plan_.graph.feeds[number].value); }
  const Variable& fed(size_t number) const {
    return *slots_[plan_.slot_of[plan_.graph.feeds[number].value]];
  }
  void feed(size_t number, const Tensor& tensor) { fed(number).tensor() = tensor; }
  void run(Scope& scope, const RunSettings& settings);
  // The same in parts, for replicas: after begin, advance runs up to the next instruction where
  // replicas exchange values and returns its number; -1 when all have run, and then comes finish.
  void begin(Scope& scope, const RunSettings& settings);
  int advance();
  void finish();
  const Tensor& offered(int exchange) const { return bound_[exchange].ins[0]->tensor(); }
  Tensor& received(int exchange) { return bound_[exchange].outs[0]->tensor(); }
  // Its number among the replicas, and where its random numbers begin, by instruction.
  void set_replica(int number, std::vector<StreamOffset> draws);
  // Looked up before the scope's, by every later bind; must outlive the frame.
  void use_local_states(LocalStates* states) { local_states_ = states; }
  // Only binds what is fed, as far as shapes are known before the run. Feeds need no memory then.
  void bind(Scope& scope, const RunSettings& settings) { begin(scope, settings); }
  // After bind: what is known of a value. After run: what a kept value holds.
  const ValueInfo& facts(int value) const { return facts_[value]; }
  // After bind: its shape is that of the coming run, not one that another run left behind.
  bool known_before_run(int value) const;
  const Variable& value(int value) { return at(value); }
  // All of a bucket of the plan, in one dimension.
  const Tensor& bucket(size_t number) const { return buckets_[number]; }
  // After run: one per fetch, with memory of its own.
  std::vector<Variable> take_fetches();

  uint64_t bound_scope() const { return bound_scope_id_; }
  size_t bind_count() const { return binds_; }  // segments bound so far
  // The same, with those whose earlier binding was taken again: shapes may be others since.
  size_t change_count() const { return changes_; }
  size_t arena_bytes() const;  // with those of regions
  // The most bytes of arenas that live at one instruction: no plan can need fewer.
  size_t live_bytes() const;
  size_t scratch_bytes() const;  // with what loops keep
  // Of values with memory of their own: fetches, SelectedRows, arrays, what host ops make.
  size_t own_bytes() const;
  // These are all bytes that the coming run asks for; or it has run, and they are what it took.
  bool knows_its_memory() const { return knows_all_ || ran_; }
  // As bound now: the memory with its largest owners, the kernels by op.
  std::string report() const;
  // Of the instructions, the lives of values and, where shapes follow from the feeds' shapes, their
  // places in memory: equal digests run the same way.
  std::string digest() const;

  // RunContext
  void run_region(int index, StepScopes* keep) override;
  void begin_iterations(int index, int64_t rows) override;
  void run_iteration(int index, const Iteration& pass) override;
  void end_iterations(int index) override;
  Scope& scope() override { return *scope_; }
  uint64_t step() const override { return step_; }
  uint64_t process_seed() const override { return settings_->process_seed; }
  uint64_t iteration() const override { return iteration_; }
  StreamOffset stream_offset() const override;

 private:
  struct Bound {
    BoundKernel kernel;
    std::vector<const Kernel*> chosen;  // one, or one per member of a group; fewer: in float32
    std::vector<Variable*> ins, outs;
    bool cut = false;   // worth sharing out: by shape alone, whoever runs it
    bool moot = false;  // the result stands where the operand does: nothing to be done
    // In a loop: it packs what no pass changes, into scratch of its own, when the loop begins.
    bool keeps = false;
    size_t scratch_at = 0;
  };

  // A segment as bound to some facts.
  struct Binding {
    uint64_t number = 0;  // no other of this frame has it; 0: not made
    bool has_kernels = false;
    std::vector<ValueInfo> entries;  // by Segment::entries
    std::vector<Tensor> seen;        // by Segment::reads_values: contents
    // Only while another is in use; else they stand in the frame.
    std::vector<ValueInfo> inferred;
    std::vector<Bound> instructions;
  };

  // Where the values of segments that are bound together stand.
  struct Placement {
    uint64_t number = 0;            // no other of this frame has it
    std::vector<uint64_t> key;      // of bindings and of the regions' placements
    std::vector<size_t> offsets;    // by slot; kNoPlace: memory of its own
    std::vector<size_t> of_region;  // by region: where its memory begins
    size_t bytes = 0, live = 0;
  };
  static constexpr size_t kNoPlace = static_cast<size_t>(-1);
  enum class Home : char { own, ahead, late };

  void set_top(Frame* top);
  void make_buckets();
  void bind_slots(Scope& scope);
  bool entry_facts_changed();

  // Before a run (frame_ahead.cc).
  void look_ahead();
  void foresee(bool running);
  bool foresee_segment(bool running);
  bool can_read(const Segment& segment, bool running) const;
  bool reads_entries() const;
  bool foresee_late(int index);
  bool foresee_host(const Node& node);
  bool foresee_region(const Node& node, const Region& region, Frame& inner);
  bool foresee_entries(const Node& node, const Region& region, Frame& inner) const;
  bool foresee_results(const Node& node, const Region& region, const Frame& inner);
  bool knows_late(int index) const;
  int segment_of(int instruction) const;
  const Frame* keeper_of(int value) const;
  std::optional<size_t> kept_bytes(int value) const;
  std::optional<size_t> stack_bytes() const;

  // Memory (frame_place.cc).
  const Placement& place(Stretch stretch, bool ahead);
  Placement make_placement(Stretch stretch, bool ahead) const;
  std::vector<size_t> bytes_by_slot(Stretch stretch, bool ahead) const;
  void stand_in(std::shared_ptr<Buffer> arena, size_t base, bool running);
  void stand_late(int index);
  bool is_operand(const Node& node, int slot) const;
  void leave_arena(int index);
  void preset(StepScopes& steps, const std::shared_ptr<Buffer>& arena, size_t at) const;
  void lose_grant();
  void place_late(size_t index);
  std::string region_text() const;
  void collect_own(std::set<const Buffer*>& met, size_t& bytes) const;

  void unbind();
  void settle_facts(size_t index);
  void settle(size_t index);
  bool fits(size_t index, const Binding& binding) const;
  bool same_values(const std::vector<int>& values, const Binding& binding) const;
  void exchange_parts(size_t index, Binding& binding);
  void begin_binding(size_t index);
  void forget_bindings();
  void infer_segment(size_t index);
  void infer_whole(const Node& node);
  void infer_node(const Node& node);
  void bind_instruction(int index);
  size_t touched_by(const Node& node) const;  // bytes
  void give_scratch(const Node& node, Bound& bound);
  void place_kept();
  BoundKernel kernel_for(const Node& node, bool late, Bound& bound);
  std::vector<GroupMember> members_of(const Node& group, Bound& bound);
  void prepare_results(int index);
  void prepare(int value, bool shared);
  void run_segments();
  void enter_segment(size_t index);
  void leave_segment(size_t index);
  void run_instruction(int index);
  void record(int index, std::chrono::steady_clock::time_point start) const;
  void run_phase(const BoundKernel& phase, bool cut, KernelArgs args);
  bool late_facts_changed(const Instruction& instruction);
  void rebind_reshaped(const Instruction& instruction);
  void check_held(const Segment& segment);
  void set_aside(int index);
  int region_number(int index) const;
  bool tie_outer_slots();
  void run_inner(int number, StepScopes* keep);
  void append(int slot, const Tensor& rows, int64_t& before);
  void restart_iterations();
  void poll();
  void write_back();
  void check_finite(int index);
  void explain_partial_writes(Error& error, int failed);
  Variable& at(int value) { return *slots_[plan_.slot_of[value]]; }

  const Plan& plan_;
  std::vector<Variable> own_;     // by slot; unused for slots that live elsewhere
  std::vector<Variable*> slots_;  // by slot
  std::vector<ValueInfo> facts_;  // by value
  std::vector<ValueInfo*> fact_pointers_;
  std::vector<Bound> bound_;  // by instruction
  std::vector<bool> segment_bound_;
  std::vector<Binding> present_;                // by segment
  std::vector<std::vector<Binding>> put_away_;  // by segment, the last used first
  std::vector<std::unique_ptr<Frame>> regions_;
  std::vector<Variable> set_aside_;  // by slot: what results held that hold nothing now; or empty
  std::vector<bool> has_result_;     // of a region's, by port: these passes have given something
  std::vector<int64_t> appended_;    // of a region's, by port: rows that they have given
  int64_t rows_ = 0;  // of a region's: how long the sequences are that its passes go through

  // The first segments are bound before a run, and their values share one plan of memory: in an
  // arena, or for a region in the arena of the frame around it. A segment whose shapes depend on
  // what the run computes is bound when it is entered; its values stand elsewhere.
  bool looked_ahead_ = false;
  bool blindly_ = false;     // not at what the feeds hold
  size_t ahead_ = 0;         // segments
  bool late_known_ = false;  // what the last of them leaves is known, too
  bool knows_all_ = false, ran_ = false;
  std::shared_ptr<Buffer> arena_;
  size_t base_ = 0;       // in it
  bool granted_ = false;  // it is the outer frame's
  size_t granted_bytes_ = 0;
  std::shared_ptr<Buffer> late_arena_;
  std::vector<Home> home_;                          // by slot
  std::vector<size_t> arena_offset_;                // by slot
  std::vector<bool> stood_in_arena_;                // by slot: its tensor does
  std::vector<bool> settled_late_;                  // by segment
  std::vector<std::vector<Placement>> placements_;  // by first segment, the last used first
  std::vector<uint64_t> wanted_;                    // the key of a placement that is looked for
  uint64_t last_number_ = 0;
  size_t planned_bytes_ = 0, live_bytes_ = 0;  // of what is bound ahead
  size_t late_live_bytes_ = 0;
  const Plan::RegionPlan* as_region_ = nullptr;
  int64_t passes_ = -1;             // of a region: how many there will be; -1: the run decides
  const Frame* forward_ = nullptr;  // of a gradient's region: whose passes it goes through

  std::vector<Tensor> buckets_;      // of the plan's
  std::shared_ptr<Buffer> scratch_;  // of the instruction that runs; as large as any asks for
  std::shared_ptr<Buffer> kept_;     // of a loop's instructions that keep theirs
  std::vector<bool> packed_;         // by instruction: kept_ holds what it packs

  Scope* scope_ = nullptr;
  LocalStates* local_states_ = nullptr;
  uint64_t bound_scope_id_ = 0;
  uint64_t bound_epoch_ = 0;
  const RunSettings* settings_ = nullptr;
  Frame* outer_ = nullptr;
  Frame* top_ = this;
  uint64_t step_ = 0;
  uint64_t iteration_ = 0;
  int replica_ = 0;
  std::vector<StreamOffset> draws_;  // by instruction, in a data-parallel run
  int current_ = 0;
  size_t segment_ = 0;  // where advance() goes on
  int next_ = -1;       // instruction; -1: the segment is not entered yet
  size_t binds_ = 0, changes_ = 0;
  unsigned ticks_ = 0;  // short instructions run
  std::chrono::steady_clock::time_point next_poll_{};
};

}  // namespace trireme
