// Which operands of a node are read when its plan is bound.
#include "compile/value_operands.h"

#include <algorithm>

namespace trireme {

std::vector<int> value_operands(const Node& node) {
  const std::vector<std::string>& named = node.schema->trait().reads_values;
  std::vector<int> positions;
  if (named.empty()) return positions;
  int at = 0;
  for (size_t s = 0; s < node.in_counts.size(); ++s) {
    const SlotSpec& slot = node.schema->inputs()[s];
    const bool by_value = std::find(named.begin(), named.end(), slot.name) != named.end();
    for (int i = 0; by_value && i < node.in_counts[s]; ++i) positions.push_back(at + i);
    at += slot.duplicable ? node.in_counts[s] : 1;
  }
  return positions;
}

}  // namespace trireme
