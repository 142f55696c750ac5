// Deals nodes out to host and device, in program order, and copies values across.
#include "compile/place_values.h"

#include <algorithm>
#include <map>

#include "compile/value_operands.h"
#include "core/text.h"
#include "ir/device_kernels.h"

namespace trireme {
namespace {

using How = RegionLink::How;

bool is_memory(const ValueInfo& info) {
  return info.type == VarType::lod_tensor || info.type == VarType::selected_rows;
}

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

void set_on_device(Node& node, bool on_device) {
  node.on_device = on_device;
  for (Node& part : node.parts) set_on_device(part, on_device);
  for (Node& member : node.members) set_on_device(member, on_device);
}

// One graph; those of its sub-blocks have placers of their own.
class Placer {
 public:
  // By graph and StepScopes value: the sub-block whose iterations it keeps.
  using Keepers = std::map<std::pair<const Graph*, int>, const Graph*>;

  Placer(Graph& graph, const DeviceKernels& kernels, Keepers& keepers)
      : graph_(graph), kernels_(kernels), keepers_(keepers) {}

  // Entries of a sub-block have been placed by whoever runs it.
  void run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    origins_.assign(graph_.values.size(), nullptr);
    for (const Node& node : nodes) {
      for (const auto* values : {&node.ins, &node.outs}) {
        for (int value : *values) {
          if (value >= 0 && !origins_[value]) origins_[value] = node.origin;
        }
      }
    }
    for (Node& node : nodes) {
      set_on_device(node, runs_on_device(node));
      fetch_operands(node);
      for (Region& region : node.regions) place_region(node, region);
      place_results(node);
      graph_.nodes.push_back(std::move(node));
    }
    place_exits();
    for (Graph::Named& fetch : graph_.fetches) fetch.value = at(fetch.value, /*device=*/false);
    upload_first();
    for (Value& value : graph_.values) value.node = -1;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int value : graph_.nodes[n].outs) {
        if (value >= 0) graph_.values[value].node = static_cast<int>(n);
      }
    }
  }

  // The outermost graph's.
  void place_states() {
    std::vector<bool> touched(graph_.values.size(), false);  // by a node of the device
    const auto note = [&](const std::vector<int>& values) {
      for (int value : values) {
        if (value >= 0) touched[value] = true;
      }
    };
    for (const Node& node : graph_.nodes) {
      if (runs_on_device(node) || runs_inside(node)) {
        note(node.ins);
        note(node.outs);
      }
    }
    for (const Graph::State& state : graph_.states) {
      const bool device =
          (state.entry >= 0 && touched[state.entry]) || (state.exit >= 0 && touched[state.exit]);
      for (int value : {state.entry, state.exit}) {
        if (value >= 0 && is_memory(info(value))) homes_[value] = device;
      }
      if (state.entry >= 0 && is_memory(info(state.entry))) {
        graph_.values[state.entry].on_device = device;
      }
    }
  }

 private:
  ValueInfo& info(int value) { return graph_.values[value].info; }

  bool runs_on_device(const Node& node) const {
    const OpTraits& trait = node.schema->trait();
    if (trait.host || trait.exchange != Exchange::none || !node.regions.empty()) return false;
    const auto host_only = [&](int value) {
      if (value < 0) return false;
      const ValueInfo& held = graph_.values[value].info;
      return !is_memory(held) || (is_half(held.dtype) && !kernels_.facts.half);
    };
    if (std::any_of(node.ins.begin(), node.ins.end(), host_only)) return false;
    if (std::any_of(node.outs.begin(), node.outs.end(), host_only)) return false;
    if (!node.members.empty()) {
      return std::all_of(node.members.begin(), node.members.end(),
                         [this](const Node& member) { return runs_on_device(member); });
    }
    return !kernels_.of(*node.schema).empty();
  }

  bool runs_inside(const Node& node) const {
    return std::any_of(node.regions.begin(), node.regions.end(), [this](const Region& region) {
      const Placer inner(*region.graph, kernels_, keepers_);
      return std::any_of(
          region.graph->nodes.begin(), region.graph->nodes.end(),
          [&](const Node& node) { return inner.runs_on_device(node) || inner.runs_inside(node); });
    });
  }

  // By operand: whether the node reads it on the device; nothing: wherever it lies.
  std::vector<std::optional<bool>> wanted(const Node& node) const {
    std::vector<std::optional<bool>> wants(node.ins.size(), node.on_device);
    const OpTraits& trait = node.schema->trait();
    size_t at = 0;
    for (size_t s = 0; s < node.in_counts.size(); ++s) {
      const SlotSpec& slot = node.schema->inputs()[s];
      const auto named = [&](const std::vector<std::string>& slots) {
        return std::find(slots.begin(), slots.end(), slot.name) != slots.end();
      };
      for (int i = 0; i < node.in_counts[s]; ++i) {
        if (!node.regions.empty() && !named(trait.decides)) wants[at + i].reset();
      }
      at += slot.duplicable ? static_cast<size_t>(node.in_counts[s]) : 1;
    }
    for (int position : value_operands(node)) wants[static_cast<size_t>(position)] = false;
    return wants;
  }

  void fetch_operands(Node& node) {
    const std::vector<std::optional<bool>> wants = wanted(node);
    for (size_t i = 0; i < node.ins.size(); ++i) {
      const int value = node.ins[i];
      if (value < 0 || !wants[i] || !is_memory(info(value))) continue;
      const int there = at(value, *wants[i]);
      if (there != value) {
        map_operands(node, [&](int operand) { return operand == value ? there : operand; });
      }
    }
  }

  // The value where it is wanted: itself, or a copy that is made once.
  int at(int value, bool device) {
    if (!is_memory(info(value)) || graph_.values[value].on_device == device) return value;
    if (const auto made = copies_.find(value); made != copies_.end()) return made->second;
    Node copy;
    copy.schema = &op_table().get(device ? "p.upload" : "p.download");
    copy.attrs = std::make_shared<Attrs>();
    copy.ins = {value};
    copy.in_counts = {1};
    copy.out_counts = {1};
    copy.origin = value < static_cast<int>(origins_.size()) ? origins_[value] : graph_.origin;
    const int made = graph_.add_value(info(value));
    graph_.values[made].on_device = device;
    copy.outs = {made};
    graph_.nodes.push_back(std::move(copy));
    copies_[value] = made;
    return made;
  }

  // What is there before the first node goes up before it: the device's own work then stands in one
  // piece behind.
  void upload_first() {
    std::vector<bool> computed(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      for (int value : node.outs) {
        if (value >= 0) computed[value] = true;
      }
    }
    std::stable_partition(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
      return node.schema->trait().transfer == Transfer::upload && !computed[node.ins[0]];
    });
  }

  void place_results(Node& node) {
    for (int value : node.outs) {
      if (value < 0 || !is_memory(info(value)) || !node.regions.empty()) continue;
      graph_.values[value].on_device = node.on_device;
    }
    for (const auto& [in, out] : node.shared) {
      graph_.values[node.outs[out]].on_device = graph_.values[node.ins[in]].on_device;
    }
  }

  void place_region(const Node& node, Region& region) {
    Graph& inner = *region.graph;
    const auto here = [&](int value) { return value >= 0 && graph_.values[value].on_device; };
    for (const Region::Link& link : region.reads) {
      inner.values[link.inner].on_device = here(link.outer);
      if (const auto kept = keepers_.find({&graph_, link.outer}); kept != keepers_.end()) {
        keepers_[{&inner, link.inner}] = kept->second;
      }
    }
    for (const Region::Port& port : region.ports) {
      if (port.entry < 0) continue;
      const int entry = inner.given[port.entry];
      inner.values[entry].on_device =
          is_memory(inner.values[entry].info) && here(port.from >= 0 ? port.from : port.like);
    }
    const Graph* forward = nullptr;
    for (int value : node.ins) {
      if (const auto kept = keepers_.find({&graph_, value}); kept != keepers_.end()) {
        forward = kept->second;
      }
    }
    for (const Region::Load& load : region.loads) {
      promise(forward != nullptr, "a gradient's sub-block belongs to a forward one");
      const int entry = inner.given[load.entry], saved = forward->saved[load.saved];
      inner.values[entry].on_device = forward->values[saved].on_device;
      if (const auto kept = keepers_.find({forward, saved}); kept != keepers_.end()) {
        keepers_[{&inner, entry}] = kept->second;
      }
    }
    Placer(inner, kernels_, keepers_).run();
    for (int value : node.outs) {
      if (value >= 0 && info(value).type == VarType::step_scopes) {
        keepers_.emplace(std::pair(&graph_, value), &inner);
      }
    }
    // A block that does not run leaves nothing, and nothing cannot be copied: what it leaves is
    // brought to the host when it has run, unless it takes an operand's slot.
    for (int value : region.writes) graph_.values[value].on_device = false;
    for (const Region::Port& port : region.ports) {
      if (port.to < 0 || !is_memory(info(port.to))) continue;
      const int last = port.last < 0 ? -1 : inner.kept[port.last];
      const int entry = port.entry < 0 ? -1 : inner.given[port.entry];
      const int model = port.how == How::carry && entry >= 0 ? entry : last;
      graph_.values[port.to].on_device =
          model >= 0 ? inner.values[model].on_device : here(port.like);
    }
  }

  // A state's last version lies where the state does.
  void place_exits() {
    for (Graph::State& state : graph_.states) {
      if (state.exit < 0 || state.exit == state.entry) continue;
      const auto home = homes_.find(state.exit);
      if (home != homes_.end()) state.exit = at(state.exit, home->second);
    }
  }

  Graph& graph_;
  const DeviceKernels& kernels_;
  Keepers& keepers_;
  std::vector<std::shared_ptr<const Origin>> origins_;  // by value: its writer's, or a reader's
  std::map<int, bool> homes_;  // by entry and exit of a state: on the device
  std::map<int, int> copies_;  // by value: the same on the other side
};

}  // namespace

bool place_values(Graph& graph, const Target& target) {
  if (target.device == DeviceKind::cpu) return false;
  Placer::Keepers keepers;
  Placer placer(graph, device_kernels(target.device), keepers);
  placer.place_states();
  placer.run();
  return true;
}

}  // namespace trireme
