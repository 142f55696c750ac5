// What an executor remembers and tells of its plans: shapes, passes, memory.
#include "runtime/executor_plans.h"

#include <sstream>

namespace trireme {
namespace {

constexpr size_t kMostShapes = 16;  // that a plan remembers

bool same_feed(const PlanSignature::Feed& known, const std::string& name, const Tensor& tensor) {
  return known.name == name && known.dtype == tensor.dtype() && known.shape == tensor.shape() &&
         known.lod == tensor.lod();
}

bool same_feeds(const std::vector<std::vector<PlanSignature::Feed>>& known,
                std::span<const Feeds> feeds) {
  return std::equal(
      known.begin(), known.end(), feeds.begin(), feeds.end(), [](const auto& a, const Feeds& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
          return same_feed(x, y.first, y.second);
        });
      });
}

}  // namespace

std::vector<PlanSignature::Feed> facts_of(const Feeds& feeds) {
  std::vector<PlanSignature::Feed> list;
  for (const auto& [name, tensor] : feeds) {
    list.push_back({name, tensor.dtype(), tensor.shape(), tensor.lod()});
  }
  return list;
}

// Every device is fed the names of the key, in their order: a step takes them by number. What is
// fed to a state or a gradient is not the batch.
void Executor::Compiled::number_feeds(const Program& program, const Graph& graph) {
  for (const auto& feed : graph.feeds) {
    const auto found = std::find_if(key.feeds.begin(), key.feeds.end(),
                                    [&](const auto& fed) { return fed.first == feed.name; });
    promise(found != key.feeds.end(), "a graph's feed is one of those that are given");
    feed_numbers.push_back(static_cast<size_t>(found - key.feeds.begin()));
  }
  for (size_t i = 0; i < key.feeds.size() && samples < 0; ++i) {
    const std::string& name = key.feeds[i].first;
    const bool batch =
        !program.global_block().var(name).persistable() && !name.ends_with(kGradSuffix);
    if (batch) samples = static_cast<int>(i);
  }
}

// What one replica is fed may lie on its device already, where nothing of the host reads it.
void Executor::Compiled::find_what_goes_up() {
  const Graph& graph = made.plan->graph;
  goes_up.assign(graph.feeds.size(), !made.replicated && key.devices == 1);
  const std::vector<bool> outlives = graph.outliving();
  for (size_t i = 0; i < graph.feeds.size(); ++i) {
    const int fed = graph.feeds[i].value;
    const auto region_reads = [fed](const Region& region) {
      return std::any_of(region.reads.begin(), region.reads.end(),
                         [fed](const auto& link) { return link.outer == fed; }) ||
             std::any_of(region.ports.begin(), region.ports.end(),
                         [fed](const auto& port) { return port.from == fed || port.like == fed; });
    };
    const auto host_reads = [&](const Node& node) {
      const bool reads = std::find(node.ins.begin(), node.ins.end(), fed) != node.ins.end();
      return (reads && node.schema->trait().transfer != Transfer::upload) ||
             std::any_of(node.regions.begin(), node.regions.end(), region_reads);
    };
    if (outlives[static_cast<size_t>(fed)] ||
        std::any_of(graph.nodes.begin(), graph.nodes.end(), host_reads)) {
      goes_up[i] = false;
    }
  }
}

// The caller holds the mutex. Shapes that were there before ask for no memory.
void Executor::Compiled::remember(std::span<const Feeds> feeds) {
  const auto found = std::find_if(bound.rbegin(), bound.rend(),
                                  [&](const Shapes& known) { return same_feeds(known, feeds); });
  if (found != bound.rend()) {
    std::rotate(found.base() - 1, found.base(), bound.end());
    return;
  }
  if (bound.size() == kMostShapes) bound.erase(bound.begin());
  Shapes& shapes = bound.emplace_back();
  for (const Feeds& device : feeds) shapes.push_back(facts_of(device));
}

std::string Executor::Compiled::digest() const {
  return idle.size() == 1 ? idle.back()->digest() : "";
}

// Only the last shapes are still bound, so only they have a digest. The caller holds the mutex.
std::vector<PlanSignature> Executor::Compiled::signatures() const {
  std::vector<PlanSignature> plans;
  for (const Shapes& shapes : bound) {
    PlanSignature& plan = plans.emplace_back();
    plan.fetches = key.fetches;
    plan.feeds = shapes;
  }
  if (!plans.empty()) plans.back().digest = digest();
  return plans;
}

std::vector<PlanSignature> Executor::plans_of(const Program& program, int devices,
                                              const ParallelOptions* parallel) const {
  std::lock_guard lock(mutex_);
  std::vector<PlanSignature> plans;
  for (const auto& entry : cache_) {
    if (!entry->key.ran_as(program.id(), devices, parallel)) continue;
    if (entry->key.version != program.version()) continue;
    std::lock_guard frames(entry->mutex);
    for (PlanSignature& plan : entry->signatures()) plans.push_back(std::move(plan));
  }
  return plans;
}

const Executor::Compiled* Executor::last_of(const Program& program, int devices,
                                            const ParallelOptions* parallel) const {
  const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const auto& entry) {
    return entry->key.ran_as(program.id(), devices, parallel);
  });
  return found == cache_.end() ? nullptr : found->get();
}

std::string Executor::digest(const Program& program, int devices,
                             const ParallelOptions* parallel) const {
  std::lock_guard lock(mutex_);
  const Compiled* last = last_of(program, devices, parallel);
  if (!last) return "";
  std::lock_guard frames(last->mutex);
  return last->digest();
}

std::string Executor::report(const Program& program, int devices,
                             const ParallelOptions* parallel) const {
  std::lock_guard lock(mutex_);
  const Compiled* last = last_of(program, devices, parallel);
  if (!last) return "no plan yet: the program has not run\n";
  std::lock_guard frames(last->mutex);
  std::ostringstream out;
  out << "passes\n";
  for (const PassReport& pass : last->passes) {
    out << "  " << pass.name << ": " << pass.nodes_before << " nodes before, " << pass.nodes_after
        << " after" << (pass.changed ? "" : ", changed nothing") << "\n";
  }
  if (!last->idle.empty()) out << last->idle.back()->report();
  return out.str();
}

void Executor::drop_temporaries(const Program& program) {
  std::lock_guard lock(mutex_);
  for (const auto& entry : cache_) {
    if (entry->key.program != program.id()) continue;
    std::lock_guard frames(entry->mutex);
    entry->idle.clear();
  }
}

Executor::ArenaBytes Executor::arena(const Program& program) {
  std::lock_guard lock(mutex_);
  ArenaBytes bytes;
  for (const auto& entry : cache_) {
    if (entry->key.program != program.id()) continue;
    std::lock_guard frames(entry->mutex);
    for (const auto& replicas : entry->idle) {
      bytes.held += replicas->arena_bytes();
      bytes.live += replicas->live_bytes();
    }
  }
  return bytes;
}

}  // namespace trireme
