// Frames of one plan that run together: each on its share of the batch, or one alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"
#include "compile/data_parallel.h"
#include "compile/plan.h"
#include "core/scope.h"
#include "runtime/frame.h"

namespace trireme {

// What all replicas of a program have in common.
struct ReplicaPlan {
  std::unique_ptr<Plan> plan;
  bool replicated = false;  // made by make_replica; else one frame runs the program as it is
  ReplicaFeeds feeds;
  bool weighted = true;           // each replica's loss gradient is its share; else 1
  bool tree = false;              // gradients are summed as a binary tree; else one after another
  std::vector<Place> places;      // one per replica
  std::shared_ptr<Group> others;  // processes that have as many replicas; null: there are none
};

// Where replicas share memory, parameters and optimizer state are stored once, in the scope. What
// replicas themselves write (batch norm statistics, counters) has a copy per replica while a step
// runs: replica 0 writes the run scope's, the others start from a copy of it. At the end of the
// step all are merged into the scope's, which is the only one that outlives the step. On devices
// with memory of their own, the other replicas have copies of all states.
class Replicas {
 public:
  explicit Replicas(const ReplicaPlan& plan);
  ~Replicas();

  int devices() const { return static_cast<int>(frames_.size()); }
  // The user's feeds by device, in the order of the program's feeds, without the loss weight.
  void feed(int device, size_t number, const Tensor& tensor) {
    frames_[static_cast<size_t>(device)]->feed(number, tensor);
  }
  void set_samples(int device, int64_t samples) { samples_[static_cast<size_t>(device)] = samples; }
  // Runs on what is fed. After a failed run nothing of it is left but what it wrote into the scope,
  // and this object is not used again.
  void run(Scope& scope, const RunSettings& settings);
  // One variable per fetch of the plan, of a run on one device.
  std::vector<Variable> take_fetches() { return frames_.front()->take_fetches(); }
  struct Result {
    std::vector<Variable> by_device;
    std::vector<double> shares = {};  // of what the loss averages over; they sum to 1
  };
  std::vector<Result> take_results();
  // Only binds, as far as shapes are known before the run.
  void bind(Scope& scope, const RunSettings& settings);

  const Frame& frame(int device) const { return *frames_[static_cast<size_t>(device)]; }
  uint64_t bound_scope() const { return frames_.front()->bound_scope(); }
  size_t bind_count() const;
  std::string digest() const { return frames_.front()->digest(); }
  std::string report() const;
  size_t arena_bytes() const { return of_frames(&MemoryPlacement::arena_bytes); }
  size_t live_bytes() const { return of_frames(&MemoryPlacement::live_bytes); }
  size_t scratch_bytes() const { return of_frames(&MemoryPlacement::scratch_bytes); }
  size_t own_bytes() const;  // of values outside the arenas, copies of states among them
  bool knows_its_memory() const;

 private:
  // A state of which replicas but the first have copies.
  struct Copied {
    int slot;       // the same in every frame
    size_t number;  // of the graph's state
    bool on_device;
    bool merged;  // replicas write it for themselves; else all of them make the same of it
  };
  void find_copied_states();
  void bind_weighted(Scope& scope, const RunSettings& alone);
  void copy_states(Scope& scope);
  void find_shares(bool ran);
  void place_draws();
  void check_common_feeds() const;
  void run_together(Scope& scope, const RunSettings& settings);
  void merge_states();
  size_t of_frames(size_t (MemoryPlacement::*bytes)() const) const;

  const ReplicaPlan& made_;
  std::vector<std::unique_ptr<Group>> groups_;  // by replica; none where one runs alone
  std::vector<LocalStates> states_;             // by replica; replica 0 has none
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Copied> copied_;
  std::vector<int> random_;           // instructions that draw numbers
  std::vector<int64_t> samples_;      // by replica
  std::vector<Tensor> loss_weights_;  // by replica: one element
  std::vector<double> shares_;        // by replica, of the step

  // Kept between steps: a steady one asks for no memory.
  size_t placed_changes_ = 0;              // of all frames when the draws were placed
  std::vector<Frame::Progress> progress_;  // by replica
  std::vector<Tensor> compared_;
};

}  // namespace trireme
