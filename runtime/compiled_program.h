// CompiledProgram: a program, how to compile it, and on which devices to run it.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/ring.h"
#include "core/place.h"
#include "ir/program.h"
#include "runtime/check_passes.h"
#include "runtime/executor.h"
#include "runtime/feed_split.h"
#include "runtime/strategy.h"

namespace trireme {

// Strategies are copied on entry: later edits of the caller's objects change nothing here. Edits of
// the program are seen at the next run.
class CompiledProgram {
 public:
  explicit CompiledProgram(std::shared_ptr<Program> program, BuildStrategy build = {});

  struct DataParallel {
    std::string loss_name = {};
    std::optional<BuildStrategy> build_strategy = {};  // replaces the constructor's
    ExecutionStrategy exec_strategy = {};
    const CompiledProgram* share_vars_from = nullptr;
    std::vector<Place> places = {};  // empty: default_places of the executor's kind, at first use
  };
  // Once only. Checks the strategies, the places and, where the program trains, that the loss can
  // be found: by its name, or by its role when no name is given.
  void with_data_parallel(const DataParallel& options);

  const std::shared_ptr<Program>& program() const { return program_; }
  bool is_data_parallel() const { return data_parallel_; }
  const BuildStrategy& build_strategy() const { return build_; }
  const ExecutionStrategy& exec_strategy() const { return exec_; }
  // How many; of this kind where nobody said which places, and no run has found out.
  int devices(DeviceKind kind = DeviceKind::cpu) const;
  bool trains() const;

  // One dict for all devices, split by split_feeds; a program that trains needs a sample per
  // device, one that does not may leave devices idle, with a warning.
  std::vector<Replicas::Result> run(Executor& executor, const Feeds& feeds,
                                    const std::vector<std::string>& fetches,
                                    RunOptions options = {});
  // The same where one device takes it all: one variable per fetch.
  bool has_one_device(const Executor& executor) const {
    take_places(executor.place().kind);
    return shards() == 1 && !feeds_loss_gradient() && !joins_others();
  }
  std::vector<Variable> run_alone(Executor& executor, const Feeds& feeds,
                                  const std::vector<std::string>& fetches, RunOptions options = {});
  // One dict per device.
  std::vector<Replicas::Result> run(Executor& executor, const std::vector<Feeds>& feeds,
                                    const std::vector<std::string>& fetches,
                                    RunOptions options = {});

  // Compiles and binds for feeds of these shapes, one per device, without running.
  PlanMemory prepare(Executor& executor, const std::vector<Feeds>& feeds,
                     const std::vector<std::string>& fetches, RunOptions options = {}) const;

  // The same for one dict, shared out over the devices.
  PlanMemory prepare(Executor& executor, const Feeds& feeds,
                     const std::vector<std::string>& fetches, RunOptions options = {}) const;
  // Each pass on and off, on the devices it runs on: see runtime/check_passes.h.
  std::vector<PassCheck> check_passes(const Feeds& feeds, const Scope& scope, double tolerance,
                                      const std::function<void()>& poll = nullptr) const;

  // The plans by which the executor has run it, and what they were bound to.
  std::vector<PlanSignature> plans(const Executor& ran_by) const;
  std::string digest(const Executor& ran_by) const;  // of the last: see Frame::digest

  // Every knob with its answer; with the executor that ran it, also the plan: passes, memory,
  // kernels.
  std::string explain(const Executor* ran_by = nullptr) const;
  // The same for other programs: see Executor::json.
  std::string json(const Executor& ran_by, ReportParts parts) const;

 private:
  RunOptions in_effect(RunOptions options) const;
  bool feeds_loss_gradient() const {
    return data_parallel_ && build_.gradient_scale_strategy == GradientScaleStrategy::customized;
  }
  Executor::ParallelOptions parallel_options() const;
  bool joins_others() const { return data_parallel_ && build_.num_trainers > 1 && trains(); }
  // The processes that this one trains with are those of the scope; all begin with rank 0's
  // parameters.
  void meet_others(const RunOptions& options) const;
  void take_places(DeviceKind kind) const;
  void check_names(const Feeds& feeds, bool pruned) const;
  int shards() const;  // into how many pieces a batch is cut

  // One dict shared out over the devices, and what is known of feeds of these names. It is kept
  // from step to step: a steady one looks no name up and asks for no memory.
  struct Share {
    uint64_t version = 0;  // of the program that this is known of
    bool trains = false;
    std::vector<Fed> kinds;     // by the feed's number
    std::vector<Feeds> pieces;  // by device
    int idle_told = 0;          // idle devices that the user was told of
  };
  struct Shares {  // those that no run uses
    std::mutex mutex;
    std::vector<std::unique_ptr<Share>> idle;
  };
  std::unique_ptr<Share> take_share(const Feeds& feeds) const;
  void share_out(const Feeds& feeds, Share& share) const;

  std::shared_ptr<Program> program_;
  BuildStrategy build_;
  ExecutionStrategy exec_;
  bool data_parallel_ = false;
  std::string loss_gradient_;           // the variable, where the program trains
  bool from_environment_ = false;       // no places were given
  mutable std::vector<Place> places_;   // empty: not yet known
  mutable std::shared_ptr<Ring> ring_;  // as of the last run
  mutable std::set<uint64_t> shared_;   // scopes that have rank 0's parameters
  std::shared_ptr<Shares> shares_ = std::make_shared<Shares>();
};

}  // namespace trireme
