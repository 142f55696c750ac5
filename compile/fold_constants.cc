// Arithmetic on constants alone is done while compiling, by the code that would do it in a step.
#include <algorithm>
#include <array>

#include "compile/passes.h"
#include "cpu/tile.h"

namespace trireme {
namespace {

const Node* constant_behind(const Graph& graph, int value) {
  const int node = value < 0 ? -1 : graph.values[value].node;
  if (node < 0 || graph.nodes[node].schema->type() != "p.constant") return nullptr;
  const bool single = graph.values[value].info.dtype == DType::float32;
  return single ? &graph.nodes[node] : nullptr;
}

float number_of(const Node& constant) {
  return static_cast<float>(attr_as<double>(constant.attrs->at("value"), "value"));
}

}  // namespace

bool fold_constants(Graph& graph, const Target&) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    const std::optional<TileOp> op = node.schema->trait().tile;
    if (!op || makes_mask(*op) || *op == TileOp::select || !node.shared.empty()) continue;
    std::array<float, 4> numbers{};
    TileStep step{.op = *op, .out = 3, .in = {0, 1, 2}, .fixed = 7};
    const bool fits =
        std::all_of(node.ins.begin(), node.ins.end(), [&, next = size_t{0}](int in) mutable {
          const Node* constant = constant_behind(graph, in);
          if (constant) numbers[next++] = number_of(*constant);
          return constant != nullptr;
        });
    if (!fits || graph.values[node.outs[0]].info.dtype != DType::float32) continue;
    float* registers[] = {&numbers[0], &numbers[1], &numbers[2], &numbers[3]};
    run_tile({&step, 1}, registers, 1);
    node.schema = &op_table().get("p.constant");
    node.attrs =
        std::make_shared<const Attrs>(Attrs{{"value", static_cast<double>(numbers[3])},
                                            {"dtype", static_cast<int32_t>(DType::float32)}});
    node.ins.clear();
    node.in_counts.clear();
    changed = true;
  }
  return changed;
}

}  // namespace trireme
