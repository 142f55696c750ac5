// The passes, in one ordered list, and the loop that runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/graph.h"
#include "compile/target.h"

namespace trireme {

struct Pass {
  const char* name;
  bool (*run)(Graph& graph, const Target& target);  // true when it changed something
  bool keeps_bits = true;                           // no number becomes another
};

struct PassReport {
  std::string name;
  size_t nodes_before = 0, nodes_after = 0;
  bool changed = false;
};

std::vector<std::string> pass_names();
// Those that may change the last bits of a number.
std::vector<std::string> passes_that_round();
inline constexpr const char* kInnerPasses = "passes of sub-blocks";

// Called when a pass has run; sub-blocks count as one, before the others.
using PassWatch = std::function<void(const std::string& pass, const Graph& graph)>;

// Runs every pass that is not named in `off`, in order.
std::vector<PassReport> run_passes(Graph& graph, const Target& target,
                                   const std::vector<std::string>& off = {},
                                   const PassWatch& watch = nullptr);

}  // namespace trireme
