// Where values stand: one plan of the memory of all segments that are bound together, with what
// sub-blocks need while they run and what they keep for their gradients.
#include <algorithm>

#include "compile/memory_plan.h"
#include "ops/host/host_operands.h"
#include "runtime/facts.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

constexpr size_t kMostPlacements = 64;  // per stretch

}  // namespace

// Bytes of the slots that may stand in the stretch's memory. What an instruction leaves that is not
// known yet has memory of its own.
std::vector<size_t> Frame::bytes_by_slot(Stretch stretch, bool ahead) const {
  std::vector<size_t> bytes(plan_.slots.size(), kNoPlace);
  std::vector<bool> open(plan_.slots.size(), false);
  for (int i = plan_.segments[stretch.begin].begin; i < plan_.segments[stretch.end - 1].end; ++i) {
    const Instruction& instruction = plan_.instructions[i];
    const bool known = !instruction.late || (ahead && knows_late(i));
    for (int value : plan_.graph.nodes[instruction.node].outs) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0 || !plan_.lifetimes[slot].within(stretch.begin, stretch.end)) continue;
      std::optional<size_t> need;
      if (facts_[value].type == VarType::lod_tensor && facts_[value].shape.known()) {
        need = byte_count(facts_[value]);
      } else if (known && facts_[value].type == VarType::step_scopes) {
        const Frame* keeper = keeper_of(value);
        if (keeper) need = keeper->stack_bytes();
        if (need == 0u) need.reset();  // there is nothing to place
      }
      if (!known || !need) open[slot] = true;
      if (need) bytes[slot] = bytes[slot] == kNoPlace ? *need : std::max(bytes[slot], *need);
    }
  }
  for (size_t s = 0; s < bytes.size(); ++s) {
    if (open[s]) bytes[s] = kNoPlace;
  }
  return bytes;
}

Frame::Placement Frame::make_placement(Stretch stretch, bool ahead) const {
  Placement made;
  made.offsets.assign(plan_.slots.size(), kNoPlace);
  made.of_region.assign(plan_.regions.size(), kNoPlace);
  const std::vector<size_t> bytes = bytes_by_slot(stretch, ahead);
  const std::vector<int> place = alias_roots(plan_, stretch, facts_);
  check_aliases(plan_, stretch, place);
  std::vector<Interval> intervals;
  std::vector<size_t> interval(plan_.slots.size());  // by slot; a view comes after what it views
  for (const bool views : {false, true}) {
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      if (bytes[s] == kNoPlace || views != (place[s] != static_cast<int>(s))) continue;
      const Lifetime& life = plan_.lifetimes[s];
      if (views) {
        const auto root = static_cast<size_t>(place[s]);
        promise(bytes[root] != kNoPlace, "what is viewed has a place");
        Interval& shared = intervals[interval[s] = interval[root]];
        shared.last = std::max(shared.last, life.last);
      } else {
        interval[s] = intervals.size();
        intervals.push_back({bytes[s], life.first, life.last});
      }
    }
  }
  // A sub-block's memory is taken while its instruction runs.
  std::vector<Interval> alive;  // the same with what lives in them at once; empty: no sub-block
  std::vector<std::pair<size_t, size_t>> regions;  // number, interval
  for (int i = plan_.segments[stretch.begin].begin; i < plan_.segments[stretch.end - 1].end; ++i) {
    for (int number : plan_.instructions[i].region_plans) {
      if (!ahead || !knows_late(i)) continue;
      const Frame& inner = *regions_[static_cast<size_t>(number)];
      made.of_region[static_cast<size_t>(number)] = 0;
      if (inner.planned_bytes_ == 0) continue;
      if (alive.empty()) alive = intervals;
      regions.emplace_back(number, intervals.size());
      intervals.push_back({inner.planned_bytes_, i, i});
      alive.push_back({inner.live_bytes_, i, i});
    }
  }
  if (intervals.empty()) return made;
  const MemoryPlan memory = plan_memory(intervals);
  check_memory(intervals, memory);
  made.bytes = memory.arena_bytes;
  made.live = alive.empty() ? memory.live_bytes : most_alive(alive);
  for (size_t s = 0; s < bytes.size(); ++s) {
    if (bytes[s] != kNoPlace) made.offsets[s] = memory.offsets[interval[s]];
  }
  for (const auto& [number, at] : regions) made.of_region[number] = memory.offsets[at];
  return made;
}

// Remembered, or new. It becomes the first of those that begin where the stretch does.
const Frame::Placement& Frame::place(Stretch stretch, bool ahead) {
  wanted_.clear();
  wanted_.push_back(static_cast<uint64_t>(stretch.end));
  for (int s = stretch.begin; s < stretch.end; ++s) {
    wanted_.push_back(present_[static_cast<size_t>(s)].number);
  }
  wanted_.push_back(ahead);
  wanted_.push_back(late_known_);
  for (int i = plan_.segments[stretch.begin].begin; i < plan_.segments[stretch.end - 1].end; ++i) {
    for (int number : plan_.instructions[i].region_plans) {
      const Frame& inner = *regions_[static_cast<size_t>(number)];
      const bool placed = ahead && knows_late(i) && !inner.placements_.empty();
      wanted_.push_back(placed ? inner.placements_[0].front().number : 0);
    }
  }
  auto& known = placements_[static_cast<size_t>(stretch.begin)];
  const auto found = std::find_if(known.begin(), known.end(),
                                  [this](const Placement& p) { return p.key == wanted_; });
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    return known.front();
  }
  Placement made = make_placement(stretch, ahead);
  made.key = wanted_;
  made.number = ++last_number_;
  if (known.size() == kMostPlacements) known.pop_back();
  known.insert(known.begin(), std::move(made));
  return known.front();
}

// All that was foreseen takes its place in `arena`, from `base` on. As for foresee_segment, only
// what is about to run says what is wrong with it.
void Frame::stand_in(std::shared_ptr<Buffer> arena, size_t base, bool running) {
  arena_ = std::move(arena);
  base_ = base;
  for (size_t s = 0; s < ahead_; ++s) {
    settled_late_[s] = false;
    try {
      settle(s);
    } catch (const Error&) {
      if (running && s == 0) throw;
      knows_all_ = false;
      looked_ahead_ = running;
      return;
    }
    const int last = plan_.segments[s].end - 1;
    if (plan_.instructions[last].late) stand_late(last);
  }
  looked_ahead_ = true;
}

// What a late instruction needs and leaves.
void Frame::stand_late(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  const bool known = knows_late(index);
  if (!known) leave_arena(index);
  for (int region : instruction.region_plans) {
    const auto number = static_cast<size_t>(region);
    Frame& inner = *regions_[number];
    if (!known) {
      inner.lose_grant();
      continue;
    }
    inner.granted_ = true;
    inner.granted_bytes_ = inner.planned_bytes_;
    inner.stand_in(arena_, base_ + placements_[0].front().of_region[number], /*running=*/false);
    knows_all_ = knows_all_ && inner.knows_all_;
    for (const auto& port : plan_.regions[number].ports) {
      const bool held = port.how == RegionLink::How::carry &&
                        inner.facts_[port.entry].type == VarType::lod_tensor;
      if (held) inner.prepare(port.entry, false);
    }
  }
  for (int value : node.outs) {
    const int slot = value < 0 ? -1 : plan_.slot_of[value];
    if (!known || slot < 0 || plan_.slots[slot].kind != SlotKind::own) continue;
    const ValueInfo& info = facts_[value];
    if (info.type == VarType::lod_tensor && info.shape.known() && !is_operand(node, slot)) {
      prepare(value, false);
    }
    if (info.type == VarType::step_scopes && home_[slot] == Home::ahead) {
      keeper_of(value)->preset(reused_host<StepScopes>(*slots_[slot]), arena_,
                               base_ + arena_offset_[slot]);
      stood_in_arena_[slot] = true;
    }
  }
}

bool Frame::is_operand(const Node& node, int slot) const {
  return std::any_of(node.ins.begin(), node.ins.end(),
                     [&](int in) { return in >= 0 && plan_.slot_of[in] == slot; });
}

// Results of a late instruction that had a place in the arena, when what it leaves was known, take
// memory of their own.
void Frame::leave_arena(int index) {
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    const int slot = value < 0 ? -1 : plan_.slot_of[value];
    if (slot < 0 || !stood_in_arena_[slot] || is_operand(node, slot)) continue;
    slots_[slot]->clear();
    if (!set_aside_.empty()) set_aside_[slot].clear();
    stood_in_arena_[slot] = false;
  }
}

// The passes of this region are kept at `at`, one behind the other.
void Frame::preset(StepScopes& steps, const std::shared_ptr<Buffer>& arena, size_t at) const {
  const std::vector<int>& saved = plan_.graph.saved;
  steps.restart();
  for (int64_t pass = 0; pass < passes_; ++pass) {
    StepScopes::Values& values = steps.add(saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      const ValueInfo& info = facts_[saved[i]];
      if (info.type == VarType::lod_tensor) {
        if (values[i].kind() != Kind::dense) values[i].clear();
        values[i].tensor() = Tensor(info.dtype, info.shape, arena, at);
      } else {
        keeper_of(saved[i])->preset(reused_host<StepScopes>(values[i]), arena, at);
      }
      at += kept_bytes(saved[i]).value();
    }
  }
  steps.restart();
}

// The frame around it has no memory for it any more: it finds its own.
void Frame::lose_grant() {
  if (!granted_) return;
  granted_ = false;
  granted_bytes_ = 0;
  arena_.reset();
  unbind();
}

// A segment that is bound while the run goes on. What lives beyond it has memory of its own; what
// lives within it stands where no earlier value does.
void Frame::place_late(size_t index) {
  const auto number = static_cast<int>(index);
  const Placement& placement = place({number, number + 1}, /*ahead=*/false);
  late_live_bytes_ = std::max(late_live_bytes_, placement.live);
  if (placement.bytes > 0 && (!late_arena_ || late_arena_->size() < placement.bytes)) {
    late_arena_ = Buffer::allocate(placement.bytes);
    for (size_t s = 0; s < segment_bound_.size(); ++s) {
      if (settled_late_[s]) segment_bound_[s] = false;  // their values move there, too
    }
  }
  settled_late_[index] = true;
  for (int i = plan_.segments[index].begin; i < plan_.segments[index].end; ++i) {
    for (int value : plan_.graph.nodes[plan_.instructions[i].node].outs) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0) continue;
      const size_t offset = placement.offsets[slot];
      home_[slot] = offset == kNoPlace ? Home::own : Home::late;
      if (offset != kNoPlace) arena_offset_[slot] = offset;
    }
    for (int region : plan_.instructions[i].region_plans) {
      regions_[static_cast<size_t>(region)]->lose_grant();
    }
    if (plan_.instructions[i].late) leave_arena(i);
  }
}

size_t Frame::live_bytes() const {
  size_t bytes = (granted_ ? 0 : live_bytes_) + late_live_bytes_;
  for (const Tensor& bucket : buckets_) bytes += bucket.byte_size();
  for (const auto& region : regions_) bytes += region->live_bytes();
  return bytes;
}

size_t Frame::arena_bytes() const {
  size_t bytes = granted_ || !arena_ ? 0 : arena_->size();
  if (late_arena_) bytes += late_arena_->size();
  for (const Tensor& bucket : buckets_) bytes += bucket.byte_size();
  for (const auto& region : regions_) bytes += region->arena_bytes();
  return bytes;
}

size_t Frame::scratch_bytes() const {
  size_t bytes = (scratch_ ? scratch_->size() : 0) + (kept_ ? kept_->size() : 0);
  for (const auto& region : regions_) bytes += region->scratch_bytes();
  return bytes;
}

size_t Frame::own_bytes() const {
  std::set<const Buffer*> met;
  size_t bytes = 0;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    const SlotKind kind = plan_.slots[s].kind;
    if (kind != SlotKind::feed && kind != SlotKind::state) continue;
    const Variable* given = slots_[s];  // somebody else's
    if (given && given->kind() == Kind::dense) met.insert(given->tensor().buffer().get());
    if (given && given->kind() == Kind::rows) met.insert(given->rows().value.buffer().get());
  }
  collect_own(met, bytes);
  return bytes;
}

namespace {

void add_buffer(const Tensor& tensor, std::set<const Buffer*>& met, size_t& bytes) {
  const Buffer* buffer = tensor.buffer().get();
  if (buffer && met.insert(buffer).second) bytes += buffer->size();
}

void add_buffers(const Variable& variable, std::set<const Buffer*>& met, size_t& bytes) {
  const auto add = [&](const Tensor& tensor) { add_buffer(tensor, met, bytes); };
  if (variable.kind() == Kind::dense) add(variable.tensor());
  if (variable.kind() == Kind::rows) add(variable.rows().value);
  if (variable.kind() == Kind::array) variable.array().each_held(add);
  if (const auto steps = variable.host<StepScopes>()) {
    steps->each_held([&](const Variable& kept) { add_buffers(kept, met, bytes); });
  }
}

}  // namespace

void Frame::collect_own(std::set<const Buffer*>& met, size_t& bytes) const {
  met.insert({arena_.get(), late_arena_.get()});
  for (const Tensor& bucket : buckets_) met.insert(bucket.buffer().get());
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind == SlotKind::own) add_buffers(own_[s], met, bytes);
  }
  for (const Variable& aside : set_aside_) add_buffers(aside, met, bytes);
  for (const auto& region : regions_) region->collect_own(met, bytes);
}

}  // namespace trireme
