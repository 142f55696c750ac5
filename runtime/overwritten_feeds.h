// Feeds that have no effect, because the program computes the variable itself.
#pragma once

#include "compile/graph.h"

namespace trireme {

// `graph` as lowered, before passes. One warning per feed that nothing reads before an op writes
// its variable; it names the op and the line. Where the caller feeds the loss's gradient, gradients
// that are fed are meant.
void warn_of_overwritten_feeds(const Graph& graph, bool gradient_is_fed);

}  // namespace trireme
