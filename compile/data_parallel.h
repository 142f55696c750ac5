// Makes a training graph one replica's: the loss has the weight of its share, gradients are summed
// over all replicas, and the update stands behind the sums.
#pragma once

#include <string>
#include <vector>

#include "compile/graph.h"

namespace trireme {

enum class LossGradient {
  weighted,  // each replica's share of what the loss averages over: the sum equals one device
  one,
  fed,  // the caller feeds <loss>@GRAD, one value per replica
};

// Beside the graph: what whoever runs the replicas gives them.
struct ReplicaFeeds {
  // The feed that takes the weight of a replica's share of the loss: -1 where there is no backward
  // part, the caller feeds the loss gradient, or the replicas find the weight while they run.
  int loss_weight = -1;
  // What the loss is the mean of: its elements decide the weight; -1: samples do.
  int averaged_value = -1;
  // The user's feeds that the update reads: equal on all replicas.
  std::vector<int> common;
  // What replicas write for themselves and the program keeps: batch norm statistics, counters.
  std::vector<std::string> own_states;
};

// `graph` as lowered from the whole program, before passes. `others`: replicas are in other
// processes too, whose shares only the run finds out.
ReplicaFeeds make_replica(Graph& graph, LossGradient loss_gradient, bool others = false);

}  // namespace trireme
