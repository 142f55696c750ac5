// Gradients that replicas sum are summed together, and stand one behind the other where their
// memory is fixed: one long sum instead of many.
//
// Replicas of one process sum all of them at the end of the backward part: no core is idle before.
// What goes to other processes leaves as soon as a few megabytes of it are complete, and travels
// while the backward part goes on. The first bucket is small, so that the way is not empty for
// long. Which gradients go together depends on the graph alone: it is the same on all ranks.
#include <algorithm>
#include <map>
#include <set>

#include "compile/passes.h"

namespace trireme {
namespace {

constexpr int64_t kFirstBytes = 1 << 20, kBucketBytes = 4 << 20;

struct Gradient {
  int value, sum;
  int complete;  // node: behind it nobody writes it, or reads it before the sum
  int node;      // that sums it now
};

// Its memory is the frame's from the beginning, and its size is known.
bool has_fixed_memory(const Graph& graph, int value) {
  const ValueInfo& info = graph.values[value].info;
  const int node = graph.values[value].node;
  return info.shape.known() && info.lod_level == 0 &&
         (info.dtype == DType::float32 || info.dtype == DType::float64) && node >= 0 &&
         !graph.nodes[node].schema->trait().host && graph.nodes[node].regions.empty();
}

bool sums_gradients(const Node& node) {
  const OpTraits& trait = node.schema->trait();
  return trait.exchange == Exchange::sum && trait.effect && !node.ins.empty();
}

// By type, in the order in which they are complete.
std::map<DType, std::vector<Gradient>> find_gradients(const Graph& graph) {
  std::vector<int> used(graph.values.size(), -1);  // by value: by which node last
  const auto use = [&](int value, size_t node) {
    if (value >= 0) used[static_cast<size_t>(value)] = static_cast<int>(node);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (sums_gradients(node)) continue;
    for (int value : node.ins) use(value, n);
    for (int value : node.outs) use(value, n);
    for (const Region& region : node.regions) {
      for (const auto& link : region.reads) use(link.outer, n);
    }
  }
  std::map<DType, std::vector<Gradient>> found;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!sums_gradients(node)) continue;
    for (size_t i = 0; i < node.ins.size(); ++i) {
      const int last = used[static_cast<size_t>(node.ins[i])];
      found[graph.values[node.ins[i]].info.dtype].push_back(
          {.value = node.ins[i],
           .sum = node.outs[i],
           .complete = last < 0 ? static_cast<int>(n) : std::min(last, static_cast<int>(n)),
           .node = static_cast<int>(n)});
    }
  }
  for (auto& [dtype, gradients] : found) {
    std::sort(gradients.begin(), gradients.end(), [](const Gradient& a, const Gradient& b) {
      return std::pair(a.complete, a.value) < std::pair(b.complete, b.value);
    });
  }
  return found;
}

std::vector<std::vector<Gradient>> cut(const Graph& graph, const std::vector<Gradient>& all) {
  std::vector<std::vector<Gradient>> buckets(1);
  int64_t bytes = 0;
  for (const Gradient& gradient : all) {
    if (bytes >= (buckets.size() == 1 ? kFirstBytes : kBucketBytes)) {
      buckets.emplace_back();
      bytes = 0;
    }
    const ValueInfo& info = graph.values[gradient.value].info;
    if (info.shape.known()) {
      bytes += info.shape.count() * static_cast<int64_t>(size_of(info.dtype));
    }
    buckets.back().push_back(gradient);
  }
  return buckets;
}

Node sum_of(const Graph& graph, std::vector<Gradient> gradients) {
  // In the order in which they are made, which is that of their values.
  std::sort(gradients.begin(), gradients.end(),
            [](const Gradient& a, const Gradient& b) { return a.value < b.value; });
  Node sum = graph.nodes[gradients.back().node];
  sum.ins.clear();
  sum.outs.clear();
  sum.shared.clear();
  for (const Gradient& gradient : gradients) {
    sum.shared.emplace_back(static_cast<int>(sum.ins.size()), static_cast<int>(sum.ins.size()));
    sum.ins.push_back(gradient.value);
    sum.outs.push_back(gradient.sum);
  }
  sum.in_counts = sum.out_counts = {static_cast<int>(sum.ins.size())};
  return sum;
}

}  // namespace

bool bucket_gradients(Graph& graph, const Target& target) {
  if (!graph.replicated) return false;
  std::set<int> fetched;  // the caller gets their memory
  for (const auto& fetch : graph.fetches) fetched.insert(fetch.value);
  graph.buckets.clear();
  std::map<int, std::vector<Node>> behind;  // by node
  size_t sums = 0;
  for (const auto& [dtype, gradients] : find_gradients(graph)) {
    const auto buckets = graph.across_processes ? cut(graph, gradients)
                                                : std::vector<std::vector<Gradient>>{gradients};
    for (const std::vector<Gradient>& each : buckets) {
      const int last =
          std::max_element(each.begin(), each.end(), [](const Gradient& a, const Gradient& b) {
            return a.node < b.node;
          })->node;
      Node sum = sum_of(graph, each);
      std::vector<int> bucket;
      for (size_t i = 0; i < sum.ins.size(); ++i) {
        if (has_fixed_memory(graph, sum.ins[i]) && !fetched.contains(sum.outs[i])) {
          bucket.push_back(sum.ins[i]);
        }
      }
      if (bucket.size() > 1 && target.shared_memory) graph.buckets.push_back(std::move(bucket));
      behind[graph.across_processes ? each.back().complete : last].push_back(std::move(sum));
      ++sums;
    }
  }
  if (sums == 0) return false;
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!sums_gradients(nodes[n])) graph.nodes.push_back(std::move(nodes[n]));
    for (Node& sum : behind[static_cast<int>(n)]) graph.nodes.push_back(std::move(sum));
  }
  graph.keep_nodes(std::vector<bool>(graph.nodes.size(), true));  // values learn who makes them
  return graph.nodes.size() != nodes.size() || graph.across_processes || !graph.buckets.empty();
}

}  // namespace trireme
