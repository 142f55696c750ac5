// Data parallel on one machine: replicas of one plan, each on its share of the batch, and one
// update.
#pragma once

#include <memory>
#include <vector>

#include "compile/data_parallel.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "core/scope.h"
#include "runtime/frame.h"

namespace trireme {

// Parameters and optimizer state are stored once and shared. What replicas themselves write (batch
// norm statistics, counters) has a copy per replica: replica 0's is the run scope's, the others'
// are in local scopes; at the end of a step they are merged and every replica goes on from the
// same.
class Replicas {
 public:
  struct Options {
    bool weighted = true;  // each replica's loss gradient is its share; else 1
    bool tree = false;     // gradients are summed as a binary tree; else one after another
    std::vector<std::string> passes_off = {};
    std::string graphviz = {};  // where the graph after the passes is drawn
  };
  Replicas(ParallelGraphs graphs, int devices, const Options& options);

  int devices() const { return static_cast<int>(frames_.size()); }
  const std::vector<Graph::Named>& feeds() const { return replica_->graph.feeds; }
  // The user's feeds by replica, in the order of feeds() without the loss weight.
  struct Result {
    std::vector<Variable> by_device;
  };
  std::vector<Result> run(const std::vector<std::vector<Variable>>& feeds,
                          const std::vector<int64_t>& samples, Scope& scope,
                          const RunSettings& settings);
  // Only binds, as far as shapes are known before the run.
  void bind(const std::vector<std::vector<Variable>>& feeds, const std::vector<int64_t>& samples,
            Scope& scope, const RunSettings& settings);
  const Plan& plan() const { return *replica_; }
  const Frame& frame(int device) const { return *frames_[device]; }
  std::string digest() const { return frames_[0]->digest(); }
  bool writes_states() const {
    return replica_->writes_states || (update_ && update_->writes_states);
  }
  void drop_temporaries();  // all memory between steps goes back; the next run makes it again
  size_t arena_bytes() const;
  const std::vector<PassReport>& passes() const { return passes_; }
  std::string report() const;  // of one replica and of the update

 private:
  void make_local_scopes(Scope& scope);
  std::vector<std::vector<Variable>> weighted_inputs(
      const std::vector<std::vector<Variable>>& feeds, const std::vector<int64_t>& samples,
      const RunSettings& alone, std::vector<double>& shares);
  std::vector<double> weights(const std::vector<int64_t>& samples) const;
  void place_draws();
  void run_replicas(const std::vector<std::vector<Variable>>& inputs, const RunSettings& alone,
                    Team* team);
  void exchange(int instruction);
  void sum_gradients(std::vector<Variable>& sums, const RunSettings& settings);
  void merge_states(const std::vector<double>& weights);

  ParallelGraphs graphs_;  // its Graphs have moved into the plans
  std::unique_ptr<Plan> replica_;
  std::unique_ptr<Plan> update_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::unique_ptr<Frame> update_frame_;
  Options options_;
  std::vector<PassReport> passes_;
  std::vector<int> random_;  // instructions that draw numbers
  uint64_t scope_id_ = 0;
  std::vector<Scope*> scopes_;  // by replica; 0 is the run scope
};

}  // namespace trireme
