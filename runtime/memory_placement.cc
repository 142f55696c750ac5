// Layouts of memory, remembered by what they were made for, and the tensors that stand in them.
#include "runtime/memory_placement.h"

#include <algorithm>

#include "compile/memory_plan.h"
#include "core/text.h"
#include "ops/host/host_operands.h"
#include "runtime/facts.h"

namespace trireme {
namespace {

constexpr size_t kMostLayouts = 64;  // by first segment

// The iterations of a sub-block are kept from `at` on, one behind the other.
void preset(const Binding& inner, StepScopes& steps, const std::shared_ptr<Buffer>& arena,
            size_t at) {
  const std::vector<int>& saved = inner.saved();
  steps.restart();
  for (int64_t iteration = 0; iteration < inner.iterations(); ++iteration) {
    StepScopes::Values& values = steps.add(saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      const ValueInfo& info = inner.facts(saved[i]);
      if (info.type == VarType::lod_tensor) {
        if (values[i].kind() != Kind::dense) values[i].clear();
        values[i].tensor() = Tensor(info.dtype, info.shape, arena, at);
      } else {
        preset(*inner.keeper_of(saved[i]), reused_host<StepScopes>(values[i]), arena, at);
      }
      at += inner.kept_bytes(saved[i]).value();
    }
  }
  steps.restart();
}

}  // namespace

MemoryPlacement::MemoryPlacement(const Plan& plan, Binding& binding, const SlotVariables& slots,
                                 const Place& device)
    : plan_(plan),
      binding_(binding),
      slots_(slots),
      device_(device),
      home_(plan.slots.size(), Home::own),
      offset_(plan.slots.size(), 0),
      in_arena_(plan.slots.size(), false),
      was_late_(plan.segments.size(), false),
      layouts_(plan.segments.size()),
      packed_(plan.instructions.size(), false) {
  for (const Instruction& instruction : plan.instructions) {
    if (!instruction.cleared.empty()) aside_.resize(plan.slots.size());
  }
}

void MemoryPlacement::add_region(MemoryPlacement& inner) {
  const auto set_root = [this](auto& self, MemoryPlacement& placement) -> void {
    placement.root_ = root_;
    for (MemoryPlacement* region : placement.regions_) self(self, *region);
  };
  set_root(set_root, inner);
  regions_.push_back(&inner);
}

template <class Use>
void MemoryPlacement::each_region(Stretch segments, Use use) const {
  const int end = plan_.segments[segments.end - 1].end;
  for (int i = plan_.segments[segments.begin].begin; i < end; ++i) {
    for (int number : plan_.instructions[i].region_plans) use(i, static_cast<size_t>(number));
  }
}

// Bytes of the slots that may stand in the segments' memory. What an instruction leaves that is not
// known yet has memory of its own.
std::vector<size_t> MemoryPlacement::bytes_by_slot(Stretch segments, bool ahead) const {
  std::vector<size_t> bytes(plan_.slots.size(), kNone);
  std::vector<bool> open(plan_.slots.size(), false);
  const int end = plan_.segments[segments.end - 1].end;
  for (int i = plan_.segments[segments.begin].begin; i < end; ++i) {
    const Instruction& instruction = plan_.instructions[i];
    const bool known = !instruction.late || (ahead && binding_.knows_late(i));
    for (int value : plan_.graph.nodes[instruction.node].outs) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0 || !plan_.lifetimes[slot].within(segments.begin, segments.end)) continue;
      const ValueInfo& info = binding_.facts(value);
      std::optional<size_t> need;
      if (info.type == VarType::lod_tensor && info.shape.known()) {
        need = byte_count(info);
      } else if (known && info.type == VarType::step_scopes && !plan_.has_queues) {
        const Binding* keeper = binding_.keeper_of(value);
        if (keeper) need = keeper->stack_bytes();
        if (need == 0u) need.reset();  // there is nothing to place
      }
      if (!known || !need) open[slot] = true;
      if (need) bytes[slot] = bytes[slot] == kNone ? *need : std::max(bytes[slot], *need);
    }
  }
  for (size_t s = 0; s < bytes.size(); ++s) {
    if (open[s]) bytes[s] = kNone;
  }
  return bytes;
}

MemoryPlacement::Layout MemoryPlacement::make_layout(Stretch segments, bool ahead) const {
  Layout made;
  made.offsets.assign(plan_.slots.size(), kNone);
  const std::vector<size_t> bytes = bytes_by_slot(segments, ahead);
  const std::vector<int> root = alias_roots(plan_, segments, binding_.all_facts());
  check_aliases(plan_, segments, root);
  std::array<std::vector<Interval>, 2> intervals;    // by side
  std::vector<size_t> interval(plan_.slots.size());  // by slot; a view comes after what it views
  for (const bool views : {false, true}) {
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      if (bytes[s] == kNone || views != (root[s] != static_cast<int>(s))) continue;
      const Lifetime& life = plan_.lifetimes[s];
      std::vector<Interval>& side = intervals[side_of(static_cast<int>(s))];
      if (views) {
        const auto viewed = static_cast<size_t>(root[s]);
        promise(bytes[viewed] != kNone, "what is viewed has a place");
        Interval& shared = side[interval[s] = interval[viewed]];
        shared.last = std::max(shared.last, life.last);
      } else {
        interval[s] = side.size();
        side.push_back({bytes[s], life.first, life.last});
      }
    }
  }
  std::array<MemoryPlan, 2> memory;
  for (size_t side = 0; side < intervals.size(); ++side) {
    memory[side] = lay_out(segments, ahead, side, intervals[side], made.sides[side]);
  }
  for (size_t s = 0; s < bytes.size(); ++s) {
    if (bytes[s] == kNone) continue;
    made.offsets[s] = memory[side_of(static_cast<int>(s))].offsets[interval[s]];
  }
  return made;
}

// One side: its values, and what sub-blocks take there while their instruction runs.
MemoryPlan MemoryPlacement::lay_out(Stretch segments, bool ahead, size_t side,
                                    std::vector<Interval>& intervals, Layout::Side& made) const {
  made.of_region.assign(plan_.regions.size(), kNone);
  std::vector<Interval> alive;  // the same with what lives in them at once; empty: no sub-block
  std::vector<std::pair<size_t, size_t>> regions;  // number, interval
  each_region(segments, [&](int i, size_t number) {
    if (!ahead || !binding_.knows_late(i)) return;
    const Arena& inner = regions_[number]->arenas_[side];
    made.of_region[number] = 0;
    if (inner.planned == 0) return;
    if (alive.empty()) alive = intervals;
    regions.emplace_back(number, intervals.size());
    intervals.push_back({inner.planned, i, i});
    alive.push_back({inner.live, i, i});
  });
  if (intervals.empty()) return {};
  MemoryPlan memory = plan_memory(intervals);
  check_memory(intervals, memory);
  made.bytes = memory.arena_bytes;
  made.live = alive.empty() ? memory.live_bytes : most_alive(alive);
  for (const auto& [number, at] : regions) made.of_region[number] = memory.offsets[at];
  return memory;
}

// Remembered, or new. It becomes the first of those that begin where the segments do.
const MemoryPlacement::Layout& MemoryPlacement::layout_of(Stretch segments, bool ahead) {
  wanted_.clear();
  wanted_.push_back(static_cast<uint64_t>(segments.end));
  for (int s = segments.begin; s < segments.end; ++s) {
    wanted_.push_back(binding_.number(static_cast<size_t>(s)));
  }
  wanted_.push_back(ahead);
  wanted_.push_back(binding_.last_is_known());
  each_region(segments, [&](int i, size_t number) {
    const MemoryPlacement& inner = *regions_[number];
    const bool planned = ahead && binding_.knows_late(i) && !inner.layouts_.empty();
    wanted_.push_back(planned ? inner.layouts_[0].front().number : 0);
  });
  auto& known = layouts_[static_cast<size_t>(segments.begin)];
  const auto found = std::find_if(known.begin(), known.end(),
                                  [this](const Layout& layout) { return layout.key == wanted_; });
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    return known.front();
  }
  Layout made = make_layout(segments, ahead);
  made.key = wanted_;
  made.number = ++last_number_;
  if (known.size() == kMostLayouts) known.pop_back();
  known.insert(known.begin(), std::move(made));
  return known.front();
}

void MemoryPlacement::plan_ahead() {
  for (Arena& arena : arenas_) arena.planned = arena.live = 0;
  home_.assign(home_.size(), Home::own);
  const auto segments = static_cast<int>(binding_.segments_ahead());
  if (segments == 0) return;
  each_region({0, segments}, [&](int i, size_t number) {
    if (binding_.knows_late(i)) regions_[number]->plan_ahead();
  });
  const Layout& layout = layout_of({0, segments}, /*ahead=*/true);
  for (size_t side = 0; side < arenas_.size(); ++side) {
    arenas_[side].planned = layout.sides[side].bytes;
    arenas_[side].live = layout.sides[side].live;
  }
  for (size_t s = 0; s < layout.offsets.size(); ++s) {
    if (layout.offsets[s] == kNone) continue;
    home_[s] = Home::ahead;
    offset_[s] = layout.offsets[s];
  }
}

void MemoryPlacement::clear_late() {
  const auto ahead = static_cast<std::ptrdiff_t>(binding_.segments_ahead());
  std::fill(was_late_.begin(), was_late_.begin() + ahead, false);
}

void MemoryPlacement::take_arena() {
  clear_late();
  const auto has_room = [](const Arena& arena) { return arena.lent >= arena.planned; };
  if (lent_ && std::all_of(arenas_.begin(), arenas_.end(), has_room)) return;
  for (size_t side = 0; side < arenas_.size(); ++side) {
    Arena& arena = arenas_[side];
    const bool fits = !lent_ && arena.buffer && arena.buffer->size() >= arena.planned;
    if (!fits) {
      arena.buffer.reset();  // before allocating: both need not fit at once
      if (arena.planned > 0) arena.buffer = Buffer::allocate(arena.planned, place_of(side));
    }
    arena.base = arena.lent = 0;
  }
  lent_ = false;
}

void MemoryPlacement::plan_late(size_t segment) {
  const auto number = static_cast<int>(segment);
  const Layout& layout = layout_of({number, number + 1}, /*ahead=*/false);
  for (size_t side = 0; side < arenas_.size(); ++side) {
    Arena& arena = arenas_[side];
    const size_t bytes = layout.sides[side].bytes;
    arena.late_live = std::max(arena.late_live, layout.sides[side].live);
    if (bytes == 0 || (arena.late && arena.late->size() >= bytes)) continue;
    arena.late = Buffer::allocate(bytes, place_of(side));
    for (size_t s = 0; s < was_late_.size(); ++s) {
      if (was_late_[s]) binding_.unbind(s);  // their values move there, too
    }
  }
  was_late_[segment] = true;
  for (int i = plan_.segments[segment].begin; i < plan_.segments[segment].end; ++i) {
    for (int value : plan_.graph.nodes[plan_.instructions[i].node].outs) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0) continue;
      const size_t offset = layout.offsets[slot];
      home_[slot] = offset == kNone ? Home::own : Home::late;
      if (offset != kNone) offset_[slot] = offset;
    }
    for (int region : plan_.instructions[i].region_plans) {
      regions_[static_cast<size_t>(region)]->leave_outer_arena();
    }
    if (plan_.instructions[i].late) leave_arena(i);
  }
}

Problem MemoryPlacement::prepare_results(int index) {
  if (plan_.instructions[index].late) return std::nullopt;
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    if (value < 0) continue;
    const bool shared = is_operand(node, plan_.slot_of[value]);
    if (Problem problem = shared ? in_place_problem(value) : std::nullopt) return problem;
    prepare(value, shared);
  }
  return std::nullopt;
}

// Of a result that stands where an operand does, in memory of its own.
Problem MemoryPlacement::in_place_problem(int value) const {
  const ValueInfo& info = binding_.facts(value);
  const Variable& variable = slots_.of(value);
  if (info.type != VarType::lod_tensor || home_[plan_.slot_of[value]] != Home::own) {
    return std::nullopt;
  }
  const Tensor none;
  const Tensor& tensor = variable.kind() == Kind::dense ? variable.tensor() : none;
  if (fits(tensor, value)) return std::nullopt;
  return Error(cat("it writes ", info.name, " in place, but the result is ", name_of(info.dtype),
                   " ", info.shape.to_string(), " and the variable is ", tensor.describe()))
      .fix("give the result a variable of its own");
}

bool MemoryPlacement::fits(const Tensor& tensor, int value) const {
  const ValueInfo& info = binding_.facts(value);
  return tensor.initialized() && tensor.dtype() == info.dtype && tensor.shape() == info.shape &&
         tensor.place() == place_of(side_of(plan_.slot_of[value]));
}

// `shared`: an operand of the instruction stands there.
void MemoryPlacement::prepare(int value, bool shared) {
  Variable& variable = slots_.of(value);
  const ValueInfo& info = binding_.facts(value);
  const int slot = plan_.slot_of[value];
  const Arena& arena = arenas_[side_of(slot)];
  const Place place = place_of(side_of(slot));
  if (info.type == VarType::selected_rows) {
    if (variable.kind() != Kind::rows) variable.clear();
    SelectedRows& rows = variable.rows();
    rows.value.resize(info.dtype, info.shape, place);
    rows.rows.resize(static_cast<size_t>(info.shape.at(0)), place);
    rows.height = info.height;
    return;
  }
  if (info.type != VarType::lod_tensor) return;
  if (variable.kind() != Kind::dense) variable.clear();
  Tensor& tensor = variable.tensor();
  if (home_[slot] != Home::own) {
    const bool ahead = home_[slot] == Home::ahead;
    Lod lod = std::move(tensor.mutable_lod());  // for its memory
    lod = info.lod;
    tensor = Tensor(info.dtype, info.shape, ahead ? arena.buffer : arena.late,
                    ahead ? arena.base + offset_[slot] : offset_[slot]);
    tensor.set_lod(std::move(lod));
    in_arena_[slot] = true;
    return;
  }
  if (in_arena_[slot] && !shared) {
    tensor = Tensor();
    in_arena_[slot] = false;
  }
  if (!fits(tensor, value)) tensor.resize(info.dtype, info.shape, place);
  if (tensor.lod() != info.lod) tensor.mutable_lod() = info.lod;
}

void MemoryPlacement::lend_arena(int index) {
  const bool known = binding_.knows_late(index);
  for (int region : plan_.instructions[index].region_plans) {
    const auto number = static_cast<size_t>(region);
    MemoryPlacement& inner = *regions_[number];
    if (!known) {
      inner.leave_outer_arena();
      continue;
    }
    inner.lent_ = true;
    for (size_t side = 0; side < arenas_.size(); ++side) {
      Arena& part = inner.arenas_[side];
      part.lent = part.planned;
      part.buffer = arenas_[side].buffer;
      part.base = arenas_[side].base + layouts_[0].front().sides[side].of_region[number];
    }
    inner.clear_late();
  }
}

void MemoryPlacement::prepare_late(int index) {
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  if (!binding_.knows_late(index)) return leave_arena(index);
  for (int value : node.outs) {
    const int slot = value < 0 ? -1 : plan_.slot_of[value];
    if (slot < 0 || plan_.slots[slot].kind != SlotKind::own) continue;
    const ValueInfo& info = binding_.facts(value);
    if (info.type == VarType::lod_tensor && info.shape.known() && !is_operand(node, slot)) {
      prepare(value, false);
    }
    if (info.type == VarType::step_scopes && home_[slot] == Home::ahead) {
      preset(*binding_.keeper_of(value), reused_host<StepScopes>(slots_[slot]), arenas_[0].buffer,
             arenas_[0].base + offset_[slot]);
      in_arena_[slot] = true;
    }
  }
}

void MemoryPlacement::prepare_carried(const Plan::RegionPlan& region) {
  for (const auto& port : region.ports) {
    const bool carried = port.how == RegionLink::How::carry &&
                         binding_.facts(port.entry).type == VarType::lod_tensor;
    if (carried) prepare(port.entry, false);
  }
}

bool MemoryPlacement::is_operand(const Node& node, int slot) const {
  return std::any_of(node.ins.begin(), node.ins.end(),
                     [&](int in) { return in >= 0 && plan_.slot_of[in] == slot; });
}

// Results of an instruction that had a place in the arena, when what it leaves was known, take
// memory of their own.
void MemoryPlacement::leave_arena(int index) {
  const Node& node = plan_.graph.nodes[plan_.instructions[index].node];
  for (int value : node.outs) {
    const int slot = value < 0 ? -1 : plan_.slot_of[value];
    if (slot < 0 || !in_arena_[slot] || is_operand(node, slot)) continue;
    slots_[slot].clear();
    if (!aside_.empty()) aside_[slot].clear();
    in_arena_[slot] = false;
  }
}

// The frame around it has no memory for it any more: it finds its own.
void MemoryPlacement::leave_outer_arena() {
  if (!lent_) return;
  lent_ = false;
  for (Arena& arena : arenas_) {
    arena.lent = 0;
    arena.buffer.reset();
  }
  binding_.unbind();
}

void MemoryPlacement::put_aside(const Instruction& instruction) {
  for (int position : instruction.cleared) {
    const int slot = plan_.slot_of[plan_.graph.nodes[instruction.node].outs[position]];
    Variable& result = slots_[slot];
    if (result.initialized()) std::swap(result, aside_[slot]);
    result.clear();
  }
}

void MemoryPlacement::take_again(int slot) {
  if (!aside_.empty() && !slots_[slot].initialized()) std::swap(slots_[slot], aside_[slot]);
}

// One instruction of a queue runs at a time: those of the device's compute queue share one scratch,
// those of the host another.
size_t MemoryPlacement::scratch_side(int instruction) const {
  return plan_.instructions[instruction].runner == Runner::host ? 0 : 1;
}

void MemoryPlacement::reserve_scratch(int instruction, const BoundInstruction& bound) {
  const size_t side = scratch_side(instruction);
  std::shared_ptr<Buffer>& shared = root_->arenas_[side].scratch;
  const size_t bytes = bound.keeps_scratch ? 0 : bound.kernel.scratch;
  if (bytes > (shared ? shared->size() : 0)) shared = Buffer::allocate(bytes, place_of(side));
}

// The instructions that keep their scratch have it one behind the other; nothing is in it yet.
void MemoryPlacement::place_kept_scratch() {
  if (plan_.stays_in_loop.empty()) return;
  std::array<size_t, 2> bytes{};
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    BoundInstruction& bound = binding_.instruction(static_cast<int>(i));
    if (!bound.keeps_scratch) continue;
    size_t& end = bytes[scratch_side(static_cast<int>(i))];
    bound.scratch_offset = end;
    end += arena_aligned(bound.kernel.scratch);
  }
  for (size_t side = 0; side < bytes.size(); ++side) {
    std::shared_ptr<Buffer>& kept = arenas_[side].kept_scratch;
    if (bytes[side] > (kept ? kept->size() : 0)) {
      kept = Buffer::allocate(bytes[side], place_of(side));
    }
  }
  forget_packed();
}

std::byte* MemoryPlacement::scratch(int instruction, const BoundInstruction& bound) const {
  const size_t side = scratch_side(instruction);
  const Buffer* buffer =
      bound.keeps_scratch ? arenas_[side].kept_scratch.get() : root_->arenas_[side].scratch.get();
  return buffer ? buffer->data() + bound.scratch_offset : nullptr;
}

void MemoryPlacement::make_buckets() {
  for (size_t b = buckets_.size(); b < plan_.buckets.size(); ++b) {
    const Plan::Bucket& bucket = plan_.buckets[b];
    const Tensor& all = buckets_.emplace_back(filled(bucket.dtype, {bucket.elements}, 0));
    for (const auto& [value, first] : bucket.entries) {
      slots_.of(value).tensor() =
          Tensor(bucket.dtype, plan_.graph.values[value].info.shape, all.buffer(),
                 static_cast<size_t>(first) * size_of(bucket.dtype));
    }
  }
}

bool MemoryPlacement::is_in_bucket(const Tensor& tensor) const {
  return std::any_of(buckets_.begin(), buckets_.end(),
                     [&](const Tensor& bucket) { return bucket.buffer() == tensor.buffer(); });
}

size_t MemoryPlacement::live_bytes() const {
  size_t bytes = 0;
  for (const Arena& arena : arenas_) bytes += (lent_ ? 0 : arena.live) + arena.late_live;
  for (const Tensor& bucket : buckets_) bytes += bucket.byte_size();
  for (const MemoryPlacement* region : regions_) bytes += region->live_bytes();
  return bytes;
}

size_t MemoryPlacement::arena_bytes() const {
  size_t bytes = 0;
  for (const Arena& arena : arenas_) {
    if (!lent_ && arena.buffer) bytes += arena.buffer->size();
    if (arena.late) bytes += arena.late->size();
  }
  for (const Tensor& bucket : buckets_) bytes += bucket.byte_size();
  for (const MemoryPlacement* region : regions_) bytes += region->arena_bytes();
  return bytes;
}

size_t MemoryPlacement::scratch_bytes() const {
  size_t bytes = 0;
  for (const Arena& arena : arenas_) {
    if (arena.scratch) bytes += arena.scratch->size();
    if (arena.kept_scratch) bytes += arena.kept_scratch->size();
  }
  for (const MemoryPlacement* region : regions_) bytes += region->scratch_bytes();
  return bytes;
}

size_t MemoryPlacement::own_bytes() const {
  std::set<const Buffer*> met;
  size_t bytes = 0;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    const SlotKind kind = plan_.slots[s].kind;
    if (kind != SlotKind::feed && kind != SlotKind::state) continue;
    const Variable* given = slots_.find(s);  // somebody else's
    if (given && given->kind() == Kind::dense) met.insert(given->tensor().buffer().get());
    if (!given || given->kind() != Kind::rows) continue;
    met.insert({given->rows().value.buffer().get(), given->rows().rows.buffer().get()});
  }
  collect_own(met, bytes);
  return bytes;
}

namespace {

void add_buffer(const Buffer* buffer, std::set<const Buffer*>& met, size_t& bytes) {
  if (buffer && met.insert(buffer).second) bytes += buffer->size();
}

void add_buffers(const Variable& variable, std::set<const Buffer*>& met, size_t& bytes) {
  const auto add = [&](const Tensor& tensor) { add_buffer(tensor.buffer().get(), met, bytes); };
  if (variable.kind() == Kind::dense) add(variable.tensor());
  if (variable.kind() == Kind::rows) {
    add(variable.rows().value);
    add_buffer(variable.rows().rows.buffer().get(), met, bytes);
  }
  if (variable.kind() == Kind::array) variable.array().each_held(add);
  if (const auto steps = variable.host<StepScopes>()) {
    steps->each_held([&](const Variable& kept) { add_buffers(kept, met, bytes); });
  }
}

}  // namespace

void MemoryPlacement::collect_own(std::set<const Buffer*>& met, size_t& bytes) const {
  for (const Arena& arena : arenas_) met.insert({arena.buffer.get(), arena.late.get()});
  for (const Tensor& bucket : buckets_) met.insert(bucket.buffer().get());
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (plan_.slots[s].kind == SlotKind::own) add_buffers(*slots_.find(s), met, bytes);
  }
  for (const Variable& aside : aside_) add_buffers(aside, met, bytes);
  for (const MemoryPlacement* region : regions_) region->collect_own(met, bytes);
}

}  // namespace trireme
