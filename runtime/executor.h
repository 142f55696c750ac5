// Runs programs: checks feeds, compiles once per (program, version, feeds, fetches), binds, runs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/place.h"
#include "core/scope.h"
#include "ir/program.h"
#include "runtime/feeds.h"
#include "runtime/frame.h"
#include "runtime/meeting.h"
#include "runtime/replicas.h"

namespace trireme {

struct RunOptions {
  Scope* scope = nullptr;        // null: the global scope
  bool use_prune = false;        // only what the fetches need runs
  bool keep_optimizers = false;  // with use_prune: optimizer ops stay (they were in the fetch list)
  std::function<void()> poll;    // called now and then while running; throws to end the run
  int threads = 0;               // 0: num_threads() (core/flags.h). Results do not depend on it
  size_t cut_bytes = kCutBytes;  // instructions that touch less run whole
  std::vector<std::string> passes_off = {};  // passes not to run; all of them: the oracle
  std::optional<uint64_t> process_seed = std::nullopt;  // what seed 0 means; none: fresh numbers
  // Asked before a plan is looked for that takes other feeds than those of the last run; throws.
  std::function<void(const Feeds&)> check_feeds = {};
  bool shapes_only = false;   // prepare: feeds have the shapes of those to come, not what they hold
  std::string graphviz = {};  // where a new plan's graph is drawn, before and after the passes
};

// Counts since the executor was made: why a step was slow.
struct ExecutorCounters {
  size_t compiles = 0;
  size_t binds = 0;
};

// A plan as it was bound: what a saved compiled program remembers of it.
struct PlanSignature {
  struct Feed {
    std::string name;
    DType dtype = DType::float32;
    Shape shape;
    Lod lod;
  };
  std::vector<std::string> fetches;
  std::vector<std::vector<Feed>> feeds;  // by device
  std::string digest;  // see Frame::digest; empty: not known for these shapes any more
};

// Bytes of a step: the arena, the most of it that lives at once, the scratch of one instruction at
// a time, and values with memory of their own (fetches, SelectedRows, arrays).
struct PlanMemory {
  size_t arena = 0, live = 0, scratch = 0, own = 0;
  // More may come in the run: shapes, or how often a loop goes round, depend on values.
  bool partly = false;
};

// What a report has beside the plan.
struct ReportParts {
  std::string process = {};               // what it is called among those of a job
  std::vector<ProfileEvent> events = {};  // of profiled steps
  std::string machine = "null";           // JSON: how fast it is
  std::string strategies = "null";        // JSON: every knob with its answer
};

class Executor {
 public:
  explicit Executor(Place place = cpu_place());
  ~Executor();

  // One result per fetched name. A result that was never written is an empty variable.
  std::vector<Variable> run(const Program& program, const Feeds& feeds = {},
                            const std::vector<std::string>& fetches = {}, RunOptions options = {});
  // The value of one dense fetch.
  Tensor run_one(const Program& program, const Feeds& feeds, const std::string& fetch,
                 RunOptions options = {});

  // The same program on several devices: feeds by device, results by fetch and device. Gradients
  // are summed in device order; where devices share memory, parameters are stored once.
  struct ParallelOptions {
    std::vector<Place> places = {};  // by device; empty: each is the executor's place
    LossGradient loss_gradient = LossGradient::weighted;
    bool sync_batch_norm = false;
    bool tree = false;                   // gradients are summed as a binary tree over the devices
    std::shared_ptr<Group> others = {};  // processes with as many devices that train with these
    bool operator==(const ParallelOptions&) const = default;
  };
  std::vector<Replicas::Result> run_parallel(const Program& program, std::span<const Feeds> feeds,
                                             const std::vector<std::string>& fetches,
                                             const ParallelOptions& parallel,
                                             RunOptions options = {});
  // Compiles and binds without running: the first run then has nothing left to do.
  PlanMemory prepare(const Program& program, const std::vector<Feeds>& feeds,
                     const std::vector<std::string>& fetches, const ParallelOptions& parallel,
                     const RunOptions& options = {});
  // The plans that have run on so many devices in this way, with every set of shapes that they
  // were bound to lately; devices 0: on any number, in any way.
  std::vector<PlanSignature> plans_of(const Program& program, int devices = 0,
                                      const ParallelOptions* parallel = nullptr) const;
  void drop_temporaries(const Program& program);  // memory kept between steps of its plans
  // What that is now, and how much of it lives at one instruction at most.
  struct ArenaBytes {
    size_t held = 0, live = 0;
  };
  ArenaBytes arena(const Program& program);
  size_t arena_bytes(const Program& program) { return arena(program).held; }
  // The plan that ran last for this program: passes, memory with its largest owners, kernels.
  // `devices` and `parallel` as for plans_of.
  std::string report(const Program& program, int devices = 0,
                     const ParallelOptions* parallel = nullptr) const;
  // Everything that is known of that plan, for other programs: docs/view.md says what stands where.
  // The program must be as it was when it ran.
  std::string json(const Program& program, const ReportParts& parts, int devices = 0,
                   const ParallelOptions* parallel = nullptr) const;
  // Of that plan, see Frame::digest.
  std::string digest(const Program& program, int devices = 0,
                     const ParallelOptions* parallel = nullptr) const;
  void close();  // later runs are refused; may be called again
  Place place() const { return place_; }
  ExecutorCounters counters() const;

 private:
  struct Compiled;
  struct Key;
  // Before the passes; the program is what the key has reached of it.
  static Graph lower_as(const Program& program, const Key& key);
  static ParallelOptions in_effect(const ParallelOptions& parallel, size_t devices);
  Feeds checked_feeds(const Program& program, const Feeds& feeds) const;
  Key key_of(const Program& program, std::span<const Feeds> feeds,
             const std::vector<std::string>& fetches, const RunOptions& options) const;
  std::shared_ptr<Compiled> latest(const Program& program, std::span<const Feeds> feeds,
                                   const std::vector<std::string>& fetches,
                                   const ParallelOptions& parallel,
                                   const RunOptions& options) const;
  const Compiled* last_of(const Program& program, int devices,
                          const ParallelOptions* parallel) const;  // null: none
  RunSettings settings_for(const RunOptions& options);
  void check_can_run(const Program& program) const;
  struct Ready;
  Ready ready(const Program& program, std::span<const Feeds> feeds,
              const std::vector<std::string>& fetches, const ParallelOptions& parallel,
              const RunOptions& options, Scope& scope);
  std::unique_ptr<Replicas> fed(const Ready& ready, Scope& scope) const;
  // The one way in which programs run: on one device or several. `take` gets the results.
  void run_on(const Program& program, std::span<const Feeds> feeds,
              const std::vector<std::string>& fetches, const ParallelOptions& parallel,
              RunOptions options, const std::function<void(Replicas&)>& take);
  std::shared_ptr<Compiled> compiled_for(const Program& program, const Key& key,
                                         const RunOptions& options);

  Place place_;
  bool closed_ = false;
  uint64_t process_seed_;
  std::atomic<uint64_t> runs_{0};
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Compiled>> cache_;  // most recently used first
  ExecutorCounters counters_;
  Meeting meeting_;
};

// The process's scope: what programs use when the caller names none.
Scope& global_scope();
// Makes `scope` the global one (null: the original) and returns the one before.
Scope* swap_global_scope(Scope* scope);

// Checks one fed tensor against the variable's declaration and converts what may be converted
// (int32 to int64, float64 to float32, with one warning).
Tensor checked_feed(const Var& var, Tensor tensor);

}  // namespace trireme
