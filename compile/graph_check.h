// Whether a graph is sound: run after lowering and after every pass in debug builds and in tests.
#pragma once

#include <atomic>

#include "compile/graph.h"

namespace trireme {

// An InternalError that names `when` and the node: a value read before it is written, written
// twice, or not by the node it names; operands that do not fit the row; a shape that the row's rule
// would not give.
void check_graph(const Graph& graph, const char* when);

#ifdef NDEBUG
inline std::atomic<bool> check_between_passes{false};  // tests turn it on
#else
inline std::atomic<bool> check_between_passes{true};
#endif

}  // namespace trireme
