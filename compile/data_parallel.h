// Cuts a training graph in two: what every replica runs on its share of the batch, and what runs
// once on the summed gradients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/graph.h"

namespace trireme {

struct ParallelGraphs {
  Graph replica;  // forward and backward
  Graph update;   // learning rate, clip, regularize, optimize; empty for inference
  // Gradients: replica.kept[i] of all replicas, summed in replica order, is update.feeds[i].
  size_t gradients = 0;
  // update.feeds[gradients + i] is the user's feed passed[i], equal on all replicas.
  std::vector<int> passed;
  // The replica's feed that takes the weight of its share of the loss: -1 when there is no backward
  // part, or when the caller feeds the loss gradient.
  int loss_weight_feed = -1;
  // The value whose element count decides the weight (what the loss is the mean of); -1: samples.
  int averaged_value = -1;
  std::string loss_grad_name;
  // The first op on the gradients' way that is not linear in them, as error_clip's is: the loss
  // weights must be right before the run, not made right after it. Null: there is none.
  std::shared_ptr<const Origin> nonlinear;
  // Where each fetch of the uncut graph comes from.
  struct Fetch {
    std::string name;
    bool once = false;  // equal on every replica: from the update part
    int index = 0;      // among the fetches of that part
  };
  std::vector<Fetch> fetches;
};

enum class LossGradient {
  weighted,  // each replica's share of what the loss averages over: the sum equals one device
  one,
  fed,  // the caller feeds <loss>@GRAD, one value per replica
};

// `graph` as lowered from the whole program, before passes.
ParallelGraphs cut_for_data_parallel(Graph graph, LossGradient loss_gradient);

}  // namespace trireme
