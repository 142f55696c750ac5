// A bound plan for other programs: instructions, kernels, slots with their places and lives.
#include <algorithm>

#include "compile/graph_steps.h"
#include "core/json.h"
#include "runtime/facts.h"
#include "runtime/frame.h"
#include "runtime/instruction_work.h"
#include "runtime/region_runner.h"

namespace trireme {
namespace {

const char* name_of(SlotKind kind) {
  switch (kind) {
    case SlotKind::own:
      return "own";
    case SlotKind::feed:
      return "feed";
    case SlotKind::state:
      return "state";
    case SlotKind::outer:
      break;
  }
  return "outer";
}

// Whom an op of a job talks to.
void write_peers(JsonWriter& out, const Attrs& attrs) {
  for (const char* name : {"epmap", "endpoints"}) {
    const auto found = attrs.find(name);
    const auto* peers =
        found == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
    if (!peers || peers->empty()) continue;
    std::vector<std::string> each(*peers);
    std::sort(each.begin(), each.end());
    each.erase(std::unique(each.begin(), each.end()), each.end());
    out.list("peers", each);
    return;
  }
}

double products_with_members(const Node& node, const std::vector<ValueInfo*>& facts) {
  double count = products_of(node, facts);
  for (const Node& member : node.members) count += products_of(member, facts);
  return count;
}

void write_instruction(JsonWriter& out, const Plan& plan, int index, const Binding& binding) {
  const Instruction& instruction = plan.instructions[index];
  const Node& node = plan.graph.nodes[instruction.node];
  const BoundInstruction& bound = binding.instructions()[index];
  out.field("runner", static_cast<int>(instruction.runner));
  if (!instruction.waits.empty()) out.list("waits", instruction.waits);
  if (instruction.late) out.field("late", true);
  if (instruction.exchange) out.field("exchange", true);
  if (bound.alias) out.field("alias", true);
  if (bound.cut) out.field("parts", bound.kernel.parts);
  std::vector<std::string> names;
  for (const Kernel* kernel : bound.chosen) {
    if (std::find(names.begin(), names.end(), kernel->name) == names.end()) {
      names.push_back(kernel->name);
    }
  }
  out.list("kernels", names);
  if (!bound.kernel.detail.empty()) out.field("detail", bound.kernel.detail);
  if (bound.kernel.packed > 0) out.field("packed", bound.kernel.packed);
  if (bound.kernel.scratch > 0) out.field("scratch", bound.kernel.scratch);
  out.field("bytes", binding.touched_bytes(node));
  const double products = products_with_members(node, binding.fact_pointers());
  if (products > 0) out.field("flops", 2 * products);
  write_peers(out, *node.attrs);
}

}  // namespace

void Frame::list_plans(std::vector<const Plan*>& plans) const {
  plans.push_back(&plan_);
  for (const auto& region : regions_) region->body().list_plans(plans);
}

void Frame::write_slots(JsonWriter& out) const {
  out.key("slots").array();
  std::vector<size_t> bytes(plan_.slots.size(), 0);
  std::vector<std::vector<int>> held(plan_.slots.size());
  for (size_t value = 0; value < plan_.slot_of.size(); ++value) {
    const int slot = plan_.slot_of[value];
    if (slot < 0) continue;
    const ValueInfo& info = binding_.facts(static_cast<int>(value));
    if (info.shape.known()) bytes[slot] = std::max(bytes[slot], byte_count(info));
    held[slot].push_back(static_cast<int>(value));
  }
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    const auto number = static_cast<int>(s);
    const Lifetime& life = plan_.lifetimes[s];
    out.object().field("kind", name_of(plan_.slots[s].kind)).field("bytes", bytes[s]);
    if (plan_.slots[s].on_device) out.field("device", true);
    if (life.first_segment >= 0) out.field("first", life.first).field("last", life.last);
    if (!placement_.has_own_memory(number)) {
      out.field(placement_.is_ahead(number) ? "offset" : "late_offset", placement_.offset(number));
    }
    out.list("values", held[s]).end_object();
  }
  out.end_array().key("facts").object();
  for (size_t value = 0; value < plan_.slot_of.size(); ++value) {
    if (plan_.slot_of[value] < 0) continue;
    const ValueInfo& info = binding_.facts(static_cast<int>(value));
    out.key(std::to_string(value)).array().value(trireme::name_of(info.dtype));
    write_shape(out, info.shape);
    out.end_array();
  }
  out.end_object();
}

void Frame::write_json(JsonWriter& out, const GraphSteps& graphs, int graph,
                       const std::vector<const Plan*>& plans) const {
  out.object().field("plan", std::find(plans.begin(), plans.end(), &plan_) - plans.begin());
  out.field("graph", graph).field("place", to_string(place_));
  out.key("arena").object();
  out.field("planned", placement_.planned_bytes()).field("bytes", placement_.arena_bytes());
  out.field("live", placement_.live_bytes()).field("scratch", placement_.scratch_bytes());
  out.field("own", placement_.own_bytes()).field("lent", placement_.is_lent());
  out.key("base").array().value(placement_.base(0)).value(placement_.base(1)).end_array();
  out.end_object().key("instructions").array();
  std::vector<int> segment_of(plan_.instructions.size(), 0);
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    for (int i = plan_.segments[s].begin; i < plan_.segments[s].end; ++i) {
      segment_of[static_cast<size_t>(i)] = static_cast<int>(s);
    }
  }
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const auto node = static_cast<size_t>(plan_.instructions[i].node);
    out.object().field("node", graphs.id(graph, node)).field("segment", segment_of[i]);
    write_instruction(out, plan_, static_cast<int>(i), binding_);
    out.end_object();
  }
  out.end_array();
  write_slots(out);
  out.key("inner").array();
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const std::vector<int>& numbers = plan_.instructions[i].region_plans;
    for (size_t r = 0; r < numbers.size(); ++r) {
      const RegionRunner& region = *regions_[static_cast<size_t>(numbers[r])];
      const auto node = static_cast<size_t>(plan_.instructions[i].node);
      out.object()
          .field("instruction", i)
          .field("iterations", region.body().binding().iterations());
      out.key("frame");
      region.body().write_json(out, graphs, graphs.inner(graph, node, r), plans);
      out.end_object();
    }
  }
  out.end_array().end_object();
}

}  // namespace trireme
