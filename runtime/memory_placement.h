// Where the values of a bound plan stand: one layout of memory for all segments that are bound
// together, with what sub-blocks need while they run and what they keep for their gradients.
//
// Values of segments bound ahead of a run stand in an arena, those of a sub-block in a part of the
// arena around it. A segment bound while the run goes on has a second arena: what lives beyond it
// has memory of its own, what lives within it stands where no earlier value does.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <vector>

#include "compile/memory_plan.h"
#include "compile/views.h"
#include "core/step_scopes.h"
#include "runtime/binding.h"

namespace trireme {

class MemoryPlacement {
 public:
  MemoryPlacement(const Plan& plan, Binding& binding, const SlotVariables& slots,
                  const Place& device);
  MemoryPlacement(const MemoryPlacement&) = delete;
  MemoryPlacement& operator=(const MemoryPlacement&) = delete;
  void add_region(MemoryPlacement& inner);  // in the order of the plan's regions

  // Lays out what is bound ahead, sub-blocks first.
  void plan_ahead();
  // Memory for that layout: the arena it has, or a larger one.
  void take_arena();
  // Lays out a segment that is bound while the run goes on.
  void plan_late(size_t segment);

  // Results of an instruction take their memory, with the shapes of the binding.
  [[nodiscard]] Problem prepare_results(int instruction);
  // An instruction whose facts the run decides: its sub-blocks have a part of the arena where they
  // are known ahead, else they find memory of their own; and so have its results.
  void lend_arena(int instruction);
  void prepare_late(int instruction);
  // The values that this sub-block's iterations hand on.
  void prepare_carried(const Plan::RegionPlan& region);

  // Results that hold nothing unless a sub-block runs: their memory is put aside, and taken again.
  void put_aside(const Instruction& instruction);
  void take_again(int slot);  // where it holds nothing
  // In the arena, ahead of the run: all rows that will be appended have room.
  bool is_ahead(int slot) const { return home_[slot] == Home::ahead; }
  bool has_own_memory(int slot) const { return home_[slot] == Home::own; }
  size_t offset(int slot) const { return offset_[slot]; }
  // Of a sub-block, by side (0: the host): where its part of the arena begins, and how large it is.
  size_t base(size_t side) const { return arenas_[side].base; }
  size_t planned(size_t side) const { return arenas_[side].planned; }

  // Scratch of the instruction that runs: as large as any asks for, or what a loop's instruction
  // keeps from iteration to iteration.
  void reserve_scratch(int instruction, const BoundInstruction& bound);
  void place_kept_scratch();
  std::byte* scratch(int instruction, const BoundInstruction& bound) const;
  bool is_packed(int instruction) const { return packed_[instruction]; }
  void set_packed(int instruction) { packed_[instruction] = true; }
  void forget_packed() { packed_.assign(packed_.size(), false); }

  void make_buckets();  // once
  // All of a bucket of the plan, in one dimension.
  const Tensor& bucket(size_t number) const { return buckets_[number]; }
  size_t bucket_count() const { return buckets_.size(); }
  bool is_in_bucket(const Tensor& tensor) const;

  size_t planned_bytes() const { return arenas_[0].planned + arenas_[1].planned; }
  bool is_lent() const { return lent_; }
  size_t arena_bytes() const;  // with those of regions
  // The most bytes of arenas that live at one instruction: no layout can need fewer.
  size_t live_bytes() const;
  size_t scratch_bytes() const;  // with what loops keep
  // Of values with memory of their own: fetches, SelectedRows, arrays, what host ops make.
  size_t own_bytes() const;

 private:
  struct Layout {
    uint64_t number = 0;          // no other of this placement has it
    std::vector<uint64_t> key;    // numbers of bindings and of the regions' layouts
    std::vector<size_t> offsets;  // by slot; kNone: memory of its own
    struct Side {
      std::vector<size_t> of_region;  // by region: where its memory begins
      size_t bytes = 0, live = 0;
    };
    std::array<Side, 2> sides;  // the host's and the device's
  };
  // Memory of one side.
  struct Arena {
    std::shared_ptr<Buffer> buffer;
    size_t base = 0;  // in it
    size_t lent = 0;  // bytes, of that of the frame around
    std::shared_ptr<Buffer> late;
    size_t planned = 0, live = 0;  // of what is bound ahead
    size_t late_live = 0;
    std::shared_ptr<Buffer> scratch;       // the root's
    std::shared_ptr<Buffer> kept_scratch;  // of a loop's instructions that keep theirs
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);
  enum class Home : char { own, ahead, late };

  template <class Use>
  void each_region(Stretch segments, Use use) const;  // with the instruction it belongs to
  size_t side_of(int slot) const { return plan_.slots[slot].on_device ? 1 : 0; }
  Place place_of(size_t side) const { return side == 1 ? device_ : cpu_place(); }
  size_t scratch_side(int instruction) const;
  const Layout& layout_of(Stretch segments, bool ahead);
  Layout make_layout(Stretch segments, bool ahead) const;
  MemoryPlan lay_out(Stretch segments, bool ahead, size_t side, std::vector<Interval>& intervals,
                     Layout::Side& made) const;
  std::vector<size_t> bytes_by_slot(Stretch segments, bool ahead) const;
  void prepare(int value, bool shared);
  Problem in_place_problem(int value) const;
  bool fits(const Tensor& tensor, int value) const;
  bool is_operand(const Node& node, int slot) const;
  void leave_arena(int instruction);
  void clear_late();
  void leave_outer_arena();
  void collect_own(std::set<const Buffer*>& met, size_t& bytes) const;

  const Plan& plan_;
  Binding& binding_;
  const SlotVariables& slots_;
  const Place device_;
  MemoryPlacement* root_ = this;
  std::vector<MemoryPlacement*> regions_;

  std::array<Arena, 2> arenas_;               // the host's and the device's
  bool lent_ = false;                         // they are those of the frame around
  std::vector<Home> home_;                    // by slot
  std::vector<size_t> offset_;                // by slot
  std::vector<bool> in_arena_;                // by slot: its tensor is
  std::vector<bool> was_late_;                // by segment
  std::vector<std::vector<Layout>> layouts_;  // by first segment, the last used first
  std::vector<uint64_t> wanted_;              // the key of a layout that is looked for
  uint64_t last_number_ = 0;

  std::vector<Variable> aside_;  // by slot; or empty
  std::vector<Tensor> buckets_;
  std::vector<bool> packed_;  // by instruction: its kept scratch holds what it packs
};

}  // namespace trireme
