// A plan bound to facts: what is known of every value, and the kernel of every instruction.
//
// A plan is bound segment by segment. What was bound for other facts is remembered: coming back to
// them infers nothing and chooses no kernel. The bindings of a plan's sub-blocks hang on this one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/plan.h"
#include "core/device.h"
#include "runtime/problem.h"
#include "runtime/slot_variables.h"

namespace trireme {

struct BoundInstruction {
  BoundKernel kernel;
  std::vector<const Kernel*> chosen;  // one, or one per member of a group; fewer: in float32
  std::vector<Variable*> ins, outs;
  bool cut = false;    // worth sharing out: by shape alone, whoever runs it
  bool alias = false;  // the result stands where the operand does: nothing to be done
  // In a loop: it packs what no iteration changes, into scratch of its own, when the loop begins.
  bool keeps_scratch = false;
  size_t scratch_offset = 0;
};

class Binding {
 public:
  Binding(const Plan& plan, SlotVariables& slots, Device* device);  // null: the host alone
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  // The segments that the first replica runs for all are not this one's.
  void leave_out_by_first();
  size_t segment_count() const { return segments_; }
  // In the order of the plan's regions.
  void add_region(Binding& inner, const Plan::RegionPlan& region);

  const ValueInfo& facts(int value) const { return facts_[static_cast<size_t>(value)]; }
  const std::vector<ValueInfo>& all_facts() const { return facts_; }
  const std::vector<ValueInfo*>& fact_pointers() const { return fact_pointers_; }
  BoundInstruction& instruction(int index) { return bound_[static_cast<size_t>(index)]; }
  const std::vector<BoundInstruction>& instructions() const { return bound_; }

  // Takes the facts of what a run or an iteration begins with: feeds, states, outer values. True
  // when some differ from those before.
  bool take_entries();

  // One segment: finds the facts of its values, remembered or inferred; then its kernels; and then
  // it is bound, until facts or the values that decide its shapes change.
  [[nodiscard]] Problem settle_facts(size_t segment);
  bool has_kernels(size_t segment) const { return present_[segment].has_kernels; }
  [[nodiscard]] Problem choose_kernel(int instruction, size_t cut_bytes);
  void mark_bound(size_t segment);
  bool is_bound(size_t segment) const;
  void unbind(size_t segment) { is_bound_[segment] = false; }
  void unbind_after(size_t segment);
  void unbind();  // all of them, and what was found ahead of the run
  void forget();  // also what is remembered: operands stand elsewhere now
  uint64_t number(size_t segment) const { return present_[segment].number; }
  // Behind an instruction whose facts only the run knows: takes what it left.
  void take_late_facts(const Instruction& instruction, size_t segment);

  // Ahead of a run (binding_ahead.cc): all segments up to the first whose shapes depend on what the
  // run computes, through sub-blocks. `running`: what segments begin with is there, not only its
  // shape; `shapes_only`: what feeds hold is not what will be fed. What is wrong is told of the
  // first segment; of a later one it is said when the run comes to it: what stands before it, a
  // print, say, is not held back.
  [[nodiscard]] Problem infer_ahead(bool running, bool shapes_only);
  bool is_ahead() const { return is_ahead_; }
  void set_ahead(bool done) { is_ahead_ = done; }
  bool ignored_contents() const { return ignored_contents_; }
  size_t segments_ahead() const { return ahead_; }
  bool last_is_known() const { return late_known_; }  // what the last of them leaves
  // The instruction is bound ahead, and what it leaves is known.
  bool knows_late(int instruction) const;
  // Its shape is that of the coming run, not one that another run left behind.
  bool known_before_run(int value) const;
  // Shapes follow from what a feed or a variable holds.
  bool reads_entries() const;
  bool knows_all() const { return knows_all_; }  // every shape of the coming run
  void set_not_all_known() { knows_all_ = false; }

  // Of a sub-block: how many iterations there will be, -1 where the run decides; and the bytes that
  // they keep for their gradient, where that is known.
  int64_t iterations() const { return iterations_; }
  std::optional<size_t> stack_bytes() const;
  std::optional<size_t> kept_bytes(int value) const;  // of one value in one iteration
  // Whose iterations left what `value`, a StepScopes, holds; null: not known.
  const Binding* keeper_of(int value) const;
  const std::vector<int>& saved() const { return plan_.graph.saved; }

  size_t bind_count() const { return binds_; }  // segments bound so far
  // The same, with those whose earlier binding was taken again: shapes may be others since.
  size_t change_count() const { return changes_; }
  size_t touched_bytes(const Node& node) const;

 private:
  // A segment as bound to some facts.
  struct Bound {
    uint64_t number = 0;  // no other of this binding has it; 0: not made
    bool has_kernels = false;
    std::vector<ValueInfo> entries;  // by Segment::entries
    std::vector<Tensor> contents;    // by Segment::reads_values
    // Only while another is in use; else they are the binding's.
    std::vector<ValueInfo> inferred;
    std::vector<BoundInstruction> instructions;
  };

  bool same_values(size_t segment, const Bound& bound) const;
  bool fits(size_t segment, const Bound& bound) const;
  void exchange_parts(size_t segment, Bound& bound);
  void begin(size_t segment);
  Problem infer_segment(size_t segment);
  Problem infer_whole(const Node& node);
  Problem infer_node(const Node& node);
  Problem in_context(Problem problem, const Node& node) const;
  Problem kernel_for(const Node& node, bool late, BoundInstruction& bound, BoundKernel& made);
  Problem group_kernel(const Node& group, BoundInstruction& bound, size_t cut_bytes);
  void find_kept_scratch(const Node& node, BoundInstruction& bound) const;

  bool can_read(const Segment& segment, bool running) const;
  bool infer_late(int instruction);
  bool infer_host(const Node& node);
  bool infer_region(const Node& node, const Region& region, Binding& inner);
  bool infer_entries(const Node& node, const Region& region, Binding& inner) const;
  bool infer_results(const Node& node, const Region& region, const Binding& inner);
  int segment_of(int instruction) const;

  const Plan& plan_;
  SlotVariables& slots_;
  Device* device_;
  size_t segments_;  // that are run
  std::vector<Binding*> regions_;
  const Plan::RegionPlan* as_region_ = nullptr;
  std::vector<ValueInfo> facts_;  // by value
  std::vector<ValueInfo*> fact_pointers_;
  std::vector<int> outer_values_;               // of a region: those that begin in slots around it
  std::vector<BoundInstruction> bound_;         // by instruction
  std::vector<bool> is_bound_;                  // by segment
  std::vector<Bound> present_;                  // by segment
  std::vector<std::vector<Bound>> remembered_;  // by segment, the last used first
  uint64_t last_number_ = 0;
  size_t binds_ = 0, changes_ = 0;

  bool is_ahead_ = false;
  bool ignored_contents_ = false;  // of feeds, when it was bound ahead
  size_t ahead_ = 0;               // segments
  bool late_known_ = false;
  bool knows_all_ = false;
  int64_t iterations_ = -1;
  const Binding* forward_ = nullptr;  // of a gradient's region: whose iterations it goes through
};

}  // namespace trireme
