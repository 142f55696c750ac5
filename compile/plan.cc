// Decides the slot of every value, the segments, and how long each slot is needed.
#include "compile/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compile/assign_queues.h"
#include "compile/value_operands.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr int kAtEnd = std::numeric_limits<int>::max();

class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), graph_(plan.graph) {
    unsure_.resize(graph_.values.size(), false);
  }
  // A region's. `outer_slots`: values that stand in slots of the plan around it. `unsure`: which of
  // its values may hold nothing.
  Planner(Plan& plan, std::map<int, int> outer_slots, std::vector<bool> unsure) : Planner(plan) {
    region_ = true;
    outer_slots_ = std::move(outer_slots);
    unsure_ = std::move(unsure);
  }

  void run() {
    find_last_uses();
    find_what_is_kept();
    assign_slots();
    cut_segments();
    mark_what_is_kept();
    for (Segment& segment : plan_.segments) find_facts(segment);
    plan_write_backs();
    if (!region_) find_exchange_ends();
    find_lifetimes();
    assign_queues(plan_);
    for (const std::vector<int>& values : graph_.buckets) fill_bucket(values);
  }

 private:
  void find_last_uses() {
    last_use_.assign(graph_.values.size(), -1);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int value : graph_.nodes[n].ins) {
        if (value >= 0) last_use_[value] = static_cast<int>(n);
      }
    }
    for (const auto& fetch : graph_.fetches) last_use_[fetch.value] = kAtEnd;
    for (int value : graph_.kept) last_use_[value] = kAtEnd;
    for (int value : graph_.saved) last_use_[value] = kAtEnd;
    for (int value : graph_.given) last_use_[value] = kAtEnd;  // filled from outside: never ours
    // A state whose last version is another state's entry is copied at the end.
    for (const auto& state : graph_.states) {
      if (state.exit >= 0 && state.exit != state.entry) exits_.emplace(state.exit, &state);
    }
  }

  // Of a graph whose states stay: values that follow from them alone. Nothing writes over them.
  void find_what_is_kept() {
    is_kept_.assign(graph_.values.size(), false);
    graph_.states_stay &=
        std::all_of(graph_.states.begin(), graph_.states.end(),
                    [](const auto& state) { return state.exit < 0 || state.exit == state.entry; });
    if (!graph_.states_stay || region_) return;
    for (const auto& state : graph_.states) {
      if (state.entry >= 0) is_kept_[state.entry] = true;
    }
    std::vector<bool> overwritten(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      for (const auto& [in, out] : node.shared) overwritten[node.ins[in]] = true;
    }
    for (const auto& fetch : graph_.fetches) overwritten[fetch.value] = true;  // given away
    for (const Node& node : graph_.nodes) {
      const OpTraits& trait = node.schema->trait();
      const bool ends_segment = trait.host || !node.regions.empty() ||
                                trait.exchange != Exchange::none || !value_operands(node).empty();
      if (ends_segment) break;  // behind it facts may be those of one run
      if (trait.effect || trait.random || trait.can_fail || !node.shared.empty() ||
          !node.members.empty() || node.ins.empty()) {
        continue;
      }
      const bool follows = std::all_of(node.ins.begin(), node.ins.end(),
                                       [&](int value) { return value < 0 || is_kept_[value]; }) &&
                           std::none_of(node.outs.begin(), node.outs.end(), [&](int value) {
                             return value >= 0 && overwritten[value];
                           });
      for (int value : node.outs) {
        if (value >= 0 && follows) is_kept_[value] = true;
      }
    }
  }

  void mark_what_is_kept() {
    if (!graph_.states_stay || region_) return;
    plan_.stays_in_loop.assign(plan_.slots.size(), false);
    for (size_t value = 0; value < graph_.values.size(); ++value) {
      const int slot = plan_.slot_of[value];
      if (slot >= 0 && is_kept_[value]) plan_.stays_in_loop[slot] = true;
    }
    for (Instruction& instruction : plan_.instructions) {
      const std::vector<int>& outs = graph_.nodes[instruction.node].outs;
      instruction.once = !outs.empty() && std::all_of(outs.begin(), outs.end(), [&](int value) {
        return value < 0 || is_kept_[value];
      });
    }
  }

  int new_slot(SlotKind kind, int index, int value) {
    const bool on_device = value >= 0 && graph_.values[value].on_device;
    plan_.slots.push_back({kind, index, on_device});
    return static_cast<int>(plan_.slots.size()) - 1;
  }

  void assign_slots() {
    auto& slot_of = plan_.slot_of;
    slot_of.assign(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.feeds.size(); ++i) {
      const int value = graph_.feeds[i].value;
      slot_of[value] = new_slot(SlotKind::feed, static_cast<int>(i), value);
    }
    state_slot_.resize(graph_.states.size());
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const auto& state = graph_.states[s];
      const int value = state.entry >= 0 ? state.entry : state.exit;
      state_slot_[s] = new_slot(SlotKind::state, static_cast<int>(s), value);
      if (state.entry >= 0) slot_of[state.entry] = state_slot_[s];
    }
    for (const auto& [inner, outer] : outer_slots_)
      slot_of[inner] = new_slot(SlotKind::outer, outer, inner);
    for (int value : graph_.given) slot_of[value] = new_slot(SlotKind::own, 0, value);

    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (const auto& [in, out] : node.shared) slot_of[node.outs[out]] = slot_of[node.ins[in]];
      share_in_place(static_cast<int>(n));
      for (int value : node.outs) {
        if (value >= 0 && slot_of[value] < 0) slot_of[value] = home_or_new(value);
      }
    }
  }

  // A state that is only written has its last version written straight into its slot.
  int home_or_new(int value) {
    const auto [first, end] = exits_.equal_range(value);
    const bool alone = first != end && std::next(first) == end;
    if (alone && first->second->entry < 0) return state_slot_[first->second - graph_.states.data()];
    return new_slot(SlotKind::own, 0, value);
  }

  // The row says the result may take the operand's memory, both are versions of one variable, and
  // this is the operand's last use.
  void share_in_place(int n) {
    const Node& node = graph_.nodes[n];
    for (const auto& [in, out] : in_place_pairs(node)) {
      share_if_free(n, node.ins[in], node.outs[out]);
    }
  }

  void share_if_free(int n, int in, int out) {
    if (plan_.slot_of[out] >= 0 || last_use_[in] != n || is_kept_[in]) return;
    if (graph_.values[in].info.name != graph_.values[out].info.name) return;
    if (graph_.values[in].on_device != graph_.values[out].on_device) return;
    if (graph_.values[in].info.name.empty() || used_twice(graph_.nodes[n], in)) return;
    const Slot& slot = plan_.slots[plan_.slot_of[in]];
    if (slot.kind == SlotKind::feed || slot.kind == SlotKind::outer) return;
    if (exits_.contains(in)) return;
    plan_.slot_of[out] = plan_.slot_of[in];
  }

  static bool used_twice(const Node& node, int value) {
    return std::count(node.ins.begin(), node.ins.end(), value) > 1;
  }

  void cut_segments() {
    Segment segment;
    plan_.state_must_exist.assign(graph_.states.size(), false);
    std::map<int, size_t> entry_state;
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      if (graph_.states[s].entry >= 0) entry_state[graph_.states[s].entry] = s;
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Node& node = graph_.nodes[n];
      const OpTraits& trait = node.schema->trait();
      Instruction instruction;
      instruction.node = static_cast<int>(n);
      instruction.late =
          trait.host || !node.regions.empty() || trait.exchange == Exchange::sum_rows;
      instruction.exchange = trait.exchange != Exchange::none;
      plan_.draws_random |= trait.random;

      std::vector<int> read;
      for (int position : value_operands(node)) read.push_back(node.ins[position]);
      for (int value : node.ins) {
        if (entry_state.contains(value)) plan_.state_must_exist[entry_state[value]] = true;
      }
      for (const Region& region : node.regions) {
        for (const auto& link : region.reads) {
          if (entry_state.contains(link.outer))
            plan_.state_must_exist[entry_state[link.outer]] = true;
        }
      }
      if (!read.empty() || node.by_first != segment.by_first) {
        if (segment.end > segment.begin) next_segment(segment);
        segment.reads_values = read;
        segment.by_first = node.by_first;
      }
      check_operands(node, static_cast<int>(n), segment);
      instruction.cleared = find_unsure_results(node);
      for (Region& region : node.regions) {
        instruction.region_plans.push_back(static_cast<int>(plan_.regions.size()));
        plan_.regions.push_back(plan_region(region));
        if (!trait.once) find_what_stays(node, *plan_.regions.back().plan);
      }
      plan_.instructions.push_back(std::move(instruction));
      segment.end = static_cast<int>(n) + 1;
      if (plan_.instructions.back().late) next_segment(segment);
    }
    if (segment.end > segment.begin) next_segment(segment);
    for (const auto& fetch : graph_.fetches) {
      if (entry_state.contains(fetch.value))
        plan_.state_must_exist[entry_state[fetch.value]] = true;
    }
  }

  void next_segment(Segment& segment) {
    plan_.segments.push_back(segment);
    segment = Segment{.begin = segment.end, .end = segment.end, .by_first = segment.by_first};
  }

  void find_facts(Segment& segment) const {
    std::set<int> met;
    for (int i = segment.begin; i < segment.end; ++i) {
      const Instruction& instruction = plan_.instructions[i];
      find_facts(graph_.nodes[instruction.node], instruction.late, segment, met);
    }
  }

  static void find_facts(const Node& node, bool late, Segment& segment, std::set<int>& met) {
    for (const auto* inner : {&node.parts, &node.members}) {
      for (const Node& part : *inner) find_facts(part, late, segment, met);
    }
    for (int value : node.ins) {
      if (value >= 0 && met.insert(value).second) segment.entries.push_back(value);
    }
    for (int value : node.outs) {
      if (value >= 0 && !late && met.insert(value).second) segment.inferred.push_back(value);
    }
  }

  // What a sub-block writes holds nothing until it has run once, unless it held something before.
  std::vector<int> find_unsure_results(const Node& node) {
    std::vector<int> cleared;
    for (const Region& region : node.regions) {
      for (int value : region.writes) {
        const int position = static_cast<int>(std::find(node.outs.begin(), node.outs.end(), value) -
                                              node.outs.begin());
        const auto shared = std::find_if(node.shared.begin(), node.shared.end(),
                                         [&](const auto& pair) { return pair.second == position; });
        const bool fresh = shared == node.shared.end();
        unsure_[value] = fresh || unsure_[node.ins[shared->first]];
        if (fresh) cleared.push_back(position);
      }
    }
    return cleared;
  }

  void check_operands(const Node& node, int n, Segment& segment) const {
    for (const Node& member : node.members) check_operands(member, n, segment);
    if (!node.members.empty()) return;
    if (!node.regions.empty()) return;  // its own instructions are checked when they run
    size_t at = 0;
    for (size_t s = 0; s < node.in_counts.size(); ++s) {
      const SlotSpec& slot = node.schema->inputs()[s];
      for (int i = 0; i < node.in_counts[s] && !slot.dispensable; ++i) {
        if (unsure_[node.ins[at + i]]) segment.checks.push_back({n, node.ins[at + i]});
      }
      at += slot.duplicable ? node.in_counts[s] : 1;
    }
  }

  Plan::RegionPlan plan_region(Region& region) {
    Plan::RegionPlan made;
    made.plan = std::make_unique<Plan>();
    made.plan->graph = std::move(*region.graph);
    made.plan->target = plan_.target;
    const Graph& inner = made.plan->graph;
    std::map<int, int> ties;
    std::vector<bool> unsure(inner.values.size(), false);
    for (const auto& link : region.reads) {
      ties[link.inner] = plan_.slot_of[link.outer];
      unsure[link.inner] = unsure_[link.outer];
    }
    Planner planner(*made.plan, std::move(ties), std::move(unsure));
    for (size_t i = 0; i < region.writes.size(); ++i) {
      made.carries.push_back({inner.kept[i], plan_.slot_of[region.writes[i]]});
    }
    const auto slot = [this](int value) { return value < 0 ? -1 : plan_.slot_of[value]; };
    for (const auto& port : region.ports) {
      made.ports.push_back({.how = port.how,
                            .entry = port.entry < 0 ? -1 : inner.given[port.entry],
                            .last = port.last < 0 ? -1 : inner.kept[port.last],
                            .from = slot(port.from),
                            .to = slot(port.to),
                            .like = slot(port.like)});
    }
    for (const auto& load : region.loads)
      made.loads.push_back({inner.given[load.entry], load.saved});
    planner.run();
    plan_.draws_random |= made.plan->draws_random;
    return made;
  }

  // What neither the loop's iterations nor the loop itself write.
  void find_what_stays(const Node& loop, Plan& inner) const {
    const auto forget_written = [](const Plan& plan, const Node& node, auto forget) {
      for (int value : node.outs) {
        if (value >= 0) forget(plan.slot_of[value]);
      }
    };
    inner.stays_in_loop.assign(inner.slots.size(), false);
    for (size_t s = 0; s < inner.slots.size(); ++s) {
      inner.stays_in_loop[s] = inner.slots[s].kind == SlotKind::outer;
    }
    for (const Node& node : inner.graph.nodes) {
      forget_written(inner, node, [&](int slot) { inner.stays_in_loop[slot] = false; });
    }
    forget_written(plan_, loop, [&](int outer) {
      for (size_t s = 0; s < inner.slots.size(); ++s) {
        if (inner.slots[s].index == outer) inner.stays_in_loop[s] = false;
      }
    });
  }

  void plan_write_backs() {
    for (size_t s = 0; s < graph_.states.size(); ++s) {
      const auto& state = graph_.states[s];
      if (state.exit < 0 || state.exit == state.entry) continue;
      plan_.writes_states = true;
      if (plan_.slot_of[state.exit] != state_slot_[s]) {
        const int writer = graph_.values[state.exit].node;
        plan_.write_backs.push_back({.state = static_cast<int>(s),
                                     .value = state.exit,
                                     .slot = state_slot_[s],
                                     .by_first = writer >= 0 && graph_.nodes[writer].by_first});
      }
    }
  }

  // What processes sum travels while the backward part goes on: until somebody touches its memory,
  // or a sub-block may.
  void find_exchange_ends() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& sum = graph_.nodes[n];
      const OpTraits& trait = sum.schema->trait();
      const bool travels = trait.exchange == Exchange::by_ring ||
                           (graph_.across_processes && trait.exchange == Exchange::sum);
      if (!travels || !trait.effect || sum.ins.empty()) continue;
      std::set<int> slots;
      for (int value : sum.ins) slots.insert(plan_.slot_of[value]);
      for (int value : sum.outs) slots.insert(plan_.slot_of[value]);
      const auto touches = [&](const std::vector<int>& values) {
        return std::any_of(values.begin(), values.end(), [&](int value) {
          return value >= 0 && slots.contains(plan_.slot_of[value]);
        });
      };
      plan_.instructions[n].goes_on = true;
      size_t end = n + 1;
      for (; end < graph_.nodes.size(); ++end) {
        const Node& node = graph_.nodes[end];
        if (touches(node.ins) || touches(node.outs) || !node.regions.empty()) break;
      }
      if (end < graph_.nodes.size()) {
        plan_.instructions[end].finishes.push_back(static_cast<int>(n));
      }
    }
  }

  void find_lifetimes() {
    std::vector<int> segment_of(graph_.nodes.size());
    for (size_t s = 0; s < plan_.segments.size(); ++s) {
      for (int i = plan_.segments[s].begin; i < plan_.segments[s].end; ++i) {
        segment_of[i] = static_cast<int>(s);
      }
    }
    plan_.lifetimes.assign(plan_.slots.size(), {});
    std::vector<bool> own(plan_.slots.size(), false);  // has memory of its own
    const auto touch = [&](int value, int instruction) {
      Lifetime& life = plan_.lifetimes[plan_.slot_of[value]];
      const int segment = segment_of[instruction];
      if (life.first_segment < 0) life = {segment, segment, instruction, instruction};
      life.last_segment = segment;
      life.last = instruction;
    };
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (int sum : plan_.instructions[n].finishes) {
        for (int value : graph_.nodes[sum].ins) touch(value, static_cast<int>(n));
        for (int value : graph_.nodes[sum].outs) touch(value, static_cast<int>(n));
      }
      for (int value : node.ins) {
        if (value >= 0) touch(value, static_cast<int>(n));
      }
      for (int value : node.outs) {
        if (value < 0) continue;
        touch(value, static_cast<int>(n));
        if (is_kept_[value] || !may_be_placed(node, value, plan_.instructions[n].late)) {
          own[plan_.slot_of[value]] = true;
        }
      }
    }
    for (const auto& fetch : graph_.fetches) own[plan_.slot_of[fetch.value]] = true;
    for (int value : graph_.given) own[plan_.slot_of[value]] = true;
    for (const std::vector<int>& bucket : graph_.buckets) {
      for (int value : bucket) own[plan_.slot_of[value]] = true;
    }
    // Taken when all instructions have run.
    const auto touch_at_end = [&](int value) {
      Lifetime& life = plan_.lifetimes[plan_.slot_of[value]];
      if (life.first_segment < 0) return;
      life.last_segment = static_cast<int>(plan_.segments.size()) - 1;
      life.last = static_cast<int>(plan_.instructions.size());
    };
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!plan_.instructions[n].goes_on || is_finished(static_cast<int>(n))) continue;
      for (int value : graph_.nodes[n].ins) touch_at_end(value);
      for (int value : graph_.nodes[n].outs) touch_at_end(value);
    }
    for (const auto* values : {&graph_.kept, &graph_.saved}) {
      for (int value : *values) {
        touch_at_end(value);
        // What a loop inside keeps is moved to what this one keeps, not copied.
        const bool moved = graph_.values[value].info.type == VarType::step_scopes;
        if (!region_ || moved) own[plan_.slot_of[value]] = true;
      }
    }
    for (const auto& back : plan_.write_backs) touch_at_end(back.value);
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      if (plan_.slots[s].kind != SlotKind::own || own[s]) plan_.lifetimes[s] = {};
    }
  }

  bool is_finished(int exchange) const {
    return std::any_of(plan_.instructions.begin(), plan_.instructions.end(), [&](const auto& each) {
      return std::find(each.finishes.begin(), each.finishes.end(), exchange) != each.finishes.end();
    });
  }

  // Of late results only what a region's iterations leave: a host op's kernel finds memory for
  // itself.
  bool may_be_placed(const Node& node, int value, bool late) const {
    const VarType type = graph_.values[value].info.type;
    if (!late) return type == VarType::lod_tensor;
    for (const Region& region : node.regions) {
      if (type == VarType::step_scopes) return true;
      const bool left = std::any_of(region.ports.begin(), region.ports.end(),
                                    [&](const Region::Port& port) { return port.to == value; });
      const auto& writes = region.writes;
      if (left || std::find(writes.begin(), writes.end(), value) != writes.end()) {
        return type == VarType::lod_tensor;
      }
    }
    return false;
  }

  // Only values whose slot never holds anything of another shape.
  void fill_bucket(const std::vector<int>& values) {
    Plan::Bucket bucket{.dtype = graph_.values[values.front()].info.dtype, .entries = {}};
    const int64_t step = static_cast<int64_t>(plan_.target.alignment / size_of(bucket.dtype));
    for (int value : values) {
      const int slot = plan_.slot_of[value];
      const ValueInfo& info = graph_.values[value].info;
      bool alone = plan_.slots[slot].kind == SlotKind::own;
      for (size_t other = 0; other < graph_.values.size(); ++other) {
        if (plan_.slot_of[other] != slot) continue;
        const ValueInfo& held = graph_.values[other].info;
        alone &= held.dtype == info.dtype && held.shape == info.shape;
      }
      if (!alone) continue;
      bucket.entries.push_back({value, bucket.elements});
      bucket.elements += (info.shape.count() + step - 1) / step * step;
    }
    if (bucket.entries.size() > 1) plan_.buckets.push_back(std::move(bucket));
  }

  Plan& plan_;
  Graph& graph_;
  bool region_ = false;
  std::map<int, int> outer_slots_;
  std::vector<bool> unsure_;  // by value
  std::vector<int> last_use_;
  std::vector<bool> is_kept_;  // by value
  std::vector<int> state_slot_;
  std::multimap<int, const Graph::State*> exits_;
};

}  // namespace

std::unique_ptr<Plan> make_plan(Graph graph, const Target& target) {
  auto plan = std::make_unique<Plan>();
  plan->graph = std::move(graph);
  plan->target = target;
  Planner(*plan).run();
  check_plan(*plan);
  check_order(*plan);
  return plan;
}

}  // namespace trireme
