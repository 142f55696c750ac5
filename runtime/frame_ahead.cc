// What is known before a run: shapes of all segments up to the first that depends on what the run
// computes, through sub-blocks.
#include <algorithm>

#include "compile/memory_plan.h"
#include "core/text.h"
#include "runtime/facts.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

using How = RegionLink::How;

// Nothing has to be known of arrays and of what host ops hold.
bool is_open(const ValueInfo& info) {
  const bool shaped = info.type == VarType::lod_tensor || info.type == VarType::selected_rows;
  return shaped && !info.shape.known();
}

}  // namespace

void Frame::look_ahead() {
  ran_ = false;
  blindly_ = settings_->shapes_only && reads_entries();
  foresee(/*running=*/!settings_->shapes_only);
  if (!granted_ || granted_bytes_ < planned_bytes_) {
    const bool fits = !granted_ && arena_ && arena_->size() >= planned_bytes_;
    if (!fits) arena_ = planned_bytes_ > 0 ? Buffer::allocate(planned_bytes_) : nullptr;
    granted_ = false;
    base_ = 0;
  }
  stand_in(arena_, base_, /*running=*/true);
}

// `running`: what segments begin with is there, not only its shape.
void Frame::foresee(bool running) {
  knows_all_ = true;
  late_known_ = true;
  for (ahead_ = 0; ahead_ < plan_.segments.size() && late_known_; ++ahead_) {
    if (!foresee_segment(running)) break;
    const int last = plan_.segments[ahead_].end - 1;
    late_known_ = !plan_.instructions[last].late || foresee_late(last);
  }
  knows_all_ = knows_all_ && late_known_ && ahead_ == plan_.segments.size();
  planned_bytes_ = live_bytes_ = 0;
  home_.assign(home_.size(), Home::own);
  if (ahead_ == 0) return;
  const Placement& placement = place({0, static_cast<int>(ahead_)}, /*ahead=*/true);
  planned_bytes_ = placement.bytes;
  live_bytes_ = placement.live;
  for (size_t s = 0; s < placement.offsets.size(); ++s) {
    if (placement.offsets[s] == kNoPlace) continue;
    home_[s] = Home::ahead;
    arena_offset_[s] = placement.offsets[s];
  }
}

// The next one. What is wrong in a later segment than the first is said when the run comes to it:
// what stands before it, a print, say, is not held back.
bool Frame::foresee_segment(bool running) {
  if (!can_read(plan_.segments[ahead_], running)) return false;
  try {
    settle_facts(ahead_);
  } catch (const Error&) {
    if (ahead_ == 0) throw;
    return false;
  }
  return true;
}

bool Frame::can_read(const Segment& segment, bool running) const {
  return std::all_of(segment.reads_values.begin(), segment.reads_values.end(), [&](int value) {
    return running && plan_.graph.values[value].node < 0 &&
           slots_[plan_.slot_of[value]]->initialized();
  });
}

// Shapes follow from what a feed or a variable holds.
bool Frame::reads_entries() const {
  return std::any_of(plan_.segments.begin(), plan_.segments.end(), [&](const Segment& segment) {
    return std::any_of(segment.reads_values.begin(), segment.reads_values.end(),
                       [&](int value) { return plan_.graph.values[value].node < 0; });
  });
}

int Frame::segment_of(int instruction) const {
  const auto after =
      std::upper_bound(plan_.segments.begin(), plan_.segments.end(), instruction,
                       [](int wanted, const Segment& segment) { return wanted < segment.begin; });
  return static_cast<int>(after - plan_.segments.begin()) - 1;
}

// It is bound ahead, and what it leaves is known.
bool Frame::knows_late(int index) const {
  const auto segment = static_cast<size_t>(segment_of(index));
  return segment + 1 < ahead_ || (segment + 1 == ahead_ && late_known_);
}

// What a late instruction leaves. Nothing is wrong with what never runs: what is wrong for these
// shapes is said when the run comes to it.
bool Frame::foresee_late(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  Frame* inner = nullptr;
  try {
    if (node.regions.empty()) return foresee_host(node);
    for (size_t r = 0; r < node.regions.size(); ++r) {
      inner = regions_[static_cast<size_t>(instruction.region_plans[r])].get();
      inner->settings_ = settings_;
      inner->scope_ = scope_;
      if (inner->tie_outer_slots()) inner->forget_bindings();
      if (!foresee_region(node, node.regions[r], *inner)) return false;
      const bool keeps = inner->plan_.graph.saves_iterations;
      knows_all_ = knows_all_ && inner->knows_all_ && (!keeps || inner->stack_bytes());
    }
  } catch (const Error&) {
    if (inner) inner->forget_bindings();
    return false;
  }
  return true;
}

// An array's elements have memory that only the run knows, but no shape that matters to others.
bool Frame::foresee_host(const Node& node) {
  if (node.schema->trait().inferred_ahead) {
    OpView view = view_of(node, fact_pointers_);
    node.schema->shape_rule()(view);
  }
  for (int value : node.outs) {
    if (value < 0) continue;
    const bool array = facts_[value].type == VarType::lod_tensor_array;
    if (!array && (!node.schema->trait().inferred_ahead || is_open(facts_[value]))) return false;
    knows_all_ = knows_all_ && !array;
  }
  return true;
}

bool Frame::foresee_region(const Node& node, const Region& region, Frame& inner) {
  if (!foresee_entries(node, region, inner)) return false;
  inner.unbind();
  inner.foresee(/*running=*/false);
  if (inner.ahead_ < inner.plan_.segments.size() || !inner.late_known_) return false;
  return foresee_results(node, region, inner);
}

// What its passes begin with, and how many there are.
bool Frame::foresee_entries(const Node& node, const Region& region, Frame& inner) const {
  inner.passes_ = node.schema->trait().once ? 1 : -1;
  inner.forward_ = nullptr;
  for (int value : node.ins) {
    if (value < 0 || facts_[value].type != VarType::step_scopes) continue;
    inner.forward_ = keeper_of(value);
    if (inner.forward_) inner.passes_ = inner.forward_->passes_;
  }
  const auto give = [&](int value, const ValueInfo& from) {
    take_facts(from, inner.facts_[value]);
    return !is_open(from);
  };
  for (const Region::Link& link : region.reads) {
    if (!give(link.inner, facts_[link.outer])) return false;
  }
  for (const Region::Port& port : region.ports) {
    if (port.entry < 0) continue;
    const int model = port.from >= 0 ? port.from : port.like;
    const int entry = inner.plan_.graph.given[port.entry];
    if (model < 0 || !give(entry, facts_[model])) return false;
    if (port.how != How::slice) continue;
    ValueInfo& row = inner.facts_[entry];
    if (row.type != VarType::lod_tensor || row.shape.rank() == 0) return false;
    if (!inner.forward_) inner.passes_ = row.shape.at(0);
    row.shape.erase(0);
    row.lod.clear();
    row.lod_level = 0;
  }
  for (const Region::Load& load : region.loads) {
    if (!inner.forward_) return false;
    const int saved = inner.forward_->plan_.graph.saved[load.saved];
    if (!give(inner.plan_.graph.given[load.entry], inner.forward_->facts_[saved])) return false;
  }
  return true;
}

// What its passes leave, where each leaves the same shapes as it began with.
bool Frame::foresee_results(const Node& node, const Region& region, const Frame& inner) {
  const Graph& graph = inner.plan_.graph;
  for (size_t i = 0; i < region.writes.size(); ++i) {
    const int out = region.writes[i];
    const ValueInfo& left = inner.facts_[graph.kept[i]];
    for (const auto& [in, position] : node.shared) {
      if (node.outs[position] == out && !same_facts(left, facts_[node.ins[in]])) return false;
    }
    take_facts(left, facts_[out]);
  }
  for (const Region::Port& port : region.ports) {
    const ValueInfo* entry = port.entry < 0 ? nullptr : &inner.facts_[graph.given[port.entry]];
    const ValueInfo* left = port.last < 0 ? entry : &inner.facts_[graph.kept[port.last]];
    if (port.how == How::carry && !same_facts(*left, *entry)) return false;
    if (port.to < 0) continue;
    if (!left && port.like < 0) return false;
    take_facts(left ? *left : facts_[port.like], facts_[port.to]);
    ValueInfo& result = facts_[port.to];
    if (!left || port.how == How::carry) continue;
    if (result.type != VarType::lod_tensor) return false;  // rows and arrays grow with the passes
    if (port.how == How::sum) continue;
    if (inner.passes_ < 0) return false;
    if (port.how == How::append) {
      result.shape[0] = Dim(result.shape.at(0) * inner.passes_);
    } else {
      result.shape.insert(0, inner.passes_);
    }
    result.lod.clear();
    result.lod_level = 0;
  }
  return true;
}

// Whose passes left what `value`, a StepScopes, holds; null: not known.
const Frame* Frame::keeper_of(int value) const {
  const int writer = plan_.graph.values[value].node;
  if (writer >= 0) {
    const auto& plans = plan_.instructions[writer].region_plans;
    return plans.empty() ? nullptr : regions_[static_cast<size_t>(plans.front())].get();
  }
  if (!as_region_ || !forward_) return nullptr;
  for (const auto& load : as_region_->loads) {
    if (load.entry == value) return forward_->keeper_of(forward_->plan_.graph.saved[load.saved]);
  }
  return nullptr;
}

// Bytes of a value that is kept from one pass.
std::optional<size_t> Frame::kept_bytes(int value) const {
  const ValueInfo& info = facts_[value];
  if (info.type == VarType::lod_tensor) return arena_aligned(byte_count(info));
  if (info.type != VarType::step_scopes) return std::nullopt;
  const Frame* keeper = keeper_of(value);
  return keeper ? keeper->stack_bytes() : std::nullopt;
}

// Bytes of all that this region's passes keep for their gradient.
std::optional<size_t> Frame::stack_bytes() const {
  if (passes_ < 0) return std::nullopt;
  size_t bytes = 0;
  for (int value : plan_.graph.saved) {
    const std::optional<size_t> kept = kept_bytes(value);
    if (!kept) return std::nullopt;
    bytes += *kept;
  }
  return bytes * static_cast<size_t>(passes_);
}

}  // namespace trireme
