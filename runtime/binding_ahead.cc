// What is known ahead of a run: shapes of all segments up to the first that depends on what the run
// computes, through sub-blocks.
#include <algorithm>

#include "compile/memory_plan.h"
#include "runtime/binding.h"
#include "runtime/facts.h"

namespace trireme {
namespace {

using How = RegionLink::How;

// Nothing has to be known of arrays and of what host ops hold.
bool is_open(const ValueInfo& info) {
  const bool shaped = info.type == VarType::lod_tensor || info.type == VarType::selected_rows;
  return shaped && !info.shape.known();
}

}  // namespace

Problem Binding::infer_ahead(bool running, bool shapes_only) {
  ignored_contents_ = shapes_only && reads_entries();
  knows_all_ = true;
  late_known_ = true;
  for (ahead_ = 0; ahead_ < segments_ && late_known_; ++ahead_) {
    if (!can_read(plan_.segments[ahead_], running)) break;
    Problem problem = settle_facts(ahead_);
    if (problem && ahead_ == 0) return problem;
    if (problem) break;
    const int last = plan_.segments[ahead_].end - 1;
    late_known_ = !plan_.instructions[last].late || infer_late(last);
  }
  knows_all_ = knows_all_ && late_known_ && ahead_ == segments_;
  return std::nullopt;
}

bool Binding::can_read(const Segment& segment, bool running) const {
  return std::all_of(segment.reads_values.begin(), segment.reads_values.end(), [&](int value) {
    return running && plan_.graph.values[value].node < 0 && slots_.of(value).initialized();
  });
}

bool Binding::reads_entries() const {
  return std::any_of(plan_.segments.begin(), plan_.segments.end(), [&](const Segment& segment) {
    return std::any_of(segment.reads_values.begin(), segment.reads_values.end(),
                       [&](int value) { return plan_.graph.values[value].node < 0; });
  });
}

int Binding::segment_of(int instruction) const {
  const auto after =
      std::upper_bound(plan_.segments.begin(), plan_.segments.end(), instruction,
                       [](int wanted, const Segment& segment) { return wanted < segment.begin; });
  return static_cast<int>(after - plan_.segments.begin()) - 1;
}

bool Binding::knows_late(int instruction) const {
  const auto segment = static_cast<size_t>(segment_of(instruction));
  return segment + 1 < ahead_ || (segment + 1 == ahead_ && late_known_);
}

bool Binding::known_before_run(int value) const {
  if (!facts_[value].shape.known()) return false;
  const int node = plan_.graph.values[value].node;
  if (node < 0) return true;  // fed, or a state
  if (segment_of(node) >= static_cast<int>(ahead_)) return false;
  return !plan_.instructions[node].late || knows_late(node);
}

// What an instruction leaves whose facts only the run knows for sure. Nothing is wrong with what
// never runs: what is wrong for these shapes is said when the run comes to it.
bool Binding::infer_late(int index) {
  const Instruction& instruction = plan_.instructions[index];
  const Node& node = plan_.graph.nodes[instruction.node];
  if (node.regions.empty()) return infer_host(node);
  for (size_t r = 0; r < node.regions.size(); ++r) {
    Binding& inner = *regions_[static_cast<size_t>(instruction.region_plans[r])];
    if (inner.slots_.find_outer(slots_)) inner.forget();
    if (!infer_region(node, node.regions[r], inner)) return false;
    const bool keeps = inner.plan_.graph.saves_iterations;
    knows_all_ = knows_all_ && inner.knows_all_ && (!keeps || inner.stack_bytes());
  }
  return true;
}

// An array's elements have memory that only the run knows, but no shape that matters to others.
bool Binding::infer_host(const Node& node) {
  if (node.schema->trait().inferred_ahead) {
    OpView view = view_of(node, fact_pointers_);
    if (problem_of_row([&] { node.schema->shape_rule()(view); })) return false;
  }
  for (int value : node.outs) {
    if (value < 0) continue;
    const bool array = facts_[value].type == VarType::lod_tensor_array;
    if (!array && (!node.schema->trait().inferred_ahead || is_open(facts_[value]))) return false;
    knows_all_ = knows_all_ && !array;
  }
  return true;
}

bool Binding::infer_region(const Node& node, const Region& region, Binding& inner) {
  if (!infer_entries(node, region, inner)) return false;
  inner.unbind();
  if (inner.infer_ahead(/*running=*/false, /*shapes_only=*/false)) {
    inner.forget();
    return false;
  }
  if (inner.ahead_ < inner.plan_.segments.size() || !inner.late_known_) return false;
  return infer_results(node, region, inner);
}

// What its iterations begin with, and how many there are.
bool Binding::infer_entries(const Node& node, const Region& region, Binding& inner) const {
  inner.iterations_ = node.schema->trait().once ? 1 : -1;
  inner.forward_ = nullptr;
  for (int value : node.ins) {
    if (value < 0 || facts_[value].type != VarType::step_scopes) continue;
    inner.forward_ = keeper_of(value);
    if (inner.forward_) inner.iterations_ = inner.forward_->iterations_;
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
    if (!inner.forward_) inner.iterations_ = row.shape.at(0);
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

// What its iterations leave, where each leaves the same shapes as it began with.
bool Binding::infer_results(const Node& node, const Region& region, const Binding& inner) {
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
    if (result.type != VarType::lod_tensor) return false;  // rows and arrays grow as it goes on
    if (port.how == How::sum) continue;
    if (inner.iterations_ < 0) return false;
    if (port.how == How::append) {
      result.shape[0] = Dim(result.shape.at(0) * inner.iterations_);
    } else {
      result.shape.insert(0, inner.iterations_);
    }
    result.lod.clear();
    result.lod_level = 0;
  }
  return true;
}

const Binding* Binding::keeper_of(int value) const {
  const int writer = plan_.graph.values[value].node;
  if (writer >= 0) {
    const auto& plans = plan_.instructions[writer].region_plans;
    return plans.empty() ? nullptr : regions_[static_cast<size_t>(plans.front())];
  }
  if (!as_region_ || !forward_) return nullptr;
  for (const auto& load : as_region_->loads) {
    if (load.entry == value) return forward_->keeper_of(forward_->plan_.graph.saved[load.saved]);
  }
  return nullptr;
}

std::optional<size_t> Binding::kept_bytes(int value) const {
  const ValueInfo& info = facts_[value];
  if (info.type == VarType::lod_tensor) return arena_aligned(byte_count(info));
  if (info.type != VarType::step_scopes) return std::nullopt;
  const Binding* keeper = keeper_of(value);
  return keeper ? keeper->stack_bytes() : std::nullopt;
}

std::optional<size_t> Binding::stack_bytes() const {
  if (iterations_ < 0) return std::nullopt;
  size_t bytes = 0;
  for (int value : plan_.graph.saved) {
    const std::optional<size_t> kept = kept_bytes(value);
    if (!kept) return std::nullopt;
    bytes += *kept;
  }
  return bytes * static_cast<size_t>(iterations_);
}

}  // namespace trireme
