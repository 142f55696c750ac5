// Checking feeds, finding or making the plan, and the one way in which programs run.
#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <shared_mutex>
#include <thread>

#include "compile/graphviz.h"
#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "core/caller_poll.h"
#include "core/flags.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/text.h"
#include "core/warning.h"
#include "ops/remote/remote_calls.h"
#include "runtime/check_passes.h"
#include "runtime/executor_plans.h"
#include "runtime/feed_split.h"
#include "runtime/overwritten_feeds.h"
#include "runtime/runs_under_way.h"
#include "runtime/serving.h"

namespace trireme {
namespace {

constexpr size_t kMaxPlans = 64;

std::mutex scope_mutex;
Scope* current_scope = nullptr;

// The extents that the declaration fixes and the feed agrees with; the others are bound later.
Shape declared_extents(const Var& var, const Shape& fed) {
  Shape shape;
  for (int i = 0; i < fed.rank(); ++i) {
    const bool fixed = var.shape().rank() == fed.rank() && var.shape()[i] == fed[i];
    shape.push_back(fixed ? fed[i] : Dim());
  }
  return shape;
}

// A program that was made for several ranks, and that trains, never trains on its own: nobody would
// notice that the ranks have drifted apart.
void refuse_training_alone(const Program& program, bool has_others) {
  if (has_others || !program.distributed || program.distributed->mode != "nccl2") return;
  const size_t ranks = program.distributed->trainer_endpoints.size();
  const std::vector<Op*> ops = program.global_block().ops();
  const bool trains = std::any_of(ops.begin(), ops.end(),
                                  [](const Op* op) { return op->has_role(op_role::kBackward); });
  if (ranks < 2 || !trains) return;
  throw Error(ErrorKind::precondition,
              cat("the program was transpiled for ", ranks, " trainers and is run by one"))
      .fix(cat("compile it with BuildStrategy.num_trainers = ", ranks, " and trainer_id = ",
               program.distributed->trainer_id, ", or give them to ParallelExecutor"));
}

Scope& original_scope() {
  static Scope scope;
  return scope;
}

}  // namespace

Scope& global_scope() {
  std::lock_guard lock(scope_mutex);
  return current_scope ? *current_scope : original_scope();
}

Scope* swap_global_scope(Scope* scope) {
  std::lock_guard lock(scope_mutex);
  Scope* before = current_scope ? current_scope : &original_scope();
  current_scope = scope;
  return before;
}

Executor::Executor(Place place) : place_(place), process_seed_(fresh_seed()) {}
Executor::~Executor() = default;

void Executor::close() {
  server_calls().leave("");
  std::lock_guard lock(mutex_);
  closed_ = true;
  cache_.clear();
}

ExecutorCounters Executor::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

Feeds Executor::checked_feeds(const Program& program, const Feeds& feeds) const {
  Feeds checked;
  for (const auto& [name, tensor] : feeds) {
    const Var* var = program.global_block().find_var(name);
    if (!var) {
      warn_once(cat("feed names ", name, ", which the program does not have: it is ignored"));
      continue;
    }
    checked.emplace(name, checked_feed(*var, tensor));
  }
  return checked;
}

void Executor::check_can_run(const Program& program) const {
  if (closed_) {
    throw Error(ErrorKind::precondition, "this executor was closed").fix("make a new Executor");
  }
  if (program.global_block().size() == 0) {
    warn_once("the program has no operators: running it does nothing");
  }
}

Executor::Key Executor::key_of(const Program& program, std::span<const Feeds> feeds,
                               const std::vector<std::string>& fetches,
                               const RunOptions& options) const {
  Key key;
  key.program = program.id();
  key.version = program.version();
  key.prune = options.use_prune;
  key.keep_optimizers = options.keep_optimizers;
  key.passes_off = options.passes_off;
  key.graphviz = options.graphviz;
  key.devices = static_cast<int>(feeds.size());
  key.fetches = fetches;
  for (const auto& [name, tensor] : feeds.front()) {
    const Var& var = program.global_block().var(name);
    FeedFacts facts{.dtype = tensor.dtype(),
                    .shape = declared_extents(var, tensor.shape()),
                    .lod_level = static_cast<int>(tensor.lod().size())};
    // One plan serves all devices: extents in which they differ stay unknown.
    for (const Feeds& other : feeds) {
      const Shape& shape = other.at(name).shape();
      if (shape.rank() != facts.shape.rank()) {
        throw Error(cat("the devices' feeds of ", name, " have ", facts.shape.rank(), " and ",
                        shape.rank(), " dimensions"));
      }
      for (int i = 0; i < shape.rank(); ++i) {
        if (!(facts.shape[i] == shape[i])) facts.shape[i] = Dim();
      }
    }
    key.feeds.emplace_back(name, facts);
  }
  return key;
}

Graph Executor::lower_as(const Program& program, const Key& key) {
  LowerRequest request;
  for (const auto& [name, facts] : key.feeds) request.feeds[name] = facts;
  request.fetches = key.fetches;
  request.sync_batch_norm =
      key.replicated() && (key.devices > 1 || key.parallel.others) && key.parallel.sync_batch_norm;
  if (key.prune) {
    std::erase_if(request.feeds, [&](const auto& feed) {
      return program.global_block().find_var(feed.first) == nullptr;
    });
  }
  return lower(program, request);
}

std::shared_ptr<Executor::Compiled> Executor::compiled_for(const Program& program, const Key& key,
                                                           const RunOptions& options) {
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < cache_.size(); ++i) {
      if (!cache_[i]->key.matches(key)) continue;
      const auto found = cache_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(cache_.begin(), found, found + 1);
      return cache_.front();
    }
  }

  refuse_training_alone(program, key.parallel.others != nullptr);
  const std::shared_ptr<Program> pruned = key.reached(program);
  Graph graph = lower_as(pruned ? *pruned : program, key);
  warn_of_overwritten_feeds(graph, key.parallel.loss_gradient == LossGradient::fed);
  if (!options.graphviz.empty()) draw_graph(graph, options.graphviz + "_before", options.poll);
  auto compiled = std::make_shared<Compiled>();
  compiled->key = key;
  compiled->number_feeds(program, graph);
  ReplicaPlan& made = compiled->made;
  made.places = key.parallel.places;
  if (made.places.empty()) made.places.assign(static_cast<size_t>(key.devices), place_);
  made.replicated = key.replicated();
  made.weighted = key.parallel.loss_gradient == LossGradient::weighted;
  made.tree = key.parallel.tree;
  made.others = key.parallel.others;
  if (made.replicated) {
    made.feeds = make_replica(graph, key.parallel.loss_gradient, made.others != nullptr);
  }
  const Target target = target_of(made.places.front());
  graph.states_stay = program.for_inference && !made.replicated && key.devices == 1 &&
                      target.device == DeviceKind::cpu;
  compiled->passes = run_passes(graph, target, options.passes_off);
  if (!options.graphviz.empty()) draw_graph(graph, options.graphviz + "_after", options.poll);
  tell_progress("compiling", cat("the plan of ", graph.nodes.size(), " nodes"), 1, 1);
  made.plan = make_plan(std::move(graph), target);
  compiled->find_what_goes_up();
  tell_progress("compiling", "", 1, 1);

  std::lock_guard lock(mutex_);
  ++counters_.compiles;
  // Older versions of this program will not come back.
  std::erase_if(cache_, [&](const auto& entry) {
    return entry->key.program == program.id() && entry->key.version != program.version();
  });
  cache_.insert(cache_.begin(), compiled);
  if (cache_.size() > kMaxPlans) cache_.pop_back();
  return compiled;
}

// The plan that ran last, or null when it is not for this call.
std::shared_ptr<Executor::Compiled> Executor::latest(const Program& program,
                                                     std::span<const Feeds> feeds,
                                                     const std::vector<std::string>& fetches,
                                                     const ParallelOptions& parallel,
                                                     const RunOptions& options) const {
  std::lock_guard lock(mutex_);
  if (cache_.empty() || !cache_.front()->key.matches(program, feeds, fetches, parallel, options))
    return nullptr;
  return cache_.front();
}

RunSettings Executor::settings_for(const RunOptions& options) {
  RunSettings settings;
  // Seed 0 asks for fresh numbers in every run, also where a run changes nothing.
  settings.process_seed = options.process_seed
                              ? *options.process_seed
                              : process_seed_ + runs_.fetch_add(1, std::memory_order_relaxed);
  settings.check_nan_inf = checks_nan_inf();
  settings.poll = options.poll;
  settings.cut_bytes = options.cut_bytes;
  settings.shapes_only = options.shapes_only;
  return settings;
}

namespace {

// FLAGS_check_passes: whoever looks for a wrong number pays for every plan a few more runs.
void warn_of_differing_passes(const Program& program, std::span<const Feeds> feeds,
                              const Executor::ParallelOptions& parallel, const Scope& scope,
                              const std::function<void()>& poll) {
  static thread_local bool checking = false;  // the runs that are compared make plans too
  if (checking || !std::get<bool>(get_flag("check_passes"))) return;
  checking = true;
  try {
    const std::vector<PassCheck> checks =
        check_passes(program, std::vector<Feeds>(feeds.begin(), feeds.end()), scope,
                     {.tolerance = 1e-5, .parallel = parallel, .poll = poll});
    checking = false;
    if (!std::all_of(checks.begin(), checks.end(), [](const auto& c) { return c.equal(); })) {
      warn("FLAGS_check_passes: passes changed numbers\n" + to_text(checks));
    }
  } catch (...) {
    checking = false;
    throw;
  }
}

// Nothing about them is wrong but perhaps type and shape, which a plan's key names.
bool all_whole(const Feeds& feeds) {
  return std::all_of(feeds.begin(), feeds.end(), [](const auto& feed) {
    const Tensor& tensor = feed.second;
    if (!tensor.initialized() || tensor.lod().empty()) return tensor.initialized();
    return lod_problem(tensor.lod(), tensor.shape().rank() ? tensor.shape().at(0) : 1).empty();
  });
}

// Every op's results are looked at when it has run: none may be hidden inside a fused node or a
// group.
void keep_apart_for_checks(RunOptions& options) {
  if (!checks_nan_inf()) return;
  for (const char* pass : {"fuse_conv_bias", "fold_for_inference", "fuse_batch_norm",
                           "fuse_elementwise", "group_updates"}) {
    options.passes_off.emplace_back(pass);
  }
}

// Devices take their feeds by the numbers of the first one's: names are the same.
void check_same_names(const std::vector<Feeds>& devices) {
  const auto check = [](size_t lacks, size_t has, const std::string& name) {
    throw Error(cat("device ", lacks, " is not fed ", name, ", which device ", has, " is"))
        .fix("feed the same names to every device");
  };
  const Feeds& first = devices.front();
  for (size_t i = 1; i < devices.size(); ++i) {
    if (same_names(first, devices[i])) continue;
    for (const auto& [name, tensor] : first) {
      if (!devices[i].contains(name)) check(i, 0, name);
    }
    for (const auto& [name, tensor] : devices[i]) {
      if (!first.contains(name)) check(0, i, name);
    }
  }
}

// Another thread's run may be long: whoever waits for it can be interrupted.
template <class Lock>
void wait_for(Lock& lock, const std::function<void()>& poll) {
  using namespace std::chrono_literals;
  if (lock.try_lock()) return;
  auto pause = 20us;
  for (auto next_poll = std::chrono::steady_clock::now() + 100ms; !lock.try_lock();) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1ms));
    if (!poll || std::chrono::steady_clock::now() < next_poll) continue;
    poll();
    next_poll = std::chrono::steady_clock::now() + 100ms;
  }
}

// Runs that write persistables exclude each other; runs that only read go side by side.
template <class Run>
void locked(Scope& scope, bool writes, const std::function<void()>& poll, Run run) {
  check_not_cut_off(scope, writes);
  std::unique_lock exclusive(scope.run_lock(), std::defer_lock);
  std::shared_lock shared(scope.run_lock(), std::defer_lock);
  writes ? wait_for(exclusive, poll) : wait_for(shared, poll);
  const RunUnderWay under_way(scope, writes);
  if (writes) scope.count_contents_changed();
  run();
}

}  // namespace

// A plan, and what is fed to it.
struct Executor::Ready {
  std::shared_ptr<Compiled> compiled;
  std::span<const Feeds> feeds;     // by device
  std::vector<Feeds> checked = {};  // the same; empty where they need no second look
};

// A steady step's feeds were checked when its plan was made: with the same facts they need no
// second look.
Executor::Ready Executor::ready(const Program& program, std::span<const Feeds> feeds,
                                const std::vector<std::string>& fetches,
                                const ParallelOptions& parallel, const RunOptions& options,
                                Scope& scope) {
  Ready made{.compiled = nullptr, .feeds = feeds};
  if (std::all_of(feeds.begin(), feeds.end(), all_whole)) {
    made.compiled = latest(program, feeds, fetches, parallel, options);
    if (made.compiled) return made;
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (options.check_feeds) options.check_feeds(feeds[i]);
    made.checked.push_back(checked_feeds(program, feeds[i]));
  }
  check_same_names(made.checked);
  made.feeds = made.checked;
  made.compiled = latest(program, made.feeds, fetches, parallel, options);
  if (made.compiled) return made;
  const size_t before = counters().compiles;
  Key key = key_of(program, made.feeds, fetches, options);
  key.parallel = parallel;
  made.compiled = compiled_for(program, key, options);
  if (counters().compiles > before && !options.shapes_only) {
    warn_of_differing_passes(program, made.feeds, parallel, scope, options.poll);
  }
  return made;
}

std::unique_ptr<Replicas> Executor::fed(const Ready& ready, Scope& scope) const {
  const Compiled& compiled = *ready.compiled;
  std::unique_ptr<Replicas> replicas = ready.compiled->take(scope.id());
  for (size_t device = 0; device < ready.feeds.size(); ++device) {
    const Feeds& one = ready.feeds[device];
    const int number = static_cast<int>(device);
    for (size_t i = 0; i < compiled.feed_numbers.size(); ++i) {
      const Tensor& tensor = one.number(compiled.feed_numbers[i]);
      const bool there = compiled.goes_up[i] && tensor.place() == compiled.made.places.front();
      const bool here = there || in_host_memory(tensor.place());
      here ? replicas->feed(number, i, tensor) : replicas->feed(number, i, tensor.on_host());
    }
    if (!compiled.made.replicated) continue;
    const int batch = compiled.samples;
    replicas->set_samples(number,
                          batch < 0 ? 1 : sample_count(one.number(static_cast<size_t>(batch))));
  }
  return replicas;
}

void Executor::run_on(const Program& program, std::span<const Feeds> feeds,
                      const std::vector<std::string>& fetches, const ParallelOptions& parallel,
                      RunOptions options, const std::function<void(Replicas&)>& take) {
  check_can_run(program);
  const CallerPoll polled(options.poll);
  meeting_.wait(program.distributed, options.poll);
  keep_apart_for_checks(options);
  promise(!feeds.empty(), "feeds for at least one device");
  Scope& scope = options.scope ? *options.scope : global_scope();
  if (serves(program)) {
    if (!fetches.empty()) {
      throw Error(cat("a run that serves parameters has no ", fetches[0], " to fetch"))
          .fix("run it without a fetch list");
    }
    return serve(program, scope, options.poll);
  }
  const Ready made = ready(program, feeds, fetches, parallel, options, scope);
  RunSettings settings = settings_for(options);
  std::unique_ptr<Replicas> replicas = fed(made, scope);
  const size_t binds_before = replicas->bind_count();
  const bool timed = profiling_on();
  const auto start =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  locked(scope, made.compiled->made.plan->writes_states, options.poll, [&] {
    TeamLease lease(options.threads > 0 ? options.threads : num_threads());
    settings.team = &lease;
    replicas->run(scope, settings);
    take(*replicas);
  });
  if (timed) {
    record_event(
        {.op = "step", .kind = ProfileEvent::Kind::step, .plan = made.compiled->made.plan.get()},
        start);
  }
  {
    std::lock_guard lock(mutex_);
    counters_.binds += replicas->bind_count() - binds_before;
  }
  // Replicas whose run failed are dropped with their half-made state; these are whole.
  made.compiled->give_back(std::move(replicas), made.feeds);
}

std::vector<Variable> Executor::run(const Program& program, const Feeds& feeds,
                                    const std::vector<std::string>& fetches, RunOptions options) {
  std::vector<Variable> results;
  run_on(program, {&feeds, 1}, fetches, {}, std::move(options),
         [&](Replicas& replicas) { results = replicas.take_fetches(); });
  return results;
}

// Alone, only a loss gradient that the caller feeds makes a difference.
Executor::ParallelOptions Executor::in_effect(const ParallelOptions& parallel, size_t devices) {
  const bool alone =
      devices == 1 && !parallel.others && parallel.loss_gradient != LossGradient::fed;
  return alone ? ParallelOptions{.places = parallel.places} : parallel;
}

std::vector<Replicas::Result> Executor::run_parallel(const Program& program,
                                                     std::span<const Feeds> feeds,
                                                     const std::vector<std::string>& fetches,
                                                     const ParallelOptions& parallel,
                                                     RunOptions options) {
  std::vector<Replicas::Result> results;
  run_on(program, feeds, fetches, in_effect(parallel, feeds.size()), std::move(options),
         [&](Replicas& replicas) { results = replicas.take_results(); });
  return results;
}

PlanMemory Executor::prepare(const Program& program, const std::vector<Feeds>& feeds,
                             const std::vector<std::string>& fetches,
                             const ParallelOptions& parallel, const RunOptions& options) {
  check_can_run(program);
  promise(!feeds.empty(), "feeds for at least one device");
  Scope& scope = options.scope ? *options.scope : global_scope();
  check_not_cut_off(scope, true);
  const Ready made =
      ready(program, feeds, fetches, in_effect(parallel, feeds.size()), options, scope);
  std::unique_ptr<Replicas> replicas = fed(made, scope);
  replicas->bind(scope, settings_for(options));
  const PlanMemory memory{.arena = replicas->arena_bytes(),
                          .live = replicas->live_bytes(),
                          .scratch = replicas->scratch_bytes(),
                          .own = replicas->own_bytes(),
                          .partly = !replicas->knows_its_memory()};
  made.compiled->give_back(std::move(replicas), made.feeds);
  return memory;
}

Tensor Executor::run_one(const Program& program, const Feeds& feeds, const std::string& fetch,
                         RunOptions options) {
  return std::as_const(run(program, feeds, {fetch}, std::move(options)).front()).tensor();
}

}  // namespace trireme
