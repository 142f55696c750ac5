#include "runtime/executor.h"

#include <algorithm>
#include <shared_mutex>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "core/flags.h"
#include "core/random.h"
#include "core/text.h"
#include "core/warning.h"

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

// What a plan was compiled for. Extents are not part of it: they are bound later.
struct Executor::Key {
  uint64_t program = 0;
  uint64_t version = 0;
  bool prune = false;
  bool keep_optimizers = false;
  std::vector<std::string> passes_off;
  std::vector<std::string> fetches;
  std::vector<std::pair<std::string, FeedFacts>> feeds;

  bool matches(const Key& other) const {
    if (program != other.program || version != other.version || prune != other.prune ||
        keep_optimizers != other.keep_optimizers || passes_off != other.passes_off ||
        fetches != other.fetches || feeds.size() != other.feeds.size()) {
      return false;
    }
    for (size_t i = 0; i < feeds.size(); ++i) {
      const auto& [name, facts] = feeds[i];
      const auto& [other_name, other_facts] = other.feeds[i];
      if (name != other_name || facts.dtype != other_facts.dtype ||
          !(facts.shape == other_facts.shape)) {
        return false;
      }
    }
    return true;
  }
};

// A plan and the frames that are not running. Frames hold memory and bindings between steps.
struct Executor::Compiled {
  Key key;
  std::unique_ptr<Plan> plan;
  std::vector<std::string> feed_names;  // by the plan's feed number
  std::mutex mutex;
  std::vector<std::unique_ptr<Frame>> idle;

  std::unique_ptr<Frame> take(uint64_t scope_id) {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < idle.size(); ++i) {
      if (idle[i]->bound_scope() == scope_id) {
        std::unique_ptr<Frame> frame = std::move(idle[i]);
        idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(i));
        return frame;
      }
    }
    if (!idle.empty()) {
      std::unique_ptr<Frame> frame = std::move(idle.back());
      idle.pop_back();
      return frame;
    }
    return std::make_unique<Frame>(*plan);
  }
  void give_back(std::unique_ptr<Frame> frame) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(frame));
  }
};

Executor::Executor(Place place) : place_(place), process_seed_(fresh_seed()) {}
Executor::~Executor() = default;

void Executor::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  cache_.clear();
}

ExecutorCounters Executor::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

std::shared_ptr<Executor::Compiled> Executor::compiled_for(const Program& program,
                                                           const Feeds& feeds,
                                                           const std::vector<std::string>& fetches,
                                                           const RunOptions& options) {
  Key key;
  key.program = program.id();
  key.version = program.version();
  key.prune = options.use_prune;
  key.keep_optimizers = options.keep_optimizers;
  key.passes_off = options.passes_off;
  key.fetches = fetches;
  for (const auto& [name, tensor] : feeds) {
    const Var& var = program.global_block().var(name);
    key.feeds.emplace_back(name, FeedFacts{.dtype = tensor.dtype(),
                                           .shape = declared_extents(var, tensor.shape()),
                                           .lod_level = static_cast<int>(tensor.lod().size())});
  }
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < cache_.size(); ++i) {
      if (!cache_[i]->key.matches(key)) continue;
      const auto found = cache_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(cache_.begin(), found, found + 1);
      return cache_.front();
    }
  }

  LowerRequest request;
  for (const auto& [name, facts] : key.feeds) request.feeds[name] = facts;
  request.fetches = fetches;
  Graph graph;
  if (options.use_prune) {
    std::vector<std::string> names;
    for (const auto& [name, facts] : key.feeds) names.push_back(name);
    const auto pruned = options.keep_optimizers ? prune_keeping_optimizers(program, names, fetches)
                                                : prune(program, names, fetches);
    std::erase_if(request.feeds, [&](const auto& feed) {
      return pruned->global_block().find_var(feed.first) == nullptr;
    });
    graph = lower(*pruned, request);
  } else {
    graph = lower(program, request);
  }
  run_passes(graph, options.passes_off);

  auto compiled = std::make_shared<Compiled>();
  compiled->key = std::move(key);
  compiled->plan = make_plan(std::move(graph));
  for (const auto& feed : compiled->plan->graph.feeds) compiled->feed_names.push_back(feed.name);

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

std::vector<Variable> Executor::run(const Program& program, const Feeds& feeds,
                                    const std::vector<std::string>& fetches, RunOptions options) {
  if (closed_) {
    throw Error(ErrorKind::precondition, "this executor was closed").fix("make a new Executor");
  }
  if (place_.device != Device::cpu) {
    throw Error(ErrorKind::unimplemented,
                cat("this build runs on CPU only and cannot run on ", to_string(place_)))
        .fix("use CPUPlace()");
  }
  const Block& block = program.global_block();
  if (block.size() == 0) warn_once("the program has no operators: running it does nothing");

  Feeds checked;
  for (const auto& [name, tensor] : feeds) {
    const Var* var = block.find_var(name);
    if (!var) {
      warn_once(cat("feed names ", name, ", which the program does not have: it is ignored"));
      continue;
    }
    checked.emplace(name, checked_feed(*var, tensor));
  }

  const std::shared_ptr<Compiled> compiled = compiled_for(program, checked, fetches, options);
  Scope& scope = options.scope ? *options.scope : global_scope();

  std::vector<Tensor> inputs;
  inputs.reserve(compiled->feed_names.size());
  for (const std::string& name : compiled->feed_names) inputs.push_back(checked.at(name));

  RunSettings settings;
  // Seed 0 asks for fresh numbers in every run, also where a run changes nothing.
  settings.process_seed = process_seed_ + runs_.fetch_add(1, std::memory_order_relaxed);
  settings.check_nan_inf = checks_nan_inf();
  settings.poll = options.poll;
  const TeamLease lease(options.threads > 0 ? options.threads : num_threads());
  settings.team = lease.team();
  settings.cut_bytes = options.cut_bytes;

  std::unique_ptr<Frame> frame = compiled->take(scope.id());
  const size_t binds_before = frame->bind_count();
  std::vector<Variable> results;
  if (compiled->plan->writes_states) {
    std::unique_lock lock(scope.run_lock());
    frame->run(inputs, scope, settings);
    results = frame->take_fetches();
  } else {
    std::shared_lock lock(scope.run_lock());
    frame->run(inputs, scope, settings);
    results = frame->take_fetches();
  }
  {
    std::lock_guard lock(mutex_);
    counters_.binds += frame->bind_count() - binds_before;
  }
  // A frame whose run failed is dropped with its half-made state; this one is whole.
  compiled->give_back(std::move(frame));
  return results;
}

Tensor Executor::run_one(const Program& program, const Feeds& feeds, const std::string& fetch,
                         RunOptions options) {
  return std::as_const(run(program, feeds, {fetch}, std::move(options)).front()).tensor();
}

}  // namespace trireme
