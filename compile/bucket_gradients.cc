// Gradients that replicas sum are summed together, and stand one behind the other where their
// memory is fixed: one long sum instead of many. So is whatever the ranks of a ring reduce.
//
// Replicas of one process sum all of them at the end of the backward part: no core is idle before.
// What goes to other processes leaves as soon as a few megabytes of it are complete, and travels
// while the backward part goes on. The first bucket is small, so that the way is not empty for
// long. Which gradients go together depends on the graph alone, and on nothing that is fetched: it
// is the same on all ranks.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "compile/passes.h"

namespace trireme {
namespace {

constexpr int64_t kFirstBytes = 1 << 20, kBucketBytes = 4 << 20;

struct Gradient {
  int value, sum;
  int complete;   // node: behind it nobody writes it, or reads it before the sum
  int node;       // that sums it now
  int needed;     // the first node that reads the sum; the end where none does
  bool in_place;  // nobody but the sum sees what is summed
};

// What is done alike may go together: the ring, its operation, the type.
using Way = std::tuple<std::string, std::string, DType>;

// Its memory is the frame's from the beginning, and its size is known.
bool has_fixed_memory(const Graph& graph, int value) {
  const ValueInfo& info = graph.values[value].info;
  const int node = graph.values[value].node;
  return info.shape.known() && info.lod_level == 0 &&
         (info.dtype == DType::float32 || info.dtype == DType::float64) && node >= 0 &&
         !graph.nodes[node].schema->trait().host && graph.nodes[node].regions.empty();
}

bool goes_by_ring(const Node& node) { return node.schema->trait().exchange == Exchange::by_ring; }

bool sums_gradients(const Node& node) {
  const OpTraits& trait = node.schema->trait();
  if (goes_by_ring(node)) return std::get<std::string>(node.attrs->at("way")) == "all_reduce";
  return trait.exchange == Exchange::sum && trait.effect && !node.ins.empty();
}

Way way_of(const Graph& graph, const Node& node, int value) {
  const auto text = [&](const char* name) {
    return goes_by_ring(node) ? std::get<std::string>(node.attrs->at(name)) : "";
  };
  return {text("ring"), text("op"), graph.values[value].info.dtype};
}

// Who uses values, by value.
struct Uses {
  explicit Uses(const Graph& graph)
      : first_read(graph.values.size(), static_cast<int>(graph.nodes.size())),
        last(graph.values.size(), -1),
        summed(graph.values.size(), 0) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      const bool sums = sums_gradients(node);
      const auto read = [&](int value) {
        if (value < 0) return;
        first_read[value] = std::min(first_read[value], static_cast<int>(n));
        if (sums) ++summed[value];
        if (!sums) last[value] = static_cast<int>(n);
      };
      for (int value : node.ins) read(value);
      for (const Region& region : node.regions) {
        for (const auto& link : region.reads) read(link.outer);
      }
      for (int value : node.outs) {
        if (value >= 0 && !sums) last[value] = static_cast<int>(n);
      }
    }
  }

  std::vector<int> first_read;  // node; the end where there is none
  std::vector<int> last;        // node that is no sum; -1 where there is none
  std::vector<int> summed;      // how often
};

// In the order in which they are complete.
std::map<Way, std::vector<Gradient>> find_gradients(const Graph& graph) {
  const Uses uses(graph);
  const std::vector<bool> outlives = graph.outliving();
  std::map<Way, std::vector<Gradient>> found;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!sums_gradients(node)) continue;
    for (size_t i = 0; i < node.ins.size(); ++i) {
      const int value = node.ins[i], last = uses.last[value], here = static_cast<int>(n);
      const bool alone = graph.values[value].node >= 0 && !outlives[value] &&
                         uses.summed[value] == 1 && last < here;
      found[way_of(graph, node, value)].push_back(
          {.value = value,
           .sum = node.outs[i],
           .complete = last < 0 ? here : std::min(last, here),
           .node = here,
           .needed = uses.first_read[node.outs[i]],
           .in_place = alone || !goes_by_ring(node)});
    }
  }
  for (auto& [way, gradients] : found) {
    std::sort(gradients.begin(), gradients.end(), [](const Gradient& a, const Gradient& b) {
      return std::pair(a.complete, a.value) < std::pair(b.complete, b.value);
    });
  }
  return found;
}

// A bucket leaves behind the last of its gradients, and before anybody reads one of the sums.
std::vector<std::vector<Gradient>> cut(const Graph& graph, const std::vector<Gradient>& all) {
  std::vector<std::vector<Gradient>> buckets(1);
  int64_t bytes = 0;
  int needed = all.front().needed;
  for (const Gradient& gradient : all) {
    const int64_t most = buckets.size() == 1 ? kFirstBytes : kBucketBytes;
    if (bytes >= most || gradient.complete >= needed) {
      buckets.emplace_back();
      bytes = 0;
      needed = gradient.needed;
    }
    const ValueInfo& info = graph.values[gradient.value].info;
    if (info.shape.known()) {
      bytes += info.shape.count() * static_cast<int64_t>(size_of(info.dtype));
    }
    needed = std::min(needed, gradient.needed);
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
    const auto at = static_cast<int>(sum.ins.size());
    if (gradient.in_place) sum.shared.emplace_back(at, at);
    sum.ins.push_back(gradient.value);
    sum.outs.push_back(gradient.sum);
  }
  sum.in_counts = sum.out_counts = {static_cast<int>(sum.ins.size())};
  return sum;
}

// Of those that are summed in place, what stands one behind the other.
std::vector<int> fixed_values(const Graph& graph, const Node& sum) {
  std::vector<int> bucket;
  for (const auto& [in, out] : sum.shared) {
    if (has_fixed_memory(graph, sum.ins[in])) bucket.push_back(sum.ins[in]);
  }
  return bucket;
}

}  // namespace

bool bucket_gradients(Graph& graph, const Target& target) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), sums_gradients)) return false;
  graph.buckets.clear();
  std::map<int, std::vector<Node>> behind;  // by node
  for (const auto& [way, gradients] : find_gradients(graph)) {
    const bool travels = graph.across_processes || !std::get<0>(way).empty();
    for (const std::vector<Gradient>& each :
         travels ? cut(graph, gradients) : std::vector<std::vector<Gradient>>{gradients}) {
      const int last =
          std::max_element(each.begin(), each.end(), [](const Gradient& a, const Gradient& b) {
            return a.node < b.node;
          })->node;
      Node sum = sum_of(graph, each);
      std::vector<int> bucket = fixed_values(graph, sum);
      if (bucket.size() > 1 && target.shared_memory) graph.buckets.push_back(std::move(bucket));
      behind[travels ? each.back().complete : last].push_back(std::move(sum));
    }
  }
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!sums_gradients(nodes[n])) graph.nodes.push_back(std::move(nodes[n]));
    for (Node& sum : behind[static_cast<int>(n)]) graph.nodes.push_back(std::move(sum));
  }
  graph.keep_nodes(std::vector<bool>(graph.nodes.size(), true));  // values learn who makes them
  return graph.nodes.size() != nodes.size() || graph.across_processes || !graph.buckets.empty();
}

}  // namespace trireme
