// Data parallel on one machine: replicas of one plan, each on its share of the batch, and one
// update.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compile/data_parallel.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "core/scope.h"
#include "runtime/frame.h"

namespace trireme {

// Parameters and optimizer state are stored once and shared. What replicas themselves write (batch
// norm statistics, counters) has a copy per replica while a step runs: replica 0 writes the run
// scope's, the others start from a copy of it. At the end of the step all are merged into the
// scope's, which is the only one that outlives the step.
class Replicas {
 public:
  struct Options {
    bool weighted = true;  // each replica's loss gradient is its share; else 1
    bool tree = false;     // gradients are summed as a binary tree; else one after another
    std::vector<std::string> passes_off = {};
    std::string graphviz = {};        // where the graph after the passes is drawn
    std::function<void()> poll = {};  // while it is drawn
  };
  Replicas(ParallelGraphs graphs, int devices, const Options& options);

  int devices() const { return static_cast<int>(frames_.size()); }
  const std::vector<Graph::Named>& feeds() const { return replica_->graph.feeds; }
  // The user's feeds by device, in the order of feeds() without the loss weight.
  void feed(int device, size_t number, const Tensor& tensor);
  void set_samples(int device, int64_t samples) { samples_[device] = samples; }
  struct Result {
    std::vector<Variable> by_device;
    std::vector<double> shares = {};  // of what the loss averages over; they sum to 1
  };
  // Runs on what is fed. After a failed run nothing of it is left but what it wrote into the scope.
  std::vector<Result> run(Scope& scope, const RunSettings& settings);
  // Only binds, as far as shapes are known before the run.
  void bind(Scope& scope, const RunSettings& settings);
  const Plan& plan() const { return *replica_; }
  const Frame& frame(int device) const { return *frames_[device]; }
  std::string digest() const { return frames_[0]->digest(); }
  bool writes_states() const {
    return replica_->writes_states || (update_ && update_->writes_states);
  }
  void drop_temporaries();  // all memory between steps goes back; the next run makes it again
  size_t arena_bytes() const;
  size_t live_bytes() const;
  size_t scratch_bytes() const;
  size_t own_bytes() const;  // of values outside the arenas, copies of states among them
  bool knows_its_memory() const;
  const std::vector<PassReport>& passes() const { return passes_; }
  std::string report() const;  // of one replica and of the update

 private:
  // Shares, and whether they are those of what the loss averages over or only of samples.
  struct Weights {
    std::vector<double> shares;
    bool exact = true;
  };
  void bind_weighted(Scope& scope, const RunSettings& alone);
  void bind_update(Scope& scope, const RunSettings& settings);
  size_t of_frames(size_t (MemoryPlacement::*bytes)() const) const;
  std::vector<Result> step(Scope& scope, const RunSettings& settings);
  void copy_states(Scope& scope);
  void find_weights();
  void refuse_nonlinear() const;
  void correct_weights();
  void place_draws();
  void run_replicas(const RunSettings& alone, Scope& scope, Team* team);
  void exchange(int instruction);
  void sum_gradients(const RunSettings& settings);
  void sum_rows(size_t gradient);
  void find_filled_buckets();
  const Tensor& dense_gradient(size_t device, int value);
  const Tensor& common_feed(int number);
  void merge_states(Scope& scope);

  ParallelGraphs graphs_;  // its Graphs have moved into the plans
  std::unique_ptr<Plan> replica_;
  std::unique_ptr<Plan> update_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::unique_ptr<Frame> update_frame_;
  Options options_;
  std::vector<PassReport> passes_;
  std::vector<int> random_;           // instructions that draw numbers
  std::vector<int> alone_;            // gradients in no bucket
  std::vector<bool> filled_buckets_;  // by bucket: its gradients stand in it in this step
  std::vector<LocalStates> states_;   // by replica; replica 0 has none
  std::vector<int64_t> samples_;      // by replica
  std::vector<Tensor> loss_weights_;  // by replica: one element
  Weights used_;                      // of the step

  // Kept between steps: a steady one asks for no memory.
  size_t placed_changes_ = 0;  // of all frames when the draws were placed
  std::vector<int> met_;       // by replica: where it waits
  std::vector<Tensor*> copies_;
  struct NamedRow {
    int64_t row;
    size_t device, position;
    auto operator<=>(const NamedRow&) const = default;
  };
  std::vector<NamedRow> named_;
};

}  // namespace trireme
