// Inside the executor: what a plan was compiled for, and the plan with its frames.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "compile/plan.h"
#include "runtime/executor.h"

namespace trireme {

std::vector<PlanSignature::Feed> facts_of(const Feeds& feeds);

// What a plan was compiled for. Extents are not part of it: they are bound later.
struct Executor::Key {
  uint64_t program = 0;
  uint64_t version = 0;
  bool prune = false;
  bool keep_optimizers = false;
  std::vector<std::string> passes_off;
  std::string graphviz;  // who asks for pictures gets a plan that is drawn there
  int devices = 1;
  ParallelOptions parallel;
  std::vector<std::string> fetches;
  std::vector<std::pair<std::string, FeedFacts>> feeds;

  // What of the program is compiled; null: all of it.
  std::shared_ptr<Program> reached(const Program& whole) const {
    if (!prune) return nullptr;
    std::vector<std::string> names;
    for (const auto& [name, facts] : feeds) names.push_back(name);
    return keep_optimizers ? prune_keeping_optimizers(whole, names, fetches)
                           : trireme::prune(whole, names, fetches);
  }

  // Alone, a program runs in one way.
  bool ran_as(uint64_t asked, int on_devices, const ParallelOptions* in_way) const {
    if (program != asked) return false;
    const bool any_way = !replicated() || !in_way;
    return on_devices == 0 || (devices == on_devices && (any_way || parallel == *in_way));
  }
  bool replicated() const {
    return devices > 1 || parallel.others || parallel.loss_gradient == LossGradient::fed;
  }

  bool matches(const Key& other) const {
    if (program != other.program || version != other.version || prune != other.prune ||
        keep_optimizers != other.keep_optimizers || passes_off != other.passes_off ||
        graphviz != other.graphviz || devices != other.devices || parallel != other.parallel ||
        fetches != other.fetches || feeds.size() != other.feeds.size()) {
      return false;
    }
    for (size_t i = 0; i < feeds.size(); ++i) {
      if (feeds[i].first != other.feeds[i].first || !same(feeds[i].second, other.feeds[i].second)) {
        return false;
      }
    }
    return true;
  }

  // The same question without making a key of it: every step asks.
  bool matches(const Program& asked, std::span<const Feeds> fed,
               const std::vector<std::string>& fetched, const ParallelOptions& asked_parallel,
               const RunOptions& options) const {
    return program == asked.id() && version == asked.version() && parallel == asked_parallel &&
           devices == static_cast<int>(fed.size()) && prune == options.use_prune &&
           keep_optimizers == options.keep_optimizers && fetches == fetched &&
           passes_off == options.passes_off && graphviz == options.graphviz &&
           std::all_of(fed.begin(), fed.end(), [this](const Feeds& one) { return takes(one); });
  }

 private:
  bool takes(const Feeds& fed) const {
    if (feeds.size() != fed.size()) return false;
    auto it = fed.begin();
    for (const auto& [name, facts] : feeds) {
      const Tensor& tensor = it->second;
      if (name != it->first || facts.dtype != tensor.dtype() ||
          !agrees(facts.shape, tensor.shape())) {
        return false;
      }
      ++it;
    }
    return true;
  }
  static bool same(const FeedFacts& a, const FeedFacts& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
  // An extent that the plan fixed must be the fed one; what it left open may be anything.
  static bool agrees(const Shape& compiled, const Shape& fed) {
    if (compiled.rank() != fed.rank()) return false;
    for (int i = 0; i < fed.rank(); ++i) {
      if (compiled[i].known() && !(compiled[i] == fed[i])) return false;
    }
    return true;
  }
};

// A plan and the replicas that are not running. They hold memory and bindings between steps.
struct Executor::Compiled {
  Key key;
  ReplicaPlan made;
  std::vector<PassReport> passes;
  std::vector<size_t> feed_numbers;  // by the graph's feed: its number among those of the key
  std::vector<bool> goes_up;  // by the graph's feed: nobody but copies to the device reads it
  int samples = -1;           // the number of the one whose rows are the batch; -1: none is
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Replicas>> idle;
  using Shapes = std::vector<std::vector<PlanSignature::Feed>>;  // by device
  std::vector<Shapes> bound;  // what it was bound to lately, the last one at the end

  void number_feeds(const Program& program, const Graph& graph);
  void find_what_goes_up();
  void remember(std::span<const Feeds> feeds);
  std::vector<PlanSignature> signatures() const;
  std::string digest() const;  // as bound last; empty: nobody can say

  std::unique_ptr<Replicas> take(uint64_t scope_id) {
    std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Replicas>(made);
    const auto bound_to = std::find_if(idle.begin(), idle.end(), [&](const auto& replicas) {
      return replicas->bound_scope() == scope_id;
    });
    const auto taken = bound_to == idle.end() ? idle.end() - 1 : bound_to;
    std::unique_ptr<Replicas> replicas = std::move(*taken);
    idle.erase(taken);
    return replicas;
  }
  void give_back(std::unique_ptr<Replicas> replicas, std::span<const Feeds> bound_to) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(replicas));
    remember(bound_to);
  }
};

}  // namespace trireme
