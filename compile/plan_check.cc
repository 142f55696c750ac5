// Proves a plan right by replaying it on version numbers instead of data.
#include <map>
#include <set>

#include "compile/plan.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr int kNothing = -1;

// What an exchange goes on with nobody touches before it is known to have ended.
void check_exchanges(const Plan& plan) {
  std::map<int, int> travels;  // by slot: the exchange that has not ended
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const Node& node = plan.graph.nodes[instruction.node];
    for (int ended : instruction.finishes) {
      std::erase_if(travels, [&](const auto& entry) { return entry.second == ended; });
    }
    for (const auto* values : {&node.ins, &node.outs}) {
      for (int value : *values) {
        if (value < 0 || !travels.contains(plan.slot_of[value])) continue;
        throw InternalError(cat("instruction ", i, " (", node.schema->type(), ") uses value ",
                                value, " while instruction ", travels[plan.slot_of[value]],
                                " still exchanges it"));
      }
    }
    if (!instruction.goes_on) continue;
    for (const auto* values : {&node.ins, &node.outs}) {
      for (int value : *values) travels[plan.slot_of[value]] = static_cast<int>(i);
    }
  }
}

void check_region(const Plan& plan) {
  // Which value each slot holds now.
  std::vector<int> holds(plan.slots.size(), kNothing);
  const auto start = [&](int value) { holds[plan.slot_of[value]] = value; };
  for (const auto& feed : plan.graph.feeds) start(feed.value);
  for (int value : plan.graph.given) start(value);
  for (const auto& state : plan.graph.states) {
    if (state.entry >= 0) start(state.entry);
  }
  for (size_t value = 0; value < plan.graph.values.size(); ++value) {
    const int slot = plan.slot_of[value];
    const bool begun_with = plan.graph.values[value].node < 0;
    if (begun_with && slot >= 0 && plan.slots[slot].kind == SlotKind::outer) {
      start(static_cast<int>(value));
    }
  }

  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Node& node = plan.graph.nodes[plan.instructions[i].node];
    for (int value : node.ins) {
      if (value < 0) continue;
      if (plan.slot_of[value] < 0 || holds[plan.slot_of[value]] != value) {
        throw InternalError(cat("instruction ", i, " (", node.schema->type(), ") reads value ",
                                value, ", but its slot does not hold it any more"));
      }
    }
    for (int value : node.outs) {
      if (value < 0) continue;
      const int slot = plan.slot_of[value];
      if (slot < 0) throw InternalError(cat("value ", value, " has no slot"));
      if (plan.slots[slot].kind == SlotKind::feed) {
        throw InternalError(cat("instruction ", i, " writes into a feed"));
      }
      holds[slot] = value;
    }
  }
  for (const auto& fetch : plan.graph.fetches) {
    if (holds[plan.slot_of[fetch.value]] != fetch.value) {
      throw InternalError(
          cat("the value fetched as ", fetch.name, " is overwritten before the end"));
    }
  }
  for (int value : plan.graph.kept) {
    if (holds[plan.slot_of[value]] != value) {
      throw InternalError(
          cat("an iteration's result, value ", value, ", is overwritten before its end"));
    }
  }
  for (int value : plan.graph.saved) {
    // Values that an iteration begins with are kept then.
    if (plan.graph.values[value].node >= 0 && holds[plan.slot_of[value]] != value) {
      throw InternalError(cat("value ", value, " is overwritten before its iteration is kept"));
    }
  }
  for (const auto& back : plan.write_backs) {
    if (holds[plan.slot_of[back.value]] != back.value) {
      throw InternalError(
          cat("state ", plan.graph.states[back.state].name, " loses its last version"));
    }
  }
  std::set<int> written_back;
  for (const auto& back : plan.write_backs) written_back.insert(back.state);
  for (size_t s = 0; s < plan.graph.states.size(); ++s) {
    const auto& state = plan.graph.states[s];
    if (state.exit < 0 || written_back.contains(static_cast<int>(s))) continue;
    const Slot& slot = plan.slots[plan.slot_of[state.exit]];
    if (slot.kind != SlotKind::state || slot.index != static_cast<int>(s) ||
        holds[plan.slot_of[state.exit]] != state.exit) {
      throw InternalError(cat("state ", state.name, " does not end with its last version"));
    }
  }
  std::set<int> in_buckets;
  for (const Plan::Bucket& bucket : plan.buckets) {
    int64_t end = 0;  // of the one before
    for (const auto& entry : bucket.entries) {
      const int slot = plan.slot_of[entry.value];
      const ValueInfo& info = plan.graph.values[entry.value].info;
      const bool own = slot >= 0 && plan.slots[slot].kind == SlotKind::own &&
                       plan.lifetimes[slot].first_segment < 0 && info.dtype == bucket.dtype;
      if (!own || entry.first < end || !in_buckets.insert(slot).second) {
        throw InternalError(cat("value ", entry.value, " has no memory of its own in its bucket"));
      }
      end = entry.first + info.shape.count();
    }
    if (end > bucket.elements) throw InternalError("a bucket is smaller than what stands in it");
  }
  for (const auto& region : plan.regions) {
    check_region(*region.plan);
    for (const auto& carry : region.carries) {
      if (region.plan->slot_of[carry.inner_value] < 0) {
        throw InternalError("a region's result has no slot");
      }
    }
  }
}

}  // namespace

void check_plan(const Plan& plan) {
  check_region(plan);
  check_exchanges(plan);
}

}  // namespace trireme
