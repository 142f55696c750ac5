// Decides what runs on the device and where values lie, and inserts the copies in between.
#pragma once

#include "compile/graph.h"
#include "compile/target.h"

namespace trireme {

// The last pass, over the graph and its sub-blocks at once; it leaves a graph for the CPU alone. A
// node runs on the device where the device has kernels for its row. Feeds and fetches are the
// host's; a state lies where most of its readers and writers run: on the device, if any does.
// Operands whose contents decide shapes, and conditions of loops and branches, are the host's, too.
// Results of the host that the device reads, and the other way round, go through p.upload and
// p.download.
bool place_values(Graph& graph, const Target& target);

}  // namespace trireme
